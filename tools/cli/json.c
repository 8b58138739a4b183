// SPDX-License-Identifier: Apache-2.0
//
// In: names and objects. Out: JSON that any reader takes.

#include "tools/cli/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The length of the UTF-8 character at text[0, len), or 0 if it is none.
static size_t character(const unsigned char *text, size_t len) {
  unsigned char c = text[0];
  size_t n = c < 0x80 ? 1 : c >= 0xC2 && c < 0xE0 ? 2 : c >= 0xE0 && c < 0xF0 ? 3 : c >= 0xF0 && c < 0xF5 ? 4 : 0;
  if (n == 0 || n > len) return 0;
  for (size_t i = 1; i < n; i++)
    if ((text[i] & 0xC0) != 0x80) return 0;
  if ((c == 0xE0 && text[1] < 0xA0) || (c == 0xF0 && text[1] < 0x90)) return 0;
  if ((c == 0xED && text[1] >= 0xA0) || (c == 0xF4 && text[1] >= 0x90)) return 0;
  return n;
}

json_t *cli_json_bytes(const char *bytes, size_t len) {
  char *clean = malloc(3 * len + 1); // U+FFFD takes three bytes
  size_t used = 0;
  if (!clean) abort();
  for (size_t at = 0; at < len;) {
    size_t n = character((const unsigned char *)bytes + at, len - at);
    memcpy(clean + used, n ? bytes + at : "\xEF\xBF\xBD", n ? n : 3);
    used += n ? n : 3;
    at += n ? n : 1;
  }
  json_t *string = json_stringn(clean, used);
  free(clean);
  if (!string) abort();
  return string;
}

json_t *cli_json_text(const char *text) {
  return text ? cli_json_bytes(text, strlen(text)) : json_null();
}

void cli_json_print(json_t *object) {
  json_dumpf(object, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
  putchar('\n');
  json_decref(object);
}
