// SPDX-License-Identifier: Apache-2.0
//
// What the tools share: sizes, numbers, suggestions, whole-file writes, JSON of any bytes.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plans/words.h"
#include "tools/cli/cli.h"
#include "tools/cli/json.h"

static int failures;

static void check(bool ok, const char *what) {
  if (ok) return;
  printf("failed: %s\n", what);
  failures++;
}

static void test_sizes(void) {
  static const struct {
    const char *text;
    uint64_t bytes; // UINT64_MAX: refused
  } cases[] = {{"0", 0},
               {"4096", 4096},
               {"4096B", 4096},
               {"256MiB", 256ull << 20},
               {"256M", 256ull << 20},
               {"1GiB", 1ull << 30},
               {"1.5GiB", 3ull << 29},
               {"64 KiB", 65536},
               {"10MB", 10000000},
               {"2kB", 2000},
               {"2TiB", 2ull << 40},
               {"9223372036854775807", INT64_MAX},
               {"9223372036854775808", UINT64_MAX},
               {"99999999999999999999", UINT64_MAX},
               {"8388608TiB", UINT64_MAX},
               {"", UINT64_MAX},
               {"MiB", UINT64_MAX},
               {"-1", UINT64_MAX},
               {"+1", UINT64_MAX},
               {" 1", UINT64_MAX},
               {"1.5", UINT64_MAX},
               {"1.", UINT64_MAX},
               {"1.MiB", UINT64_MAX},
               {"1mib", UINT64_MAX},
               {"1MiBs", UINT64_MAX},
               {"0x10", UINT64_MAX}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint64_t bytes = 0;
    bool ok = cli_parse_size(cases[i].text, &bytes);
    check(ok == (cases[i].bytes != UINT64_MAX) && (!ok || bytes == cases[i].bytes), cases[i].text);
  }
}

static void test_numbers(void) {
  int64_t n = 0;
  check(cli_parse_number("12", 0, 100, &n) && n == 12, "12");
  check(!cli_parse_number("101", 0, 100, &n) && !cli_parse_number("1", 2, 100, &n), "range");
  check(!cli_parse_number("", 0, 9, &n) && !cli_parse_number("1x", 0, 9, &n) && !cli_parse_number("-1", 0, 9, &n),
        "form");
  check(!cli_parse_number("9223372036854775808", 0, INT64_MAX, &n), "overflow");
}

static void test_bytes(void) {
  char buffer[32];
  check(!strcmp(cli_bytes(0, buffer), "0 B"), "0 B");
  check(!strcmp(cli_bytes(999, buffer), "999 B"), "999 B");
  check(!strcmp(cli_bytes(1000, buffer), "1.00 kB"), "1.00 kB");
  check(!strcmp(cli_bytes(1192099840, buffer), "1.19 GB"), "1.19 GB");
  check(!strcmp(cli_bytes(470187269120.0, buffer), "470 GB"), "470 GB");
  check(!strcmp(cli_bytes(99960, buffer), "100 kB"), "100 kB");
  check(!strcmp(rsp_plural(0), "s") && !strcmp(rsp_plural(1), "") && !strcmp(rsp_plural(2), "s"), "0 rounds, 1 round");
}

static void test_duration(void) {
  char buffer[32];
  check(!strcmp(cli_duration(0, buffer), "0 ns"), "0 ns");
  check(!strcmp(cli_duration(6e-6, buffer), "6 us"), "6 us");
  check(!strcmp(cli_duration(2.981e-3, buffer), "2.98 ms"), "2.98 ms");
  check(!strcmp(cli_duration(9.997e-4, buffer), "1 ms"), "1 ms");
  check(!strcmp(cli_duration(1.25, buffer), "1.25 s"), "1.25 s");
}

static void test_suggest(void) {
  static const char *const verbs[] = {"verify", "show", "explain", "diff"};
  check(cli_suggest("verfy", verbs, 4) == verbs[0], "verfy");
  check(cli_suggest("shwo", verbs, 4) == verbs[1], "shwo");
  check(cli_suggest("dif", verbs, 4) == verbs[3], "dif");
  check(!cli_suggest("zzz", verbs, 4), "zzz");
}

static void test_files(void) {
  char dir[] = "test_cli_XXXXXX", path[64], linked[64], nowhere[64];
  check(mkdtemp(dir) != NULL, "mkdtemp");
  snprintf(path, sizeof path, "%s/f", dir);
  snprintf(linked, sizeof linked, "%s/l", dir);
  snprintf(nowhere, sizeof nowhere, "%s/no/f", dir);
  char *reason, *text;
  size_t len;
  struct stat st;
  check(cli_write_file(path, "one", 3, &reason), "write");
  check(chmod(path, 0640) == 0 && symlink("f", linked) == 0, "chmod, symlink");
  check(cli_write_file(linked, "two2", 4, &reason), "write through a link");
  check(lstat(linked, &st) == 0 && S_ISLNK(st.st_mode), "the link is still one");
  check(stat(path, &st) == 0 && (st.st_mode & 0777) == 0640, "the mode is kept");
  check(cli_read_file(path, &text, &len, &reason) && len == 4 && !strcmp(text, "two2"), "read");
  free(text);
  check(!cli_write_file(nowhere, "x", 1, &reason) && reason, "no such directory");
  free(reason);
  check(!cli_write_file(dir, "x", 1, &reason) && reason, "a directory");
  free(reason);
  check(!cli_read_file(dir, &text, &len, &reason) && reason, "reading a directory");
  free(reason);
  check(!cli_read_file(nowhere, &text, &len, &reason) && !strcmp(reason, "No such file or directory"), "no such file");
  free(reason);
  check(cli_write_file("/dev/null", "x", 1, &reason) && stat("/dev/null", &st) == 0 && S_ISCHR(st.st_mode), "a device");
  unlink(linked);
  unlink(path);
  check(rmdir(dir) == 0, "nothing else is left behind");
}

static void test_json(void) {
  static const char bytes[] = "a\xC3\xB6\xFF\xE2\x82\0b";
  json_t *s = cli_json_bytes(bytes, sizeof bytes - 1);
  static const char want[] = "a\xC3\xB6\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\0b";
  check(json_string_length(s) == sizeof want - 1 && !memcmp(json_string_value(s), want, sizeof want - 1), "json");
  json_decref(s);
  check(json_is_null(cli_json_text(NULL)), "null");
}

int main(void) {
  test_sizes();
  test_numbers();
  test_bytes();
  test_duration();
  test_suggest();
  test_files();
  test_json();
  printf("%d failures\n", failures);
  return failures != 0;
}
