/* SPDX-License-Identifier: Apache-2.0
 *
 * verbs: what tools/reshard.c may call. See verbs.def.
 */
#ifndef RESHARD_TOOLS_VERBS_H
#define RESHARD_TOOLS_VERBS_H

#ifdef __cplusplus
extern "C" {
#endif

#define VERB(name, summary) int verb_##name(int argc, char **argv);
#include "tools/verbs.def"
#undef VERB

#ifdef __cplusplus
}
#endif

#endif
