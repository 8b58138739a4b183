// SPDX-License-Identifier: Apache-2.0
//
// test_render [--update] DIR: the whole rendering of DIR/{catalogue,cluster}.yaml must be DIR/{catalogue,cluster}.txt.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/yaml/load.h"

static int check(const char *dir, const char *name, enum load_kind kind, bool update) {
  char path[2048];
  size_t len, want_len = 0;
  snprintf(path, sizeof path, "%s/%s.yaml", dir, name);
  char *text = load_file(path, &len), *want = NULL;
  snprintf(path, sizeof path, "%s.yaml", name);
  struct load load = load_text(kind, path, text, len, 4, 4);
  snprintf(path, sizeof path, "%s/%s.txt", dir, name);
  if (update) {
    FILE *out = fopen(path, "w");
    if (!out || fputs(load.messages, out) < 0 || fclose(out) != 0) exit(2);
  }
  want = load_file(path, &want_len);
  int bad = strcmp(want, load.messages) != 0;
  if (bad) printf("%s: expected\n%s\nfound\n%s\n", path, want, load.messages);
  free(want);
  free(text);
  load_free(&load);
  return bad;
}

int main(int argc, char **argv) {
  bool update = argc == 3 && !strcmp(argv[1], "--update");
  if (argc != 2 + update) return 2;
  const char *dir = argv[1 + update];
  int failures = check(dir, "catalogue", LOAD_CATALOGUE, update) + check(dir, "cluster", LOAD_CLUSTER, update);
  return failures != 0;
}
