// SPDX-License-Identifier: Apache-2.0
//
// reshard layout check: does a layout written by hand say what an engine's loader was seen to do? In: argv: the layout,
// and the recording as a layout, which `python -m reshard.record write` made. Out: the differences on stdout, the exit
// status.
//
// Both are compiled against the same training side, which holds every tensor of the recording whole, and the two plans
// are compared by meaning.
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "plans/words.h"
#include "tools/cli/cli.h"
#include "tools/plan_diff.h"
#include "tools/plan_text.h"
#include "tools/reshardc_options.h"
#include "tools/verbs.h"

static const char help[] =
    "reshard layout check - does a layout say what an engine's loader does\n\n"
    "Usage: reshard layout check LAYOUT RECORDING [-D N=V]... [-I DIR]... [--model FILE]\n\n"
    "  LAYOUT     an inference layout; -D, -I and --model are for it, as reshardc takes them\n"
    "  RECORDING  what the loader was seen to do, as a layout: python -m reshard.record write\n\n"
    "Every buffer on every rank must hold the same elements of the same tensors, with the same padding and "
    "conversions.\n"
    "How the layout says it does not count.\n\n"
    "Exit status: 0 it does, 1 it does not or does not compile, 2 trouble.\n";

static const char checkpoint[] = "(the tensors of the recording)"; // the training side, which is no file

struct check {
  const char *program, *layout, *recording;
  char *train; // the text of the training side
  size_t train_len;
  bool unreadable;
};

static bool load(void *user, const char *path, char **text, size_t *len) {
  struct check *c = user;
  char *reason = NULL;
  if (strcmp(path, checkpoint) != 0) {
    if (cli_read_file(path, text, len, &reason)) return true;
    c->unreadable = c->unreadable || !strcmp(path, c->layout);
    *text = reason;
    return false;
  }
  *text = malloc(c->train_len + 1);
  if (*text) memcpy(*text, c->train, c->train_len + 1);
  *len = c->train_len;
  return *text != NULL;
}

// A recording declares its tensors, then its mesh: the training side has the same tensors and another mesh.
static int make_train(struct check *c) {
  static const char whole[] = "mesh whole [one: 1];\non whole { for name in tensors(\"*\") { buffer \"{name}\"; } }\n";
  char *text = NULL, *reason = NULL;
  size_t len = 0;
  if (!cli_read_file(c->recording, &text, &len, &reason)) {
    int status = cli_trouble(c->program, "%s: %s", c->recording, reason ? reason : "out of memory");
    free(reason);
    return status;
  }
  const char *mesh = strstr(text, "\nmesh ");
  if (!mesh) {
    free(text);
    return cli_trouble(c->program, "%s is no recording: make it with 'python -m reshard.record write'", c->recording);
  }
  size_t tensors = (size_t)(mesh - text) + 1;
  c->train_len = tensors + sizeof whole - 1;
  c->train = malloc(c->train_len + 1);
  if (!c->train) abort();
  memcpy(c->train, text, tensors);
  memcpy(c->train + tensors, whole, sizeof whole);
  free(text);
  return CLI_YES;
}

static void diagnose(void *user, enum rsc_severity severity, enum rsc_code code, const char *rendered) {
  (void)user, (void)code;
  if (severity == RSC_ERROR) cli_diagnostic(stderr, rendered);
}

static int compile(struct check *c, const char *layout, char **more, int more_count, struct rsc_result *result) {
  const char *const fixed[] = {"reshardc", checkpoint, layout, "--stop-after", "emit"};
  const int fixed_count = (int)(sizeof fixed / sizeof fixed[0]);
  struct reshardc_options options;
  enum rsc_outcome outcome = RSC_TROUBLE;
  char **argv = calloc((size_t)(fixed_count + more_count) + 1, sizeof *argv);
  if (!argv) abort();
  for (int i = 0; i < fixed_count; i++) argv[i] = (char *)(uintptr_t)fixed[i];
  for (int i = 0; i < more_count; i++) argv[fixed_count + i] = more[i];
  optind = 1; // getopt has read another command line before
  if (reshardc_options_read(fixed_count + more_count, argv, &options) == RESHARDC_COMPILE) {
    options.compile.load = load;
    options.compile.load_user = c;
    outcome = rsc_compile(&options.compile, diagnose, NULL, NULL, NULL, result);
    reshardc_options_free(&options);
  }
  free(argv);
  if (outcome == RSC_COMPILED) return CLI_YES;
  return outcome == RSC_REJECTED && !c->unreadable ? CLI_NO : CLI_TROUBLE;
}

static struct rsp_str str_of(const struct plan_row *row) {
  return (struct rsp_str){0, row->name_len};
}

