/* SPDX-License-Identifier: Apache-2.0
 *
 * In: errors, warnings and notes with their places. Out: finished renderings, through one callback, in order.
 */
#include "compiler/base/diag.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/base/vec.h"

enum { CAP = 20, SHOWN_MAX = 160, NAME_MAX_SHOWN = 4096 };

struct rsc_diag {
  struct rsc_arena *arena;
  const struct rsc_sources *sources;
  rsc_diag_fn fn;
  void *user;
  RSC_VEC(char);      /* the message being built, without its NUL */
  bool held, dropped; /* dropped: the last message was past the cap, so its notes are too */
  enum rsc_severity severity;
  enum rsc_code code;
  size_t errors, stage_errors, stage_warnings;
  struct rsc_span last;      /* of an error */
  const char *said[2 * CAP]; /* the heads of this stage's messages */
  size_t said_count;
};

struct rsc_diag *rsc_diag_new(struct rsc_arena *arena, const struct rsc_sources *sources, rsc_diag_fn fn, void *user) {
  struct rsc_diag *diag = RSC_NEW(arena, struct rsc_diag);
  diag->arena = arena;
  diag->sources = sources;
  diag->fn = fn;
  diag->user = user;
  return diag;
}

static void put(struct rsc_diag *diag, const char *bytes, size_t len) {
  RSC_RESERVE(diag->arena, diag, diag->len + len + 1);
  memcpy(diag->at + diag->len, bytes, len);
  diag->len += len;
}

static void put_v(struct rsc_diag *diag, const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, format, args);
  if (n > 0) {
    RSC_RESERVE(diag->arena, diag, diag->len + (size_t)n + 1);
    vsnprintf(diag->at + diag->len, (size_t)n + 1, format, again);
    diag->len += (size_t)n;
  }
  va_end(again);
}

static void __attribute__((format(printf, 2, 3))) put_f(struct rsc_diag *diag, const char *format, ...) {
  va_list args;
  va_start(args, format);
  put_v(diag, format, args);
  va_end(args);
}

static void deliver(struct rsc_diag *diag) {
  if (diag->held && diag->fn) {
    diag->at[diag->len] = 0;
    diag->fn(diag->user, diag->severity, diag->code, diag->at);
  }
  diag->held = false;
  diag->len = 0;
}

static bool continues(unsigned char c) {
  return (c & 0xC0) == 0x80;
}

/* One byte of a source line as it is shown: control characters could move a terminal's cursor. */
static char shown(char c) {
  return ((unsigned char)c < 32 && c != '\t') || c == 127 ? '?' : c;
}

/* The source line, at most SHOWN_MAX bytes of it around the caret, and the caret line below. */
static void put_line(struct rsc_diag *diag, struct rsc_span span) {
  size_t len, at = 0;
  const char *text = rsc_sources_text(diag->sources, span.file, &len);
  for (uint32_t line = 1; line < span.line; line++) {
    const char *nl = at < len ? memchr(text + at, '\n', len - at) : NULL;
    if (!nl) return;
    at = (size_t)(nl - text) + 1;
  }
  const char *row = text + at, *nl = at < len ? memchr(row, '\n', len - at) : NULL;
  size_t width = nl ? (size_t)(nl - row) : len - at;
  if (width && row[width - 1] == '\r') width--;
  size_t col = span.col ? span.col - 1 : 0, mark = span.len ? span.len : 1;
  if (col > width) col = width;
  if (mark > width - col) mark = width > col ? width - col : 1;
  size_t first = col > SHOWN_MAX / 2 && width > SHOWN_MAX ? col - SHOWN_MAX / 2 : 0;
  while (first < col && continues((unsigned char)row[first])) first++;
  size_t last = width - first > SHOWN_MAX ? first + SHOWN_MAX : width;
  if (col + mark > last) mark = last > col ? last - col : 1;
  const char *lead = first ? "..." : "";
  put_f(diag, "    %s", lead);
  for (size_t i = first; i < last; i++) put(diag, (char[]){shown(row[i])}, 1);
  put_f(diag, "%s\n    %*s", last < width ? "..." : "", (int)strlen(lead), "");
  for (size_t i = first; i < col; i++) {
    if (!continues((unsigned char)row[i])) put(diag, row[i] == '\t' ? "\t" : " ", 1);
  }
  put(diag, "^", 1);
  for (size_t i = col + 1; i < col + mark; i++) {
    if (i >= width || !continues((unsigned char)row[i])) put(diag, "~", 1);
  }
  put(diag, "\n", 1);
}

