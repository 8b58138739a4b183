/* SPDX-License-Identifier: Apache-2.0
 *
 * In: names as bytes. Out: how to show them, and which of many was probably meant.
 */
#include "compiler/base/names.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

const char *rsc_name_shown(struct rsc_arena *arena, const char *name, size_t len, bool bytes) {
  char *out = rsc_arena_alloc(arena, len * 4 + 1);
  size_t at = 0;
  for (size_t i = 0; i < len; i++) {
    unsigned char c = (unsigned char)name[i];
    bool edge = c == ' ' && (i == 0 || i + 1 == len);
    bool escape = c < 32 || c == 127 || (bytes && (c > 127 || edge));
    if (escape)
      at += (size_t)sprintf(out + at, "\\x%02X", c);
    else
      out[at++] = (char)c;
  }
  return out;
}

/* One code point of text[*i]; a byte that is no UTF-8 stands for itself, above all code points. */
static uint32_t next_point(const char *text, size_t len, size_t *i) {
  unsigned char c = (unsigned char)text[*i];
  size_t more = c >= 0xF0 && c < 0xF8 ? 3 : c >= 0xE0 && c < 0xF0 ? 2 : c >= 0xC2 && c < 0xE0 ? 1 : 0;
  uint32_t point = more == 3 ? c & 7u : more == 2 ? c & 15u : more == 1 ? c & 31u : c;
  if (c >= 128 && (!more || more >= len - *i)) {
    (*i)++;
    return 0x110000u + c;
  }
  for (size_t k = 1; k <= more; k++) {
    unsigned char t = (unsigned char)text[*i + k];
    if ((t & 0xC0) != 0x80) {
      (*i)++;
      return 0x110000u + c;
    }
    point = point << 6 | (t & 63u);
  }
  *i += more + 1;
  return point;
}

static bool in(uint32_t p, uint32_t lo, uint32_t hi) {
  return p >= lo && p <= hi;
}

/* Characters without ink, and marks that may be composed into the letter before them. */
static bool invisible(uint32_t p) {
  return p < 33 || p == 127 || in(p, 0x80, 0xA0) || p == 0xAD || in(p, 0x300, 0x36F) || p == 0x1680 ||
         in(p, 0x2000, 0x200F) || in(p, 0x2028, 0x202F) || in(p, 0x205F, 0x206F) || p == 0x3000 ||
         in(p, 0xFE00, 0xFE0F) || p == 0xFEFF;
}

/* The ASCII letter that a Latin, Greek or Cyrillic one is taken for, or the point itself. */
static uint32_t ink(uint32_t p) {
  static const char composed[] = "AAAAAAACEEEEIIIIDNOOOOO*OUUUUYTsaaaaaaaceeeeiiiidnooooo/ouuuuyty"; /* C0..FF */
  static const struct {
    uint16_t from;
    char to;
  } twins[] = {{0x391, 'A'}, {0x392, 'B'}, {0x395, 'E'}, {0x39A, 'K'}, {0x39C, 'M'},  {0x39D, 'N'},  {0x39F, 'O'},
               {0x3A1, 'P'}, {0x3A4, 'T'}, {0x3A7, 'X'}, {0x3BF, 'o'}, {0x410, 'A'},  {0x412, 'B'},  {0x415, 'E'},
               {0x41A, 'K'}, {0x41C, 'M'}, {0x41D, 'H'}, {0x41E, 'O'}, {0x420, 'P'},  {0x421, 'C'},  {0x422, 'T'},
               {0x425, 'X'}, {0x430, 'a'}, {0x435, 'e'}, {0x43E, 'o'}, {0x440, 'p'},  {0x441, 'c'},  {0x443, 'y'},
               {0x445, 'x'}, {0x455, 's'}, {0x456, 'i'}, {0x458, 'j'}, {0x2010, '-'}, {0x2011, '-'}, {0x2212, '-'}};
  if (in(p, 0xC0, 0xFF)) return (uint32_t)composed[p - 0xC0];
  if (in(p, 0xFF01, 0xFF5E)) return p - 0xFF01 + '!';
  for (size_t i = 0; i < sizeof twins / sizeof *twins; i++) {
    if (twins[i].from == p) return (uint32_t)twins[i].to;
  }
  return p;
}

