// SPDX-License-Identifier: Apache-2.0
//
// What tools say: messages to stderr, help to stdout, colour, suggestions, the progress line.

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/cli/cli.h"

// In one write, as many processes may share one stderr.
static void vsay(const char *program, const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  int length = vsnprintf(NULL, 0, format, again);
  va_end(again);
  char *text = length < 0 ? NULL : malloc((size_t)length + 1);
  if (text) vsnprintf(text, (size_t)length + 1, format, args);
  cli_progress_end();
  fprintf(stderr, "%s: %s\n", program, text ? text : format);
  free(text);
}

int cli_trouble(const char *program, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsay(program, format, args);
  va_end(args);
  return CLI_TROUBLE;
}

int cli_usage(const char *program, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsay(program, format, args);
  va_end(args);
  fprintf(stderr, "Try '%s --help'.\n", program);
  return CLI_TROUBLE;
}

int cli_help(const char *text) {
  fputs(text, stdout);
  return cli_finish("help", CLI_YES);
}

int cli_finish(const char *program, int status) {
  errno = 0;
  if (fflush(stdout) == 0 && !ferror(stdout)) return status;
  return cli_trouble(program, "cannot write standard output: %s", errno ? strerror(errno) : "an earlier write failed");
}

bool cli_colour(FILE *file) {
  const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
  if (no && *no) return false;
  if (term && !strcmp(term, "dumb")) return false;
  return isatty(fileno(file)) == 1;
}

// Edit distance with neighbouring swaps, over short words; `limit` + 1 when longer than it pays to look at.
static size_t distance(const char *a, const char *b, size_t limit) {
  size_t n = strlen(a), m = strlen(b);
  enum { WORD = 64 };
  if (n >= WORD || m >= WORD || (n > m ? n - m : m - n) > limit) return limit + 1;
  size_t row[3][WORD] = {{0}};
  for (size_t j = 0; j <= m; j++) row[0][j] = j;
  for (size_t i = 1; i <= n; i++) {
    size_t *cur = row[i % 3], *prev = row[(i + 2) % 3], *before = row[(i + 1) % 3];
    cur[0] = i;
    for (size_t j = 1; j <= m; j++) {
      size_t best = prev[j - 1] + (a[i - 1] != b[j - 1]);
      if (prev[j] + 1 < best) best = prev[j] + 1;
      if (cur[j - 1] + 1 < best) best = cur[j - 1] + 1;
      bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped && before[j - 2] + 1 < best) best = before[j - 2] + 1;
      cur[j] = best;
    }
  }
  return row[n % 3][m];
}

const char *cli_suggest(const char *word, const char *const *names, size_t count) {
  size_t best = strlen(word) / 3 + 2; // a third of the word may be wrong
  const char *near = NULL;
  for (size_t i = 0; i < count; i++) {
    size_t d = distance(word, names[i], best);
    if (d < best) best = d, near = names[i];
  }
  return near;
}

double cli_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static bool progress_shown;

void cli_progress(double since, const char *format, ...) {
  if (cli_seconds() - since < 2 || isatty(STDERR_FILENO) != 1) return;
  va_list args;
  va_start(args, format);
  fputs("\r\033[K", stderr);
  vfprintf(stderr, format, args);
  va_end(args);
  fflush(stderr);
  progress_shown = true;
}

void cli_progress_end(void) {
  if (!progress_shown) return;
  fputs("\r\033[K", stderr);
  fflush(stderr);
  progress_shown = false;
}
