// SPDX-License-Identifier: Apache-2.0
//
// Numbers and sizes of the command line, read strictly: no locale, no signs, nothing after the end.

#include <string.h>

#include "plans/words.h"
#include "tools/cli/cli.h"

bool cli_parse_number(const char *text, int64_t lo, int64_t hi, int64_t *number) {
  int64_t value = 0;
  if (!*text) return false;
  for (; *text; text++) {
    if (*text < '0' || *text > '9') return false;
    if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *text - '0', &value)) return false;
  }
  if (value < lo || value > hi) return false;
  *number = value;
  return true;
}

static bool unit(const char *text, uint64_t *factor) {
  static const struct {
    const char *name;
    uint64_t factor;
  } units[] = {{"", 1},
               {"B", 1},
               {"kB", 1000},
               {"KB", 1000},
               {"MB", 1000000},
               {"GB", 1000000000},
               {"TB", 1000000000000},
               {"KiB", 1ull << 10},
               {"MiB", 1ull << 20},
               {"GiB", 1ull << 30},
               {"TiB", 1ull << 40},
               {"K", 1ull << 10},
               {"M", 1ull << 20},
               {"G", 1ull << 30},
               {"T", 1ull << 40}};
  for (size_t i = 0; i < sizeof units / sizeof *units; i++)
    if (!strcmp(text, units[i].name)) {
      *factor = units[i].factor;
      return true;
    }
  return false;
}

bool cli_parse_size(const char *text, uint64_t *bytes) {
  uint64_t whole = 0, part = 0, scale = 1, factor = 1;
  const char *at = text;
  for (; *at >= '0' && *at <= '9'; at++) {
    if (__builtin_mul_overflow(whole, 10, &whole) || __builtin_add_overflow(whole, (uint64_t)(*at - '0'), &whole))
      return false;
  }
  if (at == text) return false;
  if (*at == '.') {
    const char *digits = ++at;
    for (; *at >= '0' && *at <= '9' && scale < 1000000; at++) part = part * 10 + (uint64_t)(*at - '0'), scale *= 10;
    if (at == digits) return false;
  }
  while (*at == ' ') at++;
  if (!unit(at, &factor) || (factor == 1 && scale > 1)) return false;
  if (__builtin_mul_overflow(whole, factor, &whole)) return false;
  if (__builtin_mul_overflow(part, factor, &part) || __builtin_add_overflow(whole, part / scale, &whole)) return false;
  if (whole > INT64_MAX) return false;
  *bytes = whole;
  return true;
}

const char *cli_bytes(double bytes, char buffer[32]) {
  return rsp_bytes_text(bytes, buffer);
}

const char *cli_duration(double seconds, char buffer[32]) {
  static const struct {
    double unit;
    const char *name;
  } units[] = {{1e-9, "ns"}, {1e-6, "us"}, {1e-3, "ms"}, {1, "s"}};
  size_t i = 0;
  while (i + 1 < sizeof units / sizeof *units && seconds >= 999.5 * units[i].unit) i++;
  snprintf(buffer, 32, "%.3g %s", seconds / units[i].unit, units[i].name);
  return buffer;
}
