/* SPDX-License-Identifier: Apache-2.0
 *
 * Does a plan belong to these layouts? The compiler reads them again and the digests of their meaning are compared.
 */
#ifndef RESHARD_TOOLS_VERIFY_INPUTS_H
#define RESHARD_TOOLS_VERIFY_INPUTS_H

#include <jansson.h>

#include "plans/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

struct verify_inputs {
  const char *train, *infer, *cluster, *model; /* NULL: not given */
  const char **more;                           /* -D and -I with their values, as reshardc takes them */
  size_t more_count;
};

/* CLI_YES if the plan was made from these inputs, or none were given; CLI_NO if not, or they do not compile;
 * CLI_TROUBLE. Says so on stdout, or as "inputs" in `object` if that is not NULL. */
int verify_inputs(const char *program, const struct verify_inputs *inputs, const struct rsp_plan *plan, json_t *object);

#ifdef __cplusplus
}
#endif

#endif
