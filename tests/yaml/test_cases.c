// SPDX-License-Identifier: Apache-2.0
//
// Runs every DIR/*.yaml as a catalogue or cluster file and compares with what the file itself expects:
//     #! 304@5 words     an error RS0304 on this line at column 5, whose message holds the words
//     #!^ 304@5 words    the same, for the line above this one (and above other such lines)
//     #= text            the next line of the dump of what was read
//     #% train 4 infer 2 the sides' ranks, for a cluster
// An error that no line expects fails, as does an expectation that is not met. With more than one directory, each code
// from 300 to 399 must have come up somewhere.

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/yaml/load.h"

static int failures, expectations;
static bool seen[1000];

static void complain(const char *path, int line, const char *what, const char *more) {
  printf("%s:%d: %s: %s\n", path, line, what, more);
  failures++;
}

// Takes the first "NAME:line:col: error[RSxxxx]: ...words...\n" out of the messages; false if there is none.
static bool strike(char *messages, const char *name, int line, int col, int code, const char *words) {
  char head[512];
  snprintf(head, sizeof head, "%s:%d:%d: error[RS%04d]: ", name, line, col, code);
  for (char *at = messages; (at = strstr(at, head)) != NULL; at++) {
    char *end = strchr(at, '\n');
    size_t len = strlen(words);
    for (char *w = at; end && w + len <= end; w++) {
      if (memcmp(w, words, len) != 0) continue;
      memset(at, '-', (size_t)(end - at));
      return true;
    }
  }
  return false;
}

static void check_errors(const char *path, const char *name, const char *text, char *messages) {
  int line = 1, target = 1;
  for (const char *at = text; *at; line++) {
    const char *end = strchrnul(at, '\n');
    char row[1024];
    snprintf(row, sizeof row, "%.*s", (int)(end - at), at);
    char *mark = strstr(row, "#!");
    bool above = mark && mark[2] == '^';
    if (!above) target = line;
    int code, col, used = 0;
    if (mark && sscanf(mark + 2 + above, " %d@%d %n", &code, &col, &used) == 2) {
      expectations++;
      seen[code] = true;
      if (!strike(messages, name, target, col, code, mark + 2 + above + used))
        complain(path, line, "not reported", mark);
    }
    at = *end ? end + 1 : end;
  }
  char *left = strstr(messages, ": error[");
  if (left) complain(path, 0, "not expected, among these", messages);
}

static void check_dump(const char *path, const char *text, const char *dump) {
  bool any = strstr(text, "\n#= ") != NULL;
  int line = 0;
  for (const char *at = text; any && *at;) {
    const char *end = strchrnul(at, '\n');
    line++;
    if (!strncmp(at, "#= ", 3)) {
      const char *got = strchrnul(dump, '\n');
      expectations++;
      if (end - at - 3 != got - dump || memcmp(at + 3, dump, (size_t)(got - dump)) != 0) {
        char row[512];
        snprintf(row, sizeof row, "%.*s", (int)(got - dump), dump);
        complain(path, line, "the dump has", row);
      }
      dump = *got ? got + 1 : got;
    }
    at = *end ? end + 1 : end;
  }
  if (any && *dump) complain(path, line, "the dump goes on", dump);
}

static void run(enum load_kind kind, const char *dir, const char *name) {
  char path[2048];
  size_t len;
  long train = 4, infer = 4;
  snprintf(path, sizeof path, "%s/%s", dir, name);
  char *text = load_file(path, &len);
  const char *worlds = strstr(text, "#% ");
  if (worlds && sscanf(worlds, "#%% train %ld infer %ld", &train, &infer) != 2) complain(path, 0, "unreadable", "#%");
  int before = expectations;
  struct load load = load_text(kind, name, text, len, train, infer);
  check_errors(path, name, text, load.messages);
  check_dump(path, text, load.dump);
  if (expectations == before) complain(path, 0, "expects nothing", "");
  load_free(&load);
  free(text);
}

static void run_dir(enum load_kind kind, const char *dir) {
  struct dirent **names;
  int count = scandir(dir, &names, NULL, alphasort);
  if (count < 0) {
    perror(dir);
    exit(2);
  }
  for (int i = 0; i < count; i++) {
    const char *dot = strrchr(names[i]->d_name, '.');
    if (dot && !strcmp(dot, ".yaml")) run(kind, dir, names[i]->d_name);
    free(names[i]);
  }
  free(names);
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: test_cases CATALOGUE_DIR CLUSTER_DIR\n");
    return 2;
  }
  seen[RSC_YAML_UTF8] = true; // in test_edges: an editor would spoil the file
  seen[RSC_YAML_DEPTH] = true;
  run_dir(LOAD_CATALOGUE, argv[1]);
  run_dir(LOAD_CLUSTER, argv[2]);
#define RSC_CODE(name, number, sentence)                                                                               \
  if (number >= 300 && !seen[number]) complain("diag.def", number, "no case reports", #name);
#include "compiler/base/diag.def"
#undef RSC_CODE
  printf("%d expectations, %d failures\n", expectations, failures);
  return failures != 0;
}
