/* SPDX-License-Identifier: Apache-2.0
 *
 * In: numbers. Out: words.
 */
#include "plans/words.h"

#include <stdio.h>

const char *rsp_bytes_text(double bytes, char buffer[32]) {
  static const char *const names[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  size_t i = 0;
  while (bytes >= 999.5 && i + 1 < sizeof names / sizeof *names) bytes /= 1000, i++;
  int digits = i == 0 || bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2;
  snprintf(buffer, 32, "%.*f %s", digits, bytes, names[i]);
  return buffer;
}

const char *rsp_plural(uint64_t count) {
  return count == 1 ? "" : "s";
}
