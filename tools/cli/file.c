// SPDX-License-Identifier: Apache-2.0
//
// Whole files in and out. In: paths ("-" for standard input or output). Out: bytes, or a reason.

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/cli/cli.h"

static bool fail(char **reason, const char *text) {
  *reason = strdup(text);
  return false;
}

static bool read_all(int fd, char **text, size_t *len, char **reason) {
  struct stat st;
  if (fstat(fd, &st) != 0) return fail(reason, strerror(errno));
  if (S_ISDIR(st.st_mode)) return fail(reason, "it is a directory");
  size_t cap = S_ISREG(st.st_mode) && st.st_size > 0 ? (size_t)st.st_size + 1 : 65536, used = 0;
  char *buffer = malloc(cap + 1);
  while (buffer) {
    ssize_t got = read(fd, buffer + used, cap - used);
    if (got == 0) break;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      free(buffer);
      return fail(reason, strerror(errno));
    }
    used += (size_t)got;
    if (used < cap) continue;
    char *more = cap > SIZE_MAX / 4 ? NULL : realloc(buffer, cap * 2 + 1);
    if (!more) free(buffer);
    buffer = more;
    cap *= 2;
  }
  if (!buffer) return fail(reason, "out of memory");
  buffer[used] = '\0';
  *text = buffer;
  *len = used;
  return true;
}

bool cli_read_file(const char *path, char **text, size_t *len, char **reason) {
  *text = NULL;
  *reason = NULL;
  if (!strcmp(path, "-")) return read_all(STDIN_FILENO, text, len, reason);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return fail(reason, strerror(errno));
  bool ok = read_all(fd, text, len, reason);
  close(fd);
  return ok;
}

static bool write_all(int fd, const char *bytes, size_t len) {
  while (len > 0) {
    ssize_t put = write(fd, bytes, len);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    bytes += put;
    len -= (size_t)put;
  }
  return true;
}

static bool write_device(const char *path, const void *bytes, size_t len, char **reason) {
  bool out = !strcmp(path, "-");
  int fd = out ? STDOUT_FILENO : open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return fail(reason, strerror(errno));
  bool ok = write_all(fd, bytes, len);
  int error = errno;
  if (!out && close(fd) != 0 && ok) ok = false, error = errno;
  return ok ? true : fail(reason, strerror(error));
}

// The directory must be synced too, or a crash may lose the rename; a file system that cannot is let be.
static void sync_directory(const char *path) {
  char *dir = strdup(path);
  if (!dir) return;
  char *slash = strrchr(dir, '/');
  if (slash) slash[slash == dir ? 1 : 0] = '\0';
  int fd = open(slash ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    (void)fsync(fd);
    close(fd);
  }
  free(dir);
}

// The mode that a plain open(..., 0666) would give, or that of the file replaced.
static mode_t mode_for(const char *path) {
  struct stat st;
  if (stat(path, &st) == 0) return st.st_mode & 07777;
  mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

static bool write_renamed(const char *path, const void *bytes, size_t len, char **reason) {
  size_t n = strlen(path);
  char *temp = malloc(n + 16);
  if (!temp) return fail(reason, "out of memory");
  memcpy(temp, path, n);
  memcpy(temp + n, ".tmp-XXXXXX", 12);
  mode_t mode = mode_for(path);
  int fd = mkostemp(temp, O_CLOEXEC);
  if (fd < 0) {
    fail(reason, strerror(errno));
    free(temp);
    return false;
  }
  bool ok = write_all(fd, bytes, len) && fchmod(fd, mode) == 0 && fsync(fd) == 0;
  int error = errno;
  if (close(fd) != 0 && ok) ok = false, error = errno;
  if (ok && rename(temp, path) != 0) ok = false, error = errno;
  if (ok) sync_directory(path);
  if (!ok) unlink(temp);
  free(temp);
  return ok ? true : fail(reason, strerror(error));
}

bool cli_write_file(const char *path, const void *bytes, size_t len, char **reason) {
  *reason = NULL;
  struct stat st;
  // A pipe or device is written in place; a link keeps pointing where it points.
  if (!strcmp(path, "-")) return write_device(path, bytes, len, reason);
  if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return fail(reason, "it is a directory");
  if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) return write_device(path, bytes, len, reason);
  char *real = realpath(path, NULL);
  bool ok = write_renamed(real ? real : path, bytes, len, reason);
  free(real);
  return ok;
}
