// SPDX-License-Identifier: Apache-2.0
//
// rsc_glob_match: what matches, what does not, and that no pattern takes long.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/base/glob.h"

static const struct {
  const char *glob, *name;
  bool match;
} cases[] = {
    {"", "", true},
    {"", "a", false},
    {"a", "", false},
    {"*", "", true},
    {"*", "a.b/c", true},
    {"**", "abc", true},
    {"abc", "abc", true},
    {"abc", "abcd", false},
    {"bc", "abc", false},
    {"a*", "abc", true},
    {"*c", "abc", true},
    {"*b", "abc", false},
    {"a*c", "ac", true},
    {"a*b*c", "aXbXbYc", true},
    {"a*b*c", "acb", false},
    {"*.weight", "model.layers.0.mlp.gate.weight", true},
    {"*.experts.*.bias", "l.0.experts.17.bias", true},
    {"*.experts.*.bias", "l.0.experts.bias", false},
    {"?", "a", true},
    {"?", "", false},
    {"?", "ab", false},
    {"?", "\xC3\xB6", true}, // a character, not a byte
    {"??", "\xE2\x82\xAC", false},
    {"*??", "\xE2\x82\xAC", false},
    {"*?", "\xE2\x82\xAC", true},
    {"[\xC3\xA4\xC3\xB6]x", "\xC3\xB6x", true},
    {"[\xC3\xA4\xC3\xB6]x", "\xC3\xBCx", false},
    {"l.[012].w", "l.1.w", true},
    {"l.[012].w", "l.3.w", false},
    {"l.[0-9].w", "l.7.w", true},
    {"l.[0-9].w", "l.17.w", false},
    {"[!0-9]", "x", true},
    {"[!0-9]", "3", false},
    {"[]]", "]", true},
    {"[!]]", "]", false},
    {"[]a]", "a", true},
    {"[a-]", "-", true},
    {"[-a]", "-", true},
    {"[a-c]", "-", false},
    {"[^a]", "^", true}, // only ! turns a set round
    {"[^a]", "b", false},
    {"[", "[", true}, // never closed: itself
    {"a[b", "a[b", true},
    {"a[b", "ab", false},
    {"[]", "[]", true},
    {"[!]", "[!]", true},
    {"*[0-9]", "layer.10", true},
    {"*[0-9]x", "1x2x", true},
    {"*[0-9]x", "1xx", false},
    {"a\\*", "a\\b", true}, // a backslash is itself
    {"A", "a", false},
};

// Stars before a letter that is not there: each star tried at each place would never end.
static bool many_stars(void) {
  enum { N = 2000 };
  char *glob = malloc(2 * N + 2), *name = malloc(N + 1);
  for (size_t i = 0; i < N; i++) {
    memcpy(glob + 2 * i, "*a", 2);
    name[i] = 'a';
  }
  name[N] = '\0';
  memcpy(glob + 2 * N, "b", 2);
  bool match = rsc_glob_match(glob, name);
  free(glob);
  free(name);
  return match;
}

int main(void) {
  int failures = many_stars();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    if (rsc_glob_match(cases[i].glob, cases[i].name) == cases[i].match) continue;
    printf("'%s' and '%s': expected %s\n", cases[i].glob, cases[i].name, cases[i].match ? "a match" : "none");
    failures++;
  }
  printf("%zu cases, %d failures\n", sizeof cases / sizeof *cases, failures);
  return failures != 0;
}