static void tell_buffer(const struct plan_buffer_change *b) {
  const struct plan_row *row = b->new_row ? b->new_row : b->old_row;
  printf("buffer '");
  plan_text_str(stdout, row->name, str_of(row));
  printf("' on ranks ");
  plan_text_ranks(stdout, b->ranks, b->rank_count);
  if (b->change == PLAN_REMOVED) {
    printf(": the loader fills it, the layout lacks it\n");
  } else if (b->change == PLAN_ADDED) {
    printf(": the layout has it, the loader fills no such buffer\n");
  } else {
    if (b->dtype) {
      printf(": %s in the layout, %s in the engine", rsp_dtype_word(b->new_row->dtype),
             rsp_dtype_word(b->old_row->dtype));
    }
    if (b->shape) {
      printf(": shape");
      plan_text_dims(stdout, b->new_row->dims, b->new_row->ndim);
      printf(" in the layout,");
      plan_text_dims(stdout, b->old_row->dims, b->old_row->ndim);
      printf(" in the engine");
    }
    printf("%s\n", b->elements && !b->shape ? ": it holds other elements than the loader puts there" : "");
  }
}

static int tell(const struct check *c, const struct plan_diff *diff) {
  uint32_t recorded = diff->old_plan->header->infer_world, written = diff->new_plan->header->infer_world;
  uint64_t differences = recorded != written;
  if (recorded != written)
    printf("the loader was recorded on %u rank%s, the layout has %u\n", recorded, rsp_plural(recorded), written);
  for (size_t i = 0; i < diff->buffer_count; i++) {
    const struct plan_row *row = diff->buffers[i].new_row ? diff->buffers[i].new_row : diff->buffers[i].old_row;
    if (row->side != RSC_INFER) continue;
    tell_buffer(&diff->buffers[i]);
    differences++;
  }
  if (!differences) printf("%s says what the loader does\n", c->layout);
  return differences ? CLI_NO : CLI_YES;
}

static int compare(const struct check *c, const struct rsc_result *recorded, const struct rsc_result *written) {
  struct rsp_plan old_plan, new_plan;
  struct rsp_error error;
  struct plan_diff diff;
  if (rsp_open_memory(recorded->plan, recorded->plan_bytes, &old_plan, &error) != RSP_OK)
    return cli_trouble(c->program, "the compiler made no valid plan: %s", error.text);
  int status = CLI_TROUBLE;
  if (rsp_open_memory(written->plan, written->plan_bytes, &new_plan, &error) != RSP_OK) {
    cli_trouble(c->program, "the compiler made no valid plan: %s", error.text);
  } else {
    if (plan_diff_of(&old_plan, &new_plan, &diff)) {
      status = tell(c, &diff);
      plan_diff_free(&diff);
    } else {
      cli_trouble(c->program, "out of memory");
    }
    rsp_close(&new_plan);
  }
  rsp_close(&old_plan);
  return status;
}

static int check(struct check *c, char **more, int more_count) {
  struct rsc_result recorded = {.plan = NULL}, written = {.plan = NULL};
  int status = make_train(c);
  if (status == CLI_YES) {
    status = compile(c, c->recording, NULL, 0, &recorded);
    if (status != CLI_YES)
      status = cli_trouble(c->program, "%s does not compile, so it is no recording as it was written", c->recording);
  }
  if (status == CLI_YES) status = compile(c, c->layout, more, more_count, &written);
  if (status == CLI_YES) status = compare(c, &recorded, &written);
  free(recorded.plan);
  free(written.plan);
  free(c->train);
  return status == CLI_TROUBLE ? status : cli_finish(c->program, status);
}

static const struct option options[] = {
    {"model", required_argument, NULL, 'm'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};

int verb_layout(int argc, char **argv) {
  struct check c = {.program = argv[0]};
  char **more = calloc(2 * (size_t)argc + 1, sizeof *more);
  int count = 0, option, status;
  if (!more) abort();
  optind = 1;
  while ((option = getopt_long(argc, argv, "D:I:h", options, NULL)) != -1) {
    if (option == 'h' || option == '?') {
      free(more);
      return option == 'h' ? cli_help(help) : CLI_TROUBLE; // getopt has said why
    }
    more[count++] = (char *)(uintptr_t)(option == 'D' ? "-D" : option == 'I' ? "-I" : "--model");
    more[count++] = optarg;
  }
  if (optind == argc || strcmp(argv[optind], "check") != 0) {
    status = cli_usage(c.program, "say what to do: 'check' is what there is");
  } else if (argc - optind != 3) {
    status = cli_usage(c.program, "check takes a layout and a recording, %d given", argc - optind - 1);
  } else {
    c.layout = argv[optind + 1];
    c.recording = argv[optind + 2];
    status = check(&c, more, count);
  }
  free(more);
  return status;
}
