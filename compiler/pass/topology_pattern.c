/* SPDX-License-Identifier: Apache-2.0
 *
 * In: scalars of a cluster file. Out: patterns of names, and one after another the names they stand for.
 */
#include "compiler/pass/topology_pattern.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "compiler/base/check.h"

enum { DIGITS_MAX = 15 };

struct reader {
  struct rsc_arena *arena;
  struct rsc_diag *diag;
  const struct rsc_yaml *scalar;
  const char *what;
  int64_t max;
};

static bool fail(const struct reader *r, size_t lo, size_t hi, const char *message) {
  struct rsc_span span = rsc_yaml_part(r->scalar, lo, hi > lo ? hi - lo : 1);
  rsc_error(r->diag, RSC_CLUSTER_PATTERN, span, "%s: %s", r->what, message);
  return false;
}

/* Digits at text[*at]; *width is how many. */
static bool scan_digits(const struct reader *r, size_t *at, size_t end, int64_t *value, size_t *width) {
  const char *text = r->scalar->u.scalar.text;
  size_t lo = *at;
  for (*value = 0; *at < end && text[*at] >= '0' && text[*at] <= '9'; (*at)++) {
    if (*at - lo >= DIGITS_MAX) return fail(r, lo, *at, "a number has at most 15 digits");
    *value = *value * 10 + (text[*at] - '0');
  }
  *width = *at - lo;
  return *width > 0 ? true : fail(r, lo, lo + 1, "a bracket holds numbers and ranges, as in [0-3,7]");
}

/* One number or range at text[*at, end). */
static bool read_range(const struct reader *r, size_t *at, size_t end, struct rsc_top_group *group) {
  const char *text = r->scalar->u.scalar.text;
  int64_t lo, hi;
  size_t start = *at, lo_width, hi_width;
  if (!scan_digits(r, at, end, &lo, &lo_width)) return false;
  hi = lo;
  hi_width = lo_width;
  if (*at < end && text[*at] == '-') {
    ++*at;
    if (!scan_digits(r, at, end, &hi, &hi_width)) return false;
  }
  bool padded = lo_width > 1 && text[start] == '0';
  if (hi < lo) return fail(r, start, *at, "a range goes upwards; write the smaller number first");
  if (padded && hi_width != lo_width)
    return fail(r, start, *at, "a range with leading zeros has equally many digits at both ends, as in [00-15]");
  if (hi_width > 1 && !padded && text[*at - hi_width] == '0' && hi != lo)
    return fail(r, start, *at, "the ends of a range have leading zeros both or neither, as in [00-15]");
  if (hi - lo >= r->max - (int64_t)group->len) return fail(r, start, *at, "this is more than a cluster may hold");
  for (int64_t i = lo; i <= hi; i++) {
    char digits[32];
    int n = snprintf(digits, sizeof digits, "%0*" PRId64, padded ? (int)lo_width : 0, i);
    *RSC_PUSH(r->arena, group) = rsc_arena_strdup(r->arena, digits, (size_t)n);
  }
  return true;
}

/* text[lo, hi) between the brackets. */
static bool read_group(const struct reader *r, size_t lo, size_t hi, struct rsc_top_group *group) {
  for (size_t at = lo;;) {
    if (!read_range(r, &at, hi, group)) return false;
    if (at == hi) return true;
    if (r->scalar->u.scalar.text[at] != ',')
      return fail(r, at, at + 1, "a bracket holds numbers and ranges, as in [0-3,7]");
    at++;
  }
}

static bool count_names(const struct reader *r, size_t lo, size_t hi, struct rsc_top_pattern *p) {
  p->count = 1;
  for (size_t i = 0; i < p->group_count; i++) {
    if (rsc_mul(p->count, (int64_t)p->groups[i].len, &p->count) || p->count > r->max)
      return fail(r, lo, hi, "this is more than a cluster may hold");
  }
  return true;
}

