/* SPDX-License-Identifier: Apache-2.0
 *
 * replay_main FILE|DIR...: feeds each file, and each file of each directory in the order of their names, to the fuzz
 * target that it is linked with: corpora replay under CTest, without clang. Says how many there were; none is an error.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) {
    perror(path);
    exit(2);
  }
  size_t size = 0, room = 1 << 16;
  uint8_t *data = malloc(room);
  for (size_t n; data && (n = fread(data + size, 1, room - size, f)) > 0;) {
    size += n;
    if (size == room) data = realloc(data, room *= 2);
  }
  fclose(f);
  /* exactly as long as the input, so that a sanitizer sees a read past its end */
  uint8_t *exact = malloc(size ? size : 1);
  if (!data || !exact) exit(2);
  memcpy(exact, data, size);
  free(data);
  fprintf(stderr, "%s: %zu bytes\n", path, size);
  LLVMFuzzerTestOneInput(exact, size);
  free(exact);
  return 1;
}

static int visible(const struct dirent *entry) {
  return entry->d_name[0] != '.';
}

static int replay(const char *path) {
  struct stat info;
  if (stat(path, &info)) {
    perror(path);
    exit(2);
  }
  if (!S_ISDIR(info.st_mode)) return replay_file(path);
  struct dirent **entries;
  int count = scandir(path, &entries, visible, alphasort), files = 0;
  for (int i = 0; i < count; i++) {
    char name[4096];
    snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
    files += replay(name);
    free(entries[i]);
  }
  if (count >= 0) free(entries);
  return files;
}

int main(int argc, char **argv) {
  int files = 0;
  for (int i = 1; i < argc; i++) files += replay(argv[i]);
  printf("%d inputs\n", files);
  return files ? 0 : 1;
}