static void put_place(struct rsc_diag *diag, struct rsc_span span) {
  if (span.file < 0) return;
  put_f(diag, "%.*s:%u:%u: ", NAME_MAX_SHOWN, rsc_sources_name(diag->sources, span.file), span.line, span.col);
}

/* Both sides may include one file: what is wrong with it is said once. */
static bool said_before(struct rsc_diag *diag) {
  diag->at[diag->len] = 0;
  for (size_t i = 0; i < diag->said_count; i++) {
    if (strcmp(diag->said[i], diag->at) == 0) return true;
  }
  if (diag->said_count < 2 * CAP) diag->said[diag->said_count++] = rsc_arena_strdup(diag->arena, diag->at, diag->len);
  return false;
}

static void begin(struct rsc_diag *diag, enum rsc_severity severity, enum rsc_code code, struct rsc_span span,
                  const char *format, va_list args) {
  deliver(diag);
  size_t *count = severity == RSC_ERROR ? &diag->stage_errors : &diag->stage_warnings;
  if (severity == RSC_ERROR) {
    diag->errors++;
    diag->last = span;
  }
  diag->dropped = *count >= CAP;
  if (diag->dropped) {
    ++*count;
    return;
  }
  put_place(diag, span);
  put_f(diag, "%s[RS%04d]: ", severity == RSC_ERROR ? "error" : "warning", (int)code);
  put_v(diag, format, args);
  put(diag, "\n", 1);
  if (said_before(diag)) {
    diag->dropped = true;
    diag->len = 0;
    return;
  }
  ++*count;
  diag->held = true;
  diag->severity = severity;
  diag->code = code;
  if (span.file >= 0) put_line(diag, span);
}

void rsc_error(struct rsc_diag *diag, enum rsc_code code, struct rsc_span span, const char *format, ...) {
  va_list args;
  va_start(args, format);
  begin(diag, RSC_ERROR, code, span, format, args);
  va_end(args);
}

void rsc_warning(struct rsc_diag *diag, enum rsc_code code, struct rsc_span span, const char *format, ...) {
  va_list args;
  va_start(args, format);
  begin(diag, RSC_WARNING, code, span, format, args);
  va_end(args);
}

void rsc_note(struct rsc_diag *diag, struct rsc_span span, const char *format, ...) {
  if (diag->dropped || !diag->held) return;
  put_place(diag, span);
  put_f(diag, "note: ");
  va_list args;
  va_start(args, format);
  put_v(diag, format, args);
  va_end(args);
  put(diag, "\n", 1);
  if (span.file >= 0) put_line(diag, span);
}

static void say_more(struct rsc_diag *diag, enum rsc_severity severity, size_t count) {
  if (count <= CAP) return;
  const char *word = severity == RSC_ERROR ? "error" : "warning";
  diag->held = true;
  diag->severity = severity;
  diag->code = RSC_CODE_NONE;
  put_f(diag, "%s: %zu more %s%s not shown\n", word, count - CAP, word, count - CAP == 1 ? "" : "s");
  deliver(diag);
}

bool rsc_diag_flush(struct rsc_diag *diag) {
  deliver(diag);
  say_more(diag, RSC_WARNING, diag->stage_warnings);
  say_more(diag, RSC_ERROR, diag->stage_errors);
  bool clean = diag->stage_errors == 0;
  diag->stage_errors = diag->stage_warnings = diag->said_count = 0;
  diag->dropped = false;
  return clean;
}

struct rsc_span rsc_diag_last(const struct rsc_diag *diag) {
  return diag->last;
}

size_t rsc_diag_errors(const struct rsc_diag *diag) {
  return diag->errors;
}

const char *rsc_diag_explain(const char *text) {
  if (text[0] == 'R' && text[1] == 'S') text += 2;
  if (!isdigit((unsigned char)*text)) return NULL;
  char *end;
  unsigned long number = strtoul(text, &end, 10);
  if (*end) return NULL;
  switch (number) { /* a number given twice does not compile */
#define RSC_CODE(name, code, sentence)                                                                                 \
  case code:                                                                                                           \
    return sentence;
#include "compiler/base/diag.def"
#undef RSC_CODE
  default:
    return NULL;
  }
}
