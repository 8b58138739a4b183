// SPDX-License-Identifier: Apache-2.0
//
// run_names: any bytes as text. In: a name. Out: UTF-8 that a terminal and a JSON string can take.

#include "tools/run_names.h"

#include <stdlib.h>

// The length of the UTF-8 character at text, or 0.
static size_t utf8_length(const unsigned char *text, size_t len) {
  static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
  unsigned char c = text[0];
  size_t n = c < 0x80 ? 1 : c >= 0xC2 && c < 0xE0 ? 2 : c >= 0xE0 && c < 0xF0 ? 3 : c >= 0xF0 && c < 0xF5 ? 4 : 0;
  if (n == 0 || n > len) return 0;
  if (n == 1) return 1;
  uint32_t code = c & (0x7Fu >> n);
  for (size_t i = 1; i < n; i++) {
    if ((text[i] & 0xC0) != 0x80) return 0;
    code = code << 6 | (text[i] & 0x3Fu);
  }
  if (code < least[n] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return 0;
  return n;
}

bool run_is_utf8(const char *text, size_t len) {
  const unsigned char *at = (const unsigned char *)text, *end = at + len;
  while (at < end) {
    size_t n = utf8_length(at, (size_t)(end - at));
    if (!n) return false;
    at += n;
  }
  return true;
}

char *run_name_text(const char *strings, struct rsp_str name) {
  const unsigned char *at = (const unsigned char *)strings + name.off, *end = at + name.len;
  char *text = malloc(name.len * 4 + 1), *to = text;
  while (text && at < end) {
    size_t n = utf8_length(at, (size_t)(end - at));
    if (n == 0 || *at < 0x20 || *at == 0x7F) {
      to += sprintf(to, "\\x%02x", *at++);
      continue;
    }
    while (n--) *to++ = (char)*at++;
  }
  if (text) *to = '\0';
  return text;
}

void run_name_print(FILE *out, const char *strings, struct rsp_str name) {
  char *text = run_name_text(strings, name);
  fprintf(out, "'%s'", text ? text : "?");
  free(text);
}
