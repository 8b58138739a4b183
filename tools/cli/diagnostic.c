// SPDX-License-Identifier: Apache-2.0
//
// In: a rendered diagnostic, plain. Out: the same on a stream, coloured if the stream is a terminal that wants it.

#include <string.h>

#include "tools/cli/cli.h"

#define BOLD "\033[1m"
#define RED "\033[1;31m"
#define YELLOW "\033[1;33m"
#define CYAN "\033[1;36m"
#define GREEN "\033[1;32m"
#define RESET "\033[0m"

// Only a caret line holds nothing but these, and at least one caret.
static bool is_caret(const char *line, size_t len) {
  if (!memchr(line, '^', len)) return false;
  for (size_t i = 0; i < len; i++)
    if (!strchr(" \t^~", line[i])) return false;
  return true;
}

// "place: error[RS0001]: words": where the word begins, and how long it is with its code; NULL if there is none.
static const char *find_word(const char *line, size_t len, const char *word, size_t *size) {
  size_t n = strlen(word);
  for (size_t i = 0; i + n < len; i++) {
    if (i > 0 && (i < 2 || memcmp(line + i - 2, ": ", 2) != 0)) continue;
    if (memcmp(line + i, word, n) != 0 || (line[i + n] != ':' && line[i + n] != '[')) continue;
    const char *colon = memchr(line + i + n, ':', len - i - n);
    if (!colon) return NULL;
    *size = (size_t)(colon - line) - i;
    return line + i;
  }
  return NULL;
}

static void put_head(FILE *out, const char *line, size_t len) {
  static const char *const words[] = {"error", "warning", "note"}, *const colours[] = {RED, YELLOW, CYAN};
  for (size_t k = 0; k < 3; k++) {
    size_t size = 0;
    const char *at = find_word(line, len, words[k], &size);
    if (!at) continue;
    size_t before = (size_t)(at - line), after = before + size;
    fprintf(out, BOLD "%.*s%s%.*s" RESET BOLD "%.*s" RESET, (int)before, line, colours[k], (int)size, at,
            (int)(len - after), line + after);
    return;
  }
  fwrite(line, 1, len, out);
}

void cli_diagnostic(FILE *out, const char *rendered) {
  bool colour = cli_colour(out);
  if (!colour) fputs(rendered, out);
  while (colour && *rendered) {
    size_t len = strcspn(rendered, "\n");
    bool source = len >= 4 && !memcmp(rendered, "    ", 4); // lines of source are set in by four
    if (is_caret(rendered, len))
      fprintf(out, GREEN "%.*s" RESET, (int)len, rendered);
    else if (source)
      fwrite(rendered, 1, len, out);
    else
      put_head(out, rendered, len);
    rendered += len;
    if (*rendered) fputc(*rendered++, out);
  }
}
