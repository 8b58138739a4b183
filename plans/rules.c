// SPDX-License-Identifier: Apache-2.0
//
// In: the number of a rule. Out: its name and sentence.
#include "plans/rules.h"

#include <stddef.h>

#include "plans/plan.h"

static const struct {
  int number;
  const char *name, *sentence;
} rules[] = {
#define RSP_RULE(NAME, number, sentence) {number, #NAME, sentence},
#include "plans/rules.def"
#undef RSP_RULE
};
static const unsigned rule_count = sizeof rules / sizeof rules[0];

int rsp_rule_at(unsigned i) {
  return i < rule_count ? rules[i].number : 0;
}

const char *rsp_rule_name(int rule) {
  for (unsigned i = 0; i < rule_count; i++)
    if (rules[i].number == rule) return rules[i].name;
  return NULL;
}

const char *rsp_rule_sentence(int rule) {
  for (unsigned i = 0; i < rule_count; i++)
    if (rules[i].number == rule) return rules[i].sentence;
  return NULL;
}
