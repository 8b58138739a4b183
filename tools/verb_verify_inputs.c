// SPDX-License-Identifier: Apache-2.0
//
// In: an opened plan and the files it may have been made from. Out: whether the meaning of those files is what the plan
// says of its inputs. Spelling, order and comments do not matter: digests are of what the layouts mean.
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/cli.h"
#include "tools/reshardc_options.h"
#include "tools/verify_inputs.h"

static bool load(void *user, const char *path, char **text, size_t *len) {
  char *reason = NULL;
  (void)user;
  if (cli_read_file(path, text, len, &reason)) return true;
  *text = reason;
  return false;
}

static void diagnose(void *user, enum rsc_severity severity, enum rsc_code code, const char *rendered) {
  (void)user, (void)code;
  if (severity == RSC_ERROR) cli_diagnostic(stderr, rendered);
}

// The command line of the reshardc that would make this plan.
static char **command_line(const struct verify_inputs *in, const struct rsp_plan *plan, int *argc,
                           char numbers[4][24]) {
  const struct rsp_header *h = plan->header;
  char **argv = calloc(20 + in->more_count, sizeof *argv);
  if (!argv) abort();
  int n = 0;
  const char *const fixed[] = {"reshardc",  in->train,  in->infer,   "--stop-after", "emit",
                               "--staging", numbers[0], "--max-ops", numbers[1]};
  snprintf(numbers[0], sizeof numbers[0], "%" PRIu64, h->staging_limit);
  snprintf(numbers[1], sizeof numbers[1], "%" PRIu32, h->max_ops);
  for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) argv[n++] = (char *)(uintptr_t)fixed[i];
  if (in->cluster) {
    argv[n++] = (char *)(uintptr_t) "--cluster";
    argv[n++] = (char *)(uintptr_t)in->cluster;
  }
  if (in->model) {
    argv[n++] = (char *)(uintptr_t) "--model";
    argv[n++] = (char *)(uintptr_t)in->model;
  }
  for (size_t i = 0; i < in->more_count; i++) argv[n++] = (char *)(uintptr_t)in->more[i];
  *argc = n;
  return argv;
}

// What the inputs come to, or why they come to nothing.
static int compile(const struct verify_inputs *in, const struct rsp_plan *plan, struct rsc_result *result) {
  struct reshardc_options options;
  char numbers[4][24];
  int argc;
  char **argv = command_line(in, plan, &argc, numbers);
  enum rsc_outcome outcome = RSC_TROUBLE;
  optind = 1; // getopt has read another command line before
  if (reshardc_options_read(argc, argv, &options) == RESHARDC_COMPILE) {
    options.compile.load = load;
    options.compile.chunk = plan->header->chunk;
    options.compile.max_peers = plan->header->max_peers;
    outcome = rsc_compile(&options.compile, diagnose, NULL, NULL, NULL, result);
    reshardc_options_free(&options);
  }
  free(argv);
  return outcome == RSC_COMPILED ? CLI_YES : outcome == RSC_REJECTED ? CLI_NO : CLI_TROUBLE;
}

static const struct rsp_input *input_of(const struct rsp_plan *plan, uint32_t kind) {
  for (uint64_t i = 0; i < plan->input_count; i++) {
    if (plan->inputs[i].kind == kind) return &plan->inputs[i];
  }
  return NULL;
}

static int compare(const struct verify_inputs *given, const struct rsp_plan *plan, const struct rsp_plan *made,
                   json_t *object) {
  static const struct {
    uint32_t kind;
    const char *name, *says;
  } inputs[] = {{RSP_INPUT_TRAIN, "train", "the training layout"},
                {RSP_INPUT_INFER, "infer", "the inference layout"},
                {RSP_INPUT_CLUSTER, "cluster", "the cluster"}};
  json_t *verdicts = json_object();
  int status = CLI_YES;
  for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
    const struct rsp_input *a = input_of(plan, inputs[i].kind), *b = input_of(made, inputs[i].kind);
    bool same = a && b ? !memcmp(a->digest, b->digest, sizeof a->digest) : !a && !b;
    json_object_set_new(verdicts, inputs[i].name, json_boolean(same));
    if (!same) status = CLI_NO;
    bool assumed = inputs[i].kind == RSP_INPUT_CLUSTER && !given->cluster;
    if (!object)
      printf("inputs: %s %s what this plan was made from%s\n", inputs[i].says, same ? "means" : "does NOT mean",
             assumed && !same ? "; no --cluster was given, so the default one was assumed" : "");
  }
  if (object)
    json_object_set_new(object, "inputs", verdicts);
  else
    json_decref(verdicts);
  return status;
}

int verify_inputs(const char *program, const struct verify_inputs *inputs, const struct rsp_plan *plan,
                  json_t *object) {
  struct rsc_result result = {0};
  struct rsp_plan made;
  struct rsp_error error;
  if (!inputs->train && !inputs->infer) return CLI_YES;
  int status = compile(inputs, plan, &result);
  if (status == CLI_NO) {
    if (object)
      json_object_set_new(object, "inputs", json_null());
    else
      printf("inputs: they do not compile, so this plan was not made from them\n");
  }
  if (status != CLI_YES) return status;
  if (rsp_open_memory(result.plan, result.plan_bytes, &made, &error) == RSP_OK) {
    status = compare(inputs, plan, &made, object);
    rsp_close(&made);
  } else {
    status = cli_trouble(program, "the compiler made no valid plan of these inputs: %s", error.text);
  }
  free(result.plan);
  return status;
}
