/* SPDX-License-Identifier: Apache-2.0
 *
 * In: a tree of YAML. Out: its parts, checked for kind and range, with an error and a cure where they are not right.
 */
#include "compiler/base/yaml.h"

#include <stdio.h>
#include <string.h>

#include "compiler/base/check.h"

struct rsc_span rsc_yaml_part(const struct rsc_yaml *scalar, size_t off, size_t len) {
  struct rsc_span span = scalar->span;
  if (!scalar->direct) return span;
  span.col += (uint32_t)off + !scalar->plain;
  span.len = len ? (uint32_t)len : 1;
  return span;
}

const char *rsc_yaml_describe(const struct rsc_yaml *node, char buffer[64]) {
  if (node->kind == RSC_YAML_LIST) return "a list";
  if (node->kind == RSC_YAML_MAP) return "a map";
  if (node->u.scalar.len == 0) return node->plain ? "nothing" : "empty text";
  size_t cut = node->u.scalar.len > 40 ? 40 : node->u.scalar.len;
  while (cut < node->u.scalar.len && cut > 0 && ((unsigned char)node->u.scalar.text[cut] & 0xC0) == 0x80) cut--;
  snprintf(buffer, 64, "'%.*s%s'", (int)cut, node->u.scalar.text, cut < node->u.scalar.len ? "..." : "");
  return buffer;
}

bool rsc_yaml_expect(struct rsc_diag *diag, const struct rsc_yaml *node, enum rsc_yaml_kind kind, const char *what) {
  static const char *const kinds[] = {"text", "a list", "a map"};
  static const char *const cures[] = {"", ": [a, b]", ": {key: value}"};
  char buffer[64];
  if (node->kind == kind) return true;
  rsc_error(diag, RSC_YAML_TYPE, node->span, "%s is %s, not %s%s", what, kinds[kind], rsc_yaml_describe(node, buffer),
            cures[kind]);
  return false;
}

bool rsc_yaml_text(struct rsc_diag *diag, const struct rsc_yaml *node, const char *what) {
  if (!rsc_yaml_expect(diag, node, RSC_YAML_SCALAR, what)) return false;
  if (node->u.scalar.len > 0) return true;
  rsc_error(diag, RSC_YAML_TYPE, node->span, "%s is empty; write it after the key", what);
  return false;
}

