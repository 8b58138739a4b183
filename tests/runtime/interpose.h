/* SPDX-License-Identifier: Apache-2.0
 *
 * For one test per program: the calls that a refit must not make, taken over for the whole process. `interpose_seen`,
 * the test's own, is told who calls; then the call does what it always does. Not for sanitizers, which take over the
 * same calls.
 */
#ifndef TESTS_INTERPOSE_H
#define TESTS_INTERPOSE_H

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void interpose_seen(const void *caller);

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *ptr, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);
extern char **environ;

void *malloc(size_t bytes) {
  interpose_seen(__builtin_return_address(0));
  return __libc_malloc(bytes);
}
void *calloc(size_t count, size_t bytes) {
  interpose_seen(__builtin_return_address(0));
  return __libc_calloc(count, bytes);
}
void *realloc(void *ptr, size_t bytes) {
  interpose_seen(__builtin_return_address(0));
  return __libc_realloc(ptr, bytes);
}
int posix_memalign(void **out, size_t align, size_t bytes) {
  interpose_seen(__builtin_return_address(0));
  *out = __libc_memalign(align, bytes);
  return *out ? 0 : ENOMEM;
}
char *getenv(const char *name) {
  size_t length = strlen(name);
  interpose_seen(__builtin_return_address(0));
  for (char **at = environ; at && *at; at++) {
    if (strncmp(*at, name, length) == 0 && (*at)[length] == '=') return *at + length + 1;
  }
  return NULL;
}
int open(const char *path, int flags, ...) {
  static int (*next)(const char *, int, ...);
  interpose_seen(__builtin_return_address(0));
  if (!next) *(void **)&next = dlsym(RTLD_NEXT, "open");
  va_list args;
  va_start(args, flags);
  int mode = va_arg(args, int);
  va_end(args);
  return next(path, flags, mode);
}

#endif
