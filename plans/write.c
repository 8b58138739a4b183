// SPDX-License-Identifier: Apache-2.0
//
// In: a path and bytes. Out: the file, whole or as it was before.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plans/plan.h"

static enum rsp_status trouble(struct rsp_error *error, const char *what, const char *path, int code) {
  error->rule = 0;
  error->offset = 0;
  snprintf(error->text, sizeof error->text, "cannot %s '%.150s': %s", what, path, strerror(code));
  return RSP_TROUBLE;
}

static bool write_all(int fd, const unsigned char *bytes, size_t size) {
  while (size) {
    ssize_t n = write(fd, bytes, size < (1u << 30) ? size : (1u << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes += n;
    size -= (size_t)n;
  }
  return true;
}

static void sync_directory(const char *path) {
  char *copy = strdup(path);
  if (!copy) return;
  char *slash = strrchr(copy, '/');
  if (slash) slash[slash == copy ? 1 : 0] = 0;
  int fd = open(slash ? copy : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    fsync(fd);
    close(fd);
  }
  free(copy);
}

// A new file beside `path`; *name is malloc'd.
static int open_beside(const char *path, char **name) {
  size_t len = strlen(path) + 48;
  *name = malloc(len);
  if (!*name) return -1;
  for (unsigned i = 0; i < 1000; i++) {
    snprintf(*name, len, "%s.%ld.%u.tmp", path, (long)getpid(), i);
    int fd = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

static enum rsp_status write_beside(const char *path, const void *bytes, size_t size, struct rsp_error *error) {
  char *name = NULL;
  int fd = open_beside(path, &name);
  if (fd < 0) {
    int code = errno;
    free(name);
    return trouble(error, "create", path, code);
  }
  bool good = write_all(fd, bytes, size) && fsync(fd) == 0;
  int code = good ? 0 : errno;
  if (close(fd) != 0 && good) good = false, code = errno;
  if (good && rename(name, path) != 0) good = false, code = errno;
  if (good)
    sync_directory(path);
  else
    unlink(name);
  free(name);
  return good ? RSP_OK : trouble(error, "write", path, code);
}

static enum rsp_status write_through(const char *path, const void *bytes, size_t size, struct rsp_error *error) {
  bool out = strcmp(path, "-") == 0;
  int fd = out ? STDOUT_FILENO : open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return trouble(error, "open", path, errno);
  bool good = write_all(fd, bytes, size);
  int code = errno;
  if (!out) close(fd);
  return good ? RSP_OK : trouble(error, "write", out ? "standard output" : path, code);
}

enum rsp_status rsp_write_file(const char *path, const void *bytes, size_t size, struct rsp_error *error) {
  struct stat there;
  if (strcmp(path, "-") == 0) return write_through(path, bytes, size, error);
  if (stat(path, &there) != 0) return write_beside(path, bytes, size, error);
  // A device or a pipe is written to, never replaced by a file.
  if (!S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode)) return write_through(path, bytes, size, error);
  // What a link points to is replaced, not the link.
  char *real = realpath(path, NULL);
  enum rsp_status status = write_beside(real ? real : path, bytes, size, error);
  free(real);
  return status;
}
