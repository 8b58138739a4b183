// SPDX-License-Identifier: Apache-2.0
//
// reshard: dispatches `reshard VERB ...` to the verb's own file. In: argv. Out: the verb's exit status.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/cli.h"
#include "tools/verbs.h"

struct verb {
  const char *name, *summary;
  int (*run)(int argc, char **argv);
};

static const struct verb verbs[] = {
#define VERB(name, summary) {#name, summary, verb_##name},
#include "tools/verbs.def"
#undef VERB
    {NULL, NULL, NULL}};

static int help(void) {
  printf("reshard - look at, prove and replay plans made by reshardc\n\n"
         "Usage: reshard VERB [ARGUMENTS]\n"
         "       reshard VERB --help\n"
         "       reshard --version\n\nVerbs:\n");
  for (const struct verb *v = verbs; v->name; v++) printf("  %-9s %s\n", v->name, v->summary);
  printf("\nExit status: 0 yes (valid, same, done), 1 no (invalid, different), 2 trouble (usage, files).\n"
         "A file named - is standard input or output. Colour is used on a terminal unless NO_COLOR is set.\n");
  return cli_finish("reshard", CLI_YES);
}

static int unknown(const char *word) {
  const char *names[sizeof verbs / sizeof *verbs] = {NULL};
  size_t count = 0;
  for (const struct verb *v = verbs; v->name; v++) names[count++] = v->name;
  const char *near = cli_suggest(word, names, count);
  if (near) return cli_usage("reshard", "there is no verb '%s'; did you mean '%s'?", word, near);
  return cli_usage("reshard", "there is no verb '%s'", word);
}

// The verb sees "reshard NAME" as argv[0], so that its messages and getopt's name it.
static int dispatch(const struct verb *v, int argc, char **argv) {
  char name[64];
  snprintf(name, sizeof name, "reshard %s", v->name);
  argv[0] = name;
  return v->run(argc, argv);
}

int main(int argc, char **argv) {
  if (argc < 2) return cli_usage("reshard", "a verb is missing");
  const char *word = argv[1];
  if (!strcmp(word, "--help") || !strcmp(word, "-h")) return help();
  if (!strcmp(word, "help") && argc == 2) return help();
  if (!strcmp(word, "--version")) {
    printf("reshard " CLI_VERSION "\n");
    return cli_finish("reshard", CLI_YES);
  }
  if (!strcmp(word, "help")) { // `reshard help VERB` is `reshard VERB --help`
    static char option[] = "--help";
    word = argv[1] = argv[2];
    argv[2] = option;
    argc = 3;
  }
  for (const struct verb *v = verbs; v->name; v++)
    if (!strcmp(v->name, word)) return dispatch(v, argc - 1, argv + 1);
  return unknown(word);
}