bool rsc_names_look_alike(const char *a, size_t a_len, const char *b, size_t b_len) {
  size_t i = 0, j = 0;
  if (a_len == b_len && memcmp(a, b, a_len) == 0) return false;
  for (;;) {
    uint32_t p = 0, q = 0;
    while (i < a_len && invisible(p = ink(next_point(a, a_len, &i)))) p = 0;
    while (j < b_len && invisible(q = ink(next_point(b, b_len, &j)))) q = 0;
    if (p != q) return false;
    if (!p) return true;
  }
}

static size_t least(size_t a, size_t b) {
  return a < b ? a : b;
}

size_t rsc_name_distance(const char *a, size_t a_len, const char *b, size_t b_len, size_t limit) {
  enum { ROW = 512 };
  size_t gap = a_len > b_len ? a_len - b_len : b_len - a_len;
  if (gap > limit) return limit + 1;
  while (a_len && b_len && *a == *b) a++, b++, a_len--, b_len--;
  while (a_len && b_len && a[a_len - 1] == b[b_len - 1]) a_len--, b_len--;
  if (b_len >= ROW) return limit + 1;
  uint16_t rows[3][ROW + 1], *older = rows[0], *old = rows[1], *now = rows[2];
  for (size_t j = 0; j <= b_len; j++) old[j] = (uint16_t)j;
  for (size_t i = 1; i <= a_len; i++) {
    size_t best = now[0] = (uint16_t)(i < 0xFFFF ? i : 0xFFFF);
    for (size_t j = 1; j <= b_len; j++) {
      size_t d = least(old[j - 1] + (a[i - 1] == b[j - 1] ? 0u : 1u), least(old[j], now[j - 1]) + 1u);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) d = least(d, older[j - 2] + 1u);
      now[j] = (uint16_t)d;
      best = least(best, d);
    }
    if (best > limit) return limit + 1;
    uint16_t *free_row = older;
    older = old, old = now, now = free_row;
  }
  return least(old[b_len], limit + 1);
}

void rsc_guess_begin(struct rsc_guess *guess, const char *wanted, size_t len) {
  *guess = (struct rsc_guess){.wanted = wanted, .wanted_len = len};
  guess->distance = len < 3 ? 2 : len < 6 ? 3 : 4; /* one more than is still near */
}

void rsc_guess_offer(struct rsc_guess *guess, const char *candidate, size_t len) {
  if (guess->distance == 0) return;
  if (rsc_names_look_alike(guess->wanted, guess->wanted_len, candidate, len)) {
    guess->best = candidate;
    guess->best_len = len;
    guess->distance = 0;
    return;
  }
  size_t d = rsc_name_distance(guess->wanted, guess->wanted_len, candidate, len, guess->distance - 1);
  if (d >= guess->distance || d >= guess->wanted_len || d >= len) return;
  guess->best = candidate;
  guess->best_len = len;
  guess->distance = d;
}

const char *rsc_guess_text(struct rsc_arena *arena, const struct rsc_guess *guess) {
  if (!guess->best) return "";
  bool alike = rsc_names_look_alike(guess->wanted, guess->wanted_len, guess->best, guess->best_len);
  const char *best = rsc_name_shown(arena, guess->best, guess->best_len, alike);
  const char *wanted = rsc_name_shown(arena, guess->wanted, guess->wanted_len, true);
  size_t size = strlen(best) + strlen(wanted) + 80;
  char *out = rsc_arena_alloc(arena, size);
  if (alike)
    snprintf(out, size, "; did you mean '%s'? It looks the same, but these are the bytes '%s'", best, wanted);
  else
    snprintf(out, size, "; did you mean '%s'?", best);
  return out;
}
