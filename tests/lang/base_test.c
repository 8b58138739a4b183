/* SPDX-License-Identifier: Apache-2.0
 *
 * The ground that the language stands on: diagnostics, interned names, names in messages.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/base/diag.h"
#include "compiler/base/intern.h"
#include "compiler/base/names.h"

static int failures;

#define CHECK(what)                                                                                                    \
  do {                                                                                                                 \
    if (!(what)) failures++, printf("%s:%d: %s\n", __FILE__, __LINE__, #what);                                         \
  } while (0)

struct heard {
  int errors, warnings, rests;
  char last[4096];
};

static void hear(void *user, enum rsc_severity severity, enum rsc_code code, const char *rendered) {
  struct heard *h = user;
  if (code == RSC_CODE_NONE)
    h->rests++;
  else if (severity == RSC_ERROR)
    h->errors++;
  else
    h->warnings++;
  snprintf(h->last, sizeof h->last, "%s", rendered);
}

static void test_diag(struct rsc_arena *arena) {
  struct heard h = {0};
  struct rsc_sources *sources = rsc_sources_new(arena);
  int file = rsc_sources_add(sources, "a", "one\ntwo three\r\n\n", 16);
  struct rsc_span here = {file, 2, 5, 5}, past = {file, 9, 3, 1}, none = {.file = -1};
  struct rsc_diag *diag = rsc_diag_new(arena, sources, hear, &h);
  CHECK(rsc_diag_flush(diag));
  rsc_error(diag, RSC_SYNTAX, here, "bad %s", "three");
  rsc_note(diag, none, "so it is");
  CHECK(h.errors == 0);
  rsc_error(diag, RSC_SYNTAX, here, "bad %s", "three"); /* said already */
  rsc_note(diag, none, "and this note goes with it");
  CHECK(h.errors == 1);
  CHECK(!strcmp(h.last, "a:2:5: error[RS0010]: bad three\n    two three\n        ^~~~~\nnote: so it is\n"));
  rsc_warning(diag, RSC_SYNTAX, past, "past the end");
  CHECK(!rsc_diag_flush(diag));
  CHECK(h.warnings == 1 && h.errors == 1 && rsc_diag_errors(diag) == 2);
  for (int i = 0; i < 25; i++) {
    rsc_error(diag, RSC_SYNTAX, none, "number %d", i);
    rsc_note(diag, none, "a note");
  }
  CHECK(!rsc_diag_flush(diag));
  CHECK(h.errors == 21 && h.rests == 1 && !strcmp(h.last, "error: 5 more errors not shown\n"));
  rsc_error(diag, RSC_SYNTAX, none, "number 0"); /* a new stage */
  CHECK(!rsc_diag_flush(diag) && h.errors == 22);
  CHECK(rsc_diag_flush(diag));
}

static void test_explain(void) {
  CHECK(rsc_diag_explain("RS0031") && rsc_diag_explain("31") == rsc_diag_explain("RS0031"));
  CHECK(!rsc_diag_explain("RS9999") && !rsc_diag_explain("RS") && !rsc_diag_explain("") && !rsc_diag_explain("31x"));
}

static void test_intern(struct rsc_arena *arena) {
  struct rsc_interner *in = rsc_interner_new(arena);
  char name[32];
  for (int round = 0; round < 2; round++) {
    for (uint32_t i = 0; i < 1000; i++) {
      size_t len = (size_t)snprintf(name, sizeof name, "name.%u", i);
      CHECK(rsc_intern(in, name, len)->id == i);
    }
  }
  CHECK(rsc_intern_count(in) == 1000 && !strcmp(rsc_intern_at(in, 7)->text, "name.7"));
  CHECK(!rsc_intern_find(in, "name", 4) && rsc_intern_find(in, "name.7", 6) == rsc_intern_at(in, 7));
  CHECK(rsc_intern(in, "", 0)->len == 0);
}

static bool alike(const char *a, const char *b) {
  return rsc_names_look_alike(a, strlen(a), b, strlen(b));
}
static size_t distance(const char *a, const char *b) {
  return rsc_name_distance(a, strlen(a), b, strlen(b), 3);
}

static void test_names(struct rsc_arena *arena) {
  CHECK(alike("a b", "a\xC2\xA0"
                     "b") &&
        alike("ab", "a\xE2\x80\x8B"
                    "b") &&
        alike("w", "w ") && alike("w", "w\t"));
  CHECK(alike("\xC3\xA9", "e\xCC\x81") && alike("a", "\xD0\xB0") && alike("x\xEF\xBB\xBF", "x"));
  CHECK(!alike("a", "a") && !alike("a", "b") && !alike("ab", "a") && !alike("\xFF", "\xFE") &&
        !alike("a\xE2\x80", "a"));
  CHECK(distance("abc", "abc") == 0 && distance("abc", "acb") == 1 && distance("abc", "abcd") == 1);
  CHECK(distance("", "ab") == 2 && distance("kitten", "sitting") == 3 && distance("abcdef", "uvwxyz") == 4);
  CHECK(!strcmp(rsc_name_shown(arena, "a\nb\xC3\xA9 ", 6, true), "a\\x0Ab\\xC3\\xA9\\x20"));
  CHECK(!strcmp(rsc_name_shown(arena, "\xC3\xA9", 2, false), "\xC3\xA9"));
  struct rsc_guess guess;
  rsc_guess_begin(&guess, "tp2", 3);
  rsc_guess_offer(&guess, "pp", 2);
  rsc_guess_offer(&guess, "tp", 2);
  rsc_guess_offer(&guess, "tp3", 3);
  CHECK(!strcmp(rsc_guess_text(arena, &guess), "; did you mean 'tp'?"));
  rsc_guess_begin(&guess, "zz", 2);
  rsc_guess_offer(&guess, "layers", 6);
  CHECK(!*rsc_guess_text(arena, &guess));
}

int main(void) {
  struct rsc_arena *arena = rsc_arena_new();
  test_diag(arena);
  test_explain();
  test_intern(arena);
  test_names(arena);
  rsc_arena_free(arena);
  return failures != 0;
}