/* One pattern, text[lo, hi), which holds no comma outside brackets and no blanks around it. */
static bool read_pattern(const struct reader *r, size_t lo, size_t hi, struct rsc_top_pattern *p) {
  const char *text = r->scalar->u.scalar.text;
  *p = (struct rsc_top_pattern){.span = rsc_yaml_part(r->scalar, lo, hi - lo)};
  if (lo == hi) return fail(r, lo, lo + 1, "a name is missing here");
  size_t from = lo;
  for (size_t at = lo; at < hi; at++) {
    if (text[at] == ']') return fail(r, at, at + 1, "this ']' closes nothing");
    if ((unsigned char)text[at] <= ' ') return fail(r, at, at + 1, "names hold no blanks; separate them by commas");
    if (text[at] != '[') continue;
    const char *close = memchr(text + at, ']', hi - at);
    if (!close) return fail(r, at, at + 1, "this '[' is not closed");
    if (p->group_count == RSC_GROUPS_MAX) return fail(r, at, at + 1, "at most 8 brackets in one name");
    p->literals[p->group_count] = rsc_arena_strdup(r->arena, text + from, at - from);
    size_t end = (size_t)(close - text);
    if (!read_group(r, at + 1, end, &p->groups[p->group_count++])) return false;
    at = end;
    from = at + 1;
  }
  p->literals[p->group_count] = rsc_arena_strdup(r->arena, text + from, hi - from);
  return count_names(r, lo, hi, p);
}

/* The end of the pattern that begins at `at`: a comma outside brackets, or the end of the text. */
static size_t pattern_end(const char *text, size_t at) {
  bool inside = false;
  for (; text[at]; at++) {
    if (text[at] == ',' && !inside) break;
    if (text[at] == '[') inside = true;
    if (text[at] == ']') inside = false;
  }
  return at;
}

static bool read_scalar(const struct reader *r, struct rsc_top_patterns *out) {
  const char *text = r->scalar->u.scalar.text;
  for (size_t at = 0;; at++) {
    size_t lo = at, end = pattern_end(text, at), hi = end;
    while (lo < hi && text[lo] == ' ') lo++;
    while (hi > lo && text[hi - 1] == ' ') hi--;
    struct rsc_top_pattern pattern;
    if (!read_pattern(r, lo, hi, &pattern)) return false;
    *RSC_PUSH(r->arena, out) = pattern;
    at = end;
    if (text[at] == '\0') return true;
  }
}

bool rsc_top_read_patterns(struct rsc_arena *arena, struct rsc_diag *diag, const struct rsc_yaml *node,
                           const char *what, int64_t max, struct rsc_top_patterns *out) {
  bool ok = true;
  bool list = node->kind == RSC_YAML_LIST;
  size_t count = list ? node->u.items.count : 1;
  if (list && count == 0) {
    rsc_error(diag, RSC_YAML_TYPE, node->span, "%s is an empty list; name at least one host", what);
    return false;
  }
  for (size_t i = 0; i < count; i++) {
    struct reader r = {
        .arena = arena, .diag = diag, .scalar = list ? &node->u.items.at[i] : node, .what = what, .max = max};
    ok = rsc_yaml_text(diag, r.scalar, what) && read_scalar(&r, out) && ok;
  }
  return ok;
}

const char *rsc_top_text(struct rsc_arena *arena, const struct rsc_top_pattern *pattern, const size_t *choice) {
  size_t len = strlen(pattern->literals[pattern->group_count]), at = 0;
  for (size_t i = 0; i < pattern->group_count; i++)
    len += strlen(pattern->literals[i]) + strlen(pattern->groups[i].at[choice[i]]);
  char *text = RSC_ARRAY(arena, char, len + 1);
  for (size_t i = 0; i <= pattern->group_count; i++) {
    const char *value = i < pattern->group_count ? pattern->groups[i].at[choice[i]] : "";
    size_t n = strlen(pattern->literals[i]), m = strlen(value);
    memcpy(text + at, pattern->literals[i], n);
    memcpy(text + at + n, value, m);
    at += n + m;
  }
  return text;
}

bool rsc_top_next(const struct rsc_top_pattern *pattern, size_t *choice) {
  for (size_t i = pattern->group_count; i-- > 0;) {
    if (++choice[i] < pattern->groups[i].len) return true;
    choice[i] = 0;
  }
  return false;
}

bool rsc_top_same_group(const struct rsc_top_group *a, const struct rsc_top_group *b) {
  if (a->len != b->len) return false;
  for (size_t i = 0; i < a->len; i++) {
    if (strcmp(a->at[i], b->at[i]) != 0) return false;
  }
  return true;
}
