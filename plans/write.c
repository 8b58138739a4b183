// SPDX-License-Identifier: Apache-2.0
//
// In: a path and bytes, piece by piece. Out: the file, whole or as it was before.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plans/plan.h"

struct rsp_file {
  char *path, *temporary; // temporary: NULL if the bytes are kept until the end
  int fd, code;           // code: errno of the first failure
  struct rsp_memory memory;
};

static enum rsp_status trouble(struct rsp_error *error, const char *what, const char *path, int code) {
  error->rule = 0;
  error->offset = 0;
  snprintf(error->text, sizeof error->text, "cannot %s '%.150s': %s", what, path, strerror(code));
  return RSP_TROUBLE;
}

static bool write_at(int fd, const unsigned char *bytes, size_t size, uint64_t off, bool seeks) {
  while (size) {
    size_t some = size < (1u << 30) ? size : (1u << 30);
    ssize_t n = seeks ? pwrite(fd, bytes, some, (off_t)off) : write(fd, bytes, some);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes += n;
    size -= (size_t)n;
    off += (uint64_t)n;
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

// A device or a pipe is written to, never replaced by a file.
static bool is_stream(const char *path) {
  struct stat there;
  if (strcmp(path, "-") == 0) return true;
  return stat(path, &there) == 0 && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode);
}

static void free_file(struct rsp_file *file) {
  free(file->memory.bytes);
  free(file->temporary);
  free(file->path);
  free(file);
}

enum rsp_status rsp_file_begin(const char *path, struct rsp_file **out, struct rsp_error *error) {
  struct rsp_file *file = calloc(1, sizeof *file);
  if (!file) return trouble(error, "write", path, ENOMEM);
  file->fd = -1;
  bool stream = is_stream(path);
  file->path = stream ? NULL : realpath(path, NULL); // what a link points to is replaced, not the link
  if (!file->path) file->path = strdup(path);
  if (file->path && !stream) file->fd = open_beside(file->path, &file->temporary);
  if (file->path && (stream || file->fd >= 0)) {
    *out = file;
    return RSP_OK;
  }
  enum rsp_status status = trouble(error, "create", path, file->path ? errno : ENOMEM);
  free_file(file);
  return status;
}

bool rsp_file_put(void *user, uint64_t off, const void *bytes, size_t size) {
  struct rsp_file *file = user;
  if (file->code) return false;
  if (!file->temporary)
    file->code = rsp_put_memory(&file->memory, off, bytes, size) ? 0 : ENOMEM;
  else if (!write_at(file->fd, bytes, size, off, true))
    file->code = errno ? errno : EIO;
  return !file->code;
}

// The temporary file takes its place.
static int finish(struct rsp_file *file, bool keep) {
  int code = file->code;
  if (keep && !code && fsync(file->fd) != 0) code = errno;
  if (close(file->fd) != 0 && !code) code = errno;
  if (keep && !code && rename(file->temporary, file->path) != 0) code = errno;
  if (keep && !code)
    sync_directory(file->path);
  else
    unlink(file->temporary);
  return code;
}

static int write_through(struct rsp_file *file) {
  bool out = strcmp(file->path, "-") == 0;
  int fd = out ? STDOUT_FILENO : open(file->path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  int code = write_at(fd, file->memory.bytes, file->memory.size, 0, false) ? 0 : errno;
  if (!out) close(fd);
  return code;
}

enum rsp_status rsp_file_end(struct rsp_file *file, bool keep, struct rsp_error *error) {
  int code = file->code;
  if (file->temporary)
    code = finish(file, keep);
  else if (keep && !code)
    code = write_through(file);
  enum rsp_status status = RSP_OK;
  if (code) status = trouble(error, "write", strcmp(file->path, "-") ? file->path : "standard output", code);
  free_file(file);
  return status;
}

enum rsp_status rsp_write_file(const char *path, const void *bytes, size_t size, struct rsp_error *error) {
  struct rsp_file *file;
  enum rsp_status status = rsp_file_begin(path, &file, error);
  if (status != RSP_OK) return status;
  rsp_file_put(file, 0, bytes, size);
  return rsp_file_end(file, true, error);
}
