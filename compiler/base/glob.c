/* SPDX-License-Identifier: Apache-2.0
 *
 * In: a pattern and a name. Out: whether the pattern matches the whole name.
 *
 * A star first matches nothing; on a mismatch the last star takes one more byte. Only the last star ever needs to,
 * because what an earlier one matched is as short as it can be; so there is no deep backtracking.
 */
#include "compiler/base/glob.h"

#include <stddef.h>
#include <string.h>

/* The length of the UTF-8 character at s, 1 for a stray byte; s is not at its end. */
static size_t character(const char *s) {
  size_t n = 1;
  if (((unsigned char)*s & 0xC0) != 0xC0) return 1;
  while (n < 4 && ((unsigned char)s[n] & 0xC0) == 0x80) n++;
  return n;
}

/* Characters compare as their bytes do: so orders UTF-8. */
static int compare(const char *a, size_t n, const char *b, size_t m) {
  int order = memcmp(a, b, n < m ? n : m);
  return order ? order : (n > m) - (n < m);
}

/* The end of the set that begins at glob[0] == '[', past its ']', or NULL if it is not closed. */
static const char *set_end(const char *glob) {
  const char *s = glob + 1;
  if (*s == '!') s++;
  if (*s == ']') s++;
  s = strchr(s, ']');
  return s ? s + 1 : NULL;
}

static bool in_set(const char *set, const char *end, const char *c, size_t len) {
  const char *s = set + 1, *last = end - 1;
  bool not = *s == '!', found = false;
  if (not ) s++;
  for (const char *first = s; s < last && (s == first || *s != ']');) {
    size_t n = character(s);
    const char *hi = s + n;
    if (*hi == '-' && hi + 1 < last) {
      size_t m = character(hi + 1);
      found = found || (compare(c, len, s, n) >= 0 && compare(c, len, hi + 1, m) <= 0);
      s = hi + 1 + m;
    } else {
      found = found || compare(c, len, s, n) == 0;
      s = hi;
    }
  }
  return found != not ;
}

/* Matches one element of the pattern, not a star, with one character of the name; moves both past it. */
static bool step(const char **glob, const char **name) {
  size_t len = character(*name);
  const char *end = **glob == '[' ? set_end(*glob) : NULL;
  if (end) {
    if (!in_set(*glob, end, *name, len)) return false;
    *glob = end;
    *name += len;
    return true;
  }
  if (**glob != '?' && **glob != **name) return false;
  *name += **glob == '?' ? len : 1;
  *glob += 1;
  return true;
}

bool rsc_glob_match(const char *glob, const char *name) {
  const char *after_star = NULL, *taken = NULL;
  while (*name) {
    if (*glob == '*') {
      after_star = ++glob;
      taken = name;
    } else if (*glob == '\0' || !step(&glob, &name)) {
      if (!after_star) return false;
      glob = after_star;
      name = taken += character(taken);
    }
  }
  while (*glob == '*') glob++;
  return *glob == '\0';
}