/* Edit distance, for short words; more than `limit` where it is not worth knowing. */
static size_t distance(const char *a, const char *b, size_t limit) {
  enum { WORD = 40 };
  size_t n = strlen(a), m = strlen(b), row[WORD];
  if (n >= WORD || m >= WORD || (n > m ? n - m : m - n) > limit) return limit + 1;
  for (size_t j = 0; j <= m; j++) row[j] = j;
  for (size_t i = 1; i <= n; i++) {
    size_t corner = row[0];
    row[0] = i;
    for (size_t j = 1; j <= m; j++) {
      size_t best = corner + (a[i - 1] != b[j - 1]);
      corner = row[j];
      if (row[j] + 1 < best) best = row[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      row[j] = best;
    }
  }
  return row[m];
}

const char *rsc_yaml_suggest(const char *word, const char *const *names, size_t count) {
  size_t best = strlen(word) / 3 + 2;
  const char *near = NULL;
  for (size_t i = 0; i < count; i++) {
    size_t d = distance(word, names[i], best);
    if (d < best) best = d, near = names[i];
  }
  return near;
}

/* Names in a sentence: "a, b and c". */
static const char *join(const struct rsc_yaml_field *fields, size_t count, char *out, size_t size) {
  size_t used = 0;
  out[0] = '\0';
  for (size_t i = 0; i < count && used < size; i++) {
    const char *before = i == 0 ? "" : i + 1 == count ? " and " : ", ";
    int n = snprintf(out + used, size - used, "%s%s", before, fields[i].name);
    used += n > 0 ? (size_t)n : 0;
  }
  return out;
}

/* Returns the name that was probably meant, or NULL. */
static const char *unknown_key(struct rsc_diag *diag, const struct rsc_yaml *key, const char *what,
                               const struct rsc_yaml_field *fields, size_t count) {
  const char *names[16] = {NULL}, *word = key->u.scalar.text;
  size_t n = count < 16 ? count : 16;
  for (size_t i = 0; i < n; i++) names[i] = fields[i].name;
  const char *near = rsc_yaml_suggest(word, names, n);
  char buffer[64], list[256];
  const char *shown = rsc_yaml_describe(key, buffer);
  if (near)
    rsc_error(diag, RSC_YAML_UNKNOWN_KEY, key->span, "%s has no key %s; did you mean '%s'?", what, shown, near);
  else
    rsc_error(diag, RSC_YAML_UNKNOWN_KEY, key->span, "%s has no key %s; its keys are %s", what, shown,
              join(fields, count, list, sizeof list));
  return near;
}

bool rsc_yaml_fields(struct rsc_diag *diag, const struct rsc_yaml *map, const char *what, struct rsc_yaml_field *fields,
                     size_t count) {
  for (size_t i = 0; i < count; i++) fields[i].value = NULL;
  if (!rsc_yaml_expect(diag, map, RSC_YAML_MAP, what)) return false;
  uint32_t meant = 0; /* fields that are misspelt: they are not missing too */
  bool ok = true;
  for (size_t k = 0; k < map->u.items.count; k += 2) {
    const struct rsc_yaml *key = &map->u.items.at[k];
    size_t i = 0;
    while (i < count && strcmp(fields[i].name, key->u.scalar.text) != 0) i++;
    if (i < count) {
      fields[i].value = key + 1;
    } else {
      const char *near = unknown_key(diag, key, what, fields, count);
      for (size_t n = 0; near && n < count; n++) meant |= strcmp(near, fields[n].name) ? 0 : UINT32_C(1) << n % 32;
      ok = false;
    }
  }
  for (size_t i = 0; i < count; i++) {
    if (!fields[i].required || fields[i].value || (meant >> i % 32 & 1)) continue;
    rsc_error(diag, RSC_YAML_MISSING_KEY, map->span, "%s has no '%s'; add `%s`", what, fields[i].name, fields[i].cure);
    ok = false;
  }
  return ok;
}

bool rsc_yaml_is_int(const char *text, int64_t *out, bool *overflow) {
  bool negative = *text == '-', digit = false;
  int64_t value = 0;
  *overflow = false;
  if (*text == '-' || *text == '+') text++;
  if (text[0] == '0' && text[1]) return false; /* 010 is 8 to some readers and 10 to others */
  for (; *text; text++) {
    if (*text == '_' && digit && text[1] >= '0' && text[1] <= '9') continue;
    if (*text < '0' || *text > '9') return false;
    digit = true;
    int64_t next = *text - '0';
    *overflow = *overflow || rsc_mul(value, 10, &value) || rsc_add(value, negative ? -next : next, &value);
  }
  *out = value;
  return digit;
}

bool rsc_yaml_int(struct rsc_diag *diag, const struct rsc_yaml *node, const char *what, int64_t lo, int64_t hi,
                  int64_t *out) {
  char buffer[64];
  bool overflow;
  if (!rsc_yaml_text(diag, node, what)) return false;
  if (!rsc_yaml_is_int(node->u.scalar.text, out, &overflow)) {
    rsc_error(diag, RSC_YAML_TYPE, node->span, "%s is a whole number in decimal, not %s", what,
              rsc_yaml_describe(node, buffer));
    return false;
  }
  if (!overflow && *out >= lo && *out <= hi) return true;
  rsc_error(diag, RSC_YAML_NUMBER, node->span, "%s is %s; it lies from %lld to %lld", what, node->u.scalar.text,
            (long long)lo, (long long)hi);
  return false;
}

/* Digits and a power of ten; false if the text is no number. Zeros at the end of the digits go into the power. */
static bool scan_number(const char *text, uint64_t *digits, int64_t *power, bool *exact) {
  bool any = false, point = false;
  int64_t zeros = 0;
  *digits = 0, *power = 0, *exact = true;
  for (; (*text >= '0' && *text <= '9') || (*text == '.' && !point); text++) {
    if (*text == '.') {
      point = true;
      continue;
    }
    any = true;
    zeros++;
    *power -= point;
    if (*text == '0') continue;
    for (; zeros > 0 && *exact; zeros--) *exact = *digits < 100000000000000u, *digits *= 10;
    *digits += (uint64_t)(*text - '0');
  }
  *power += *digits ? zeros : 0;
  if (!any) return false;
  if (*text == 'e' || *text == 'E') {
    bool negative = *++text == '-';
    int64_t exponent = 0;
    if (*text == '-' || *text == '+') text++;
    if (*text < '0' || *text > '9') return false;
    for (; *text >= '0' && *text <= '9'; text++) exponent = exponent > 9999 ? exponent : exponent * 10 + (*text - '0');
    *power += negative ? -exponent : exponent;
  }
  return *text == '\0';
}

bool rsc_yaml_number(struct rsc_diag *diag, const struct rsc_yaml *node, const char *what, bool zero, double *out) {
  char buffer[64];
  uint64_t digits;
  int64_t power;
  bool exact;
  if (!rsc_yaml_text(diag, node, what)) return false;
  if (!scan_number(node->u.scalar.text, &digits, &power, &exact)) {
    rsc_error(diag, RSC_YAML_TYPE, node->span, "%s is a number such as 450e9 or 2.5e-6, not %s", what,
              rsc_yaml_describe(node, buffer));
    return false;
  }
  *out = 0;
  if (digits == 0) {
    if (!zero) rsc_error(diag, RSC_YAML_NUMBER, node->span, "%s must be more than zero", what);
    return zero;
  }
  if (!exact || power < -22 || power > 22) {
    rsc_error(diag, RSC_YAML_NUMBER, node->span, "%s needs at most 15 digits and a power of ten within 22", what);
    return false;
  }
  /* Both operands are exact, so the one rounding here is the right one, on every machine. */
  double ten = 1;
  for (int64_t i = power < 0 ? -power : power; i > 0; i--) ten *= 10;
  *out = power < 0 ? (double)digits / ten : (double)digits * ten;
  return true;
}
