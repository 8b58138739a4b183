/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of the structural verifier by name; their sentences are in rules.def.
 */
#ifndef RSP_RULES_H
#define RSP_RULES_H

#ifdef __cplusplus
extern "C" {
#endif

enum rsp_rule {
  RSP_RULE_NONE = 0,
#define RSP_RULE(NAME, number, sentence) RSP_RULE_##NAME = number,
#include "plans/rules.def"
#undef RSP_RULE
};

/* The i-th rule of rules.def, from 0; 0 past the last. */
int rsp_rule_at(unsigned i);
/* "SECTION_SIZE", or NULL. */
const char *rsp_rule_name(int rule);

#ifdef __cplusplus
}
#endif

#endif
