// SPDX-License-Identifier: Apache-2.0
//
// safetensors: in: bytes that nobody vouches for. Out: arrays whose offsets were checked; or a header.

#include "tools/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static enum st_status refuse(char **reason, const char *format, ...) __attribute__((format(printf, 2, 3)));
static enum st_status refuse(char **reason, const char *format, ...) {
  va_list args;
  va_start(args, format);
  if (vasprintf(reason, format, args) < 0) *reason = NULL;
  va_end(args);
  return ST_TROUBLE;
}

// ---- reading -------------------------------------------------------------------------------------------------------

static bool read_unsigned(const json_t *value, uint64_t *out) {
  if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
  *out = (uint64_t)json_integer_value(value);
  return true;
}

static enum st_status read_array(const char *name, json_t *entry, uint64_t **shapes, uint64_t data_bytes,
                                 struct st_array *array, char **reason) {
  const json_t *dtype = json_object_get(entry, "dtype"), *shape = json_object_get(entry, "shape");
  const json_t *offsets = json_object_get(entry, "data_offsets");
  if (!json_is_string(dtype)) return refuse(reason, "'%s' has no \"dtype\" string", name);
  if (!json_is_array(shape)) return refuse(reason, "'%s' has no \"shape\" list", name);
  if (!json_is_array(offsets) || json_array_size(offsets) != 2)
    return refuse(reason, "'%s' has no \"data_offsets\" of two numbers", name);
  *array = (struct st_array){.name = name, .dtype = json_string_value(dtype), .ndim = json_array_size(shape)};
  array->shape = *shapes;
  for (size_t d = 0; d < array->ndim; d++)
    if (!read_unsigned(json_array_get(shape, d), (*shapes)++))
      return refuse(reason, "the shape of '%s' holds something that is not a size", name);
  if (!read_unsigned(json_array_get(offsets, 0), &array->begin) ||
      !read_unsigned(json_array_get(offsets, 1), &array->end) || array->begin > array->end)
    return refuse(reason, "the data_offsets of '%s' are not a range of bytes", name);
  if (array->end > data_bytes)
    return refuse(reason,
                  "'%s' ends at byte %" PRIu64 " of the data, of which the file has %" PRIu64
                  ": it is cut short or damaged",
                  name, array->end, data_bytes);
  return ST_OK;
}

static bool metadata_is_sound(json_t *entry) {
  const char *key;
  json_t *value;
  json_object_foreach(entry, key, value) if (!json_is_string(value)) return false;
  return json_is_object(entry);
}

static int by_place(const void *x, const void *y) {
  const struct st_array *a = x, *b = y;
  if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
  if (a->end != b->end) return a->end < b->end ? -1 : 1;
  return strcmp(a->name, b->name);
}

static int by_name(const void *x, const void *y) {
  const struct st_array *a = x, *b = y;
  return strcmp(a->name, b->name);
}

// Every byte of the data belongs to one array.
static enum st_status check_places(struct st_file *file, char **reason) {
  if (file->count) qsort(file->arrays, file->count, sizeof *file->arrays, by_place);
  uint64_t at = 0;
  const char *before = "the header";
  for (size_t i = 0; i < file->count; i++) {
    const struct st_array *a = &file->arrays[i];
    if (a->begin == a->end) continue;
    if (a->begin < at)
      return refuse(reason, "'%s' and '%s' overlap at byte %" PRIu64 " of the data", before, a->name, a->begin);
    if (a->begin > at)
      return refuse(reason, "bytes %" PRIu64 " to %" PRIu64 " of the data belong to no array", at, a->begin);
    at = a->end;
    before = a->name;
  }
  if (at != file->data_bytes)
    return refuse(reason, "the data has %" PRIu64 " bytes, the arrays end at byte %" PRIu64, file->data_bytes, at);
  if (file->count) qsort(file->arrays, file->count, sizeof *file->arrays, by_name);
  return ST_OK;
}

static enum st_status read_entries(struct st_file *file, json_t *root, char **reason) {
  size_t dims = 0;
  const char *name;
  json_t *entry;
  json_object_foreach(root, name, entry) dims += json_array_size(json_object_get(entry, "shape"));
  uint64_t *shapes = calloc(dims + 1, sizeof *shapes);
  file->shapes = shapes;
  file->arrays = calloc(json_object_size(root) + 1, sizeof *file->arrays);
  if (!shapes || !file->arrays) return refuse(reason, "out of memory");
  json_object_foreach(root, name, entry) {
    if (!strcmp(name, "__metadata__")) {
      if (!metadata_is_sound(entry)) return refuse(reason, "\"__metadata__\" is not an object of strings");
      continue;
    }
    enum st_status status = read_array(name, entry, &shapes, file->data_bytes, &file->arrays[file->count++], reason);
    if (status != ST_OK) return status;
  }
  return check_places(file, reason);
}

static enum st_status parse(const unsigned char *bytes, size_t size, struct st_file *file, char **reason) {
  uint64_t length = 0;
  if (size < 8) return refuse(reason, "%zu bytes are too few for a safetensors file", size);
  for (int i = 0; i < 8; i++) length |= (uint64_t)bytes[i] << 8 * i;
  if (length > ST_HEADER_MAX)
    return refuse(reason, "its header claims %" PRIu64 " bytes; %u are allowed", length, ST_HEADER_MAX);
  if (length > size - 8)
    return refuse(reason, "its header claims %" PRIu64 " bytes, of which the file has %zu", length, size - 8);
  if (length == 0 || bytes[8] != '{') return refuse(reason, "its header does not begin with '{'");
  file->data = bytes + 8 + length;
  file->data_bytes = size - 8 - length;
  json_error_t error;
  json_t *root = json_loadb((const char *)bytes + 8, length, JSON_REJECT_DUPLICATES, &error);
  if (!root) return refuse(reason, "its header is not JSON: %s, at byte %d of it", error.text, error.position);
  file->json = root;
  return read_entries(file, root, reason);
}

enum st_status st_open_memory(const void *bytes, size_t size, struct st_file *file, char **reason) {
  *file = (struct st_file){0};
  *reason = NULL;
  enum st_status status = parse(bytes, size, file, reason);
  if (status != ST_OK) st_close(file);
  return status;
}

enum st_status st_open(const char *path, struct st_file *file, char **reason) {
  *file = (struct st_file){0};
  *reason = NULL;
  // Without O_NONBLOCK a fifo of that name would be waited for.
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    enum st_status status = errno == ENOENT ? ST_MISSING : ST_TROUBLE;
    refuse(reason, "%s", strerror(errno));
    return status;
  }
  struct stat info;
  if (fstat(fd, &info) || !S_ISREG(info.st_mode)) {
    close(fd);
    return refuse(reason, "it is not a regular file");
  }
  size_t size = (size_t)info.st_size;
  void *mapping = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
  int error = errno;
  close(fd);
  if (mapping == MAP_FAILED) return refuse(reason, "it cannot be mapped: %s", strerror(error));
  enum st_status status = st_open_memory(mapping, size, file, reason);
  if (status != ST_OK) {
    if (mapping) munmap(mapping, size);
    return status;
  }
  file->mapping = mapping;
  file->mapped_bytes = size;
  return ST_OK;
}

void st_close(struct st_file *file) {
  json_decref(file->json);
  free(file->arrays);
  free(file->shapes);
  if (file->mapping) munmap(file->mapping, file->mapped_bytes);
  *file = (struct st_file){0};
}

const struct st_array *st_find(const struct st_file *file, const char *name, size_t len) {
  size_t lo = 0, hi = file->count;
  while (lo < hi) {
    size_t mid = lo + (hi - lo) / 2;
    const char *at = file->arrays[mid].name;
    int order = strncmp(at, name, len);
    if (order == 0 && at[len] != '\0') order = 1; // ours is a beginning of it
    if (order == 0) return &file->arrays[mid];
    if (order < 0)
      lo = mid + 1;
    else
      hi = mid;
  }
  return NULL;
}

// ---- writing -------------------------------------------------------------------------------------------------------

static json_t *entry_of(const struct st_output *output) {
  json_t *shape = json_array();
  for (size_t d = 0; d < output->ndim; d++) json_array_append_new(shape, json_integer((json_int_t)output->shape[d]));
  return json_pack("{s:s, s:o, s:[I, I]}", "dtype", output->dtype, "shape", shape, "data_offsets",
                   (json_int_t)output->begin, (json_int_t)(output->begin + output->bytes));
}

static json_t *entries_of(struct st_output *outputs, size_t count) {
  json_t *root = json_object();
  uint64_t at = 0;
  for (size_t i = 0; i < count; i++) {
    outputs[i].begin = at;
    at += outputs[i].bytes;
    char *name = strndup(outputs[i].name, outputs[i].len);
    bool good = name && root && json_object_set_new(root, name, entry_of(&outputs[i])) == 0;
    free(name);
    if (good) continue;
    json_decref(root);
    return NULL;
  }
  return root;
}

bool st_header(struct st_output *outputs, size_t count, unsigned char **bytes, size_t *size) {
  *bytes = NULL;
  json_t *root = entries_of(outputs, count);
  char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
  json_decref(root);
  size_t length = text ? strlen(text) : 0, whole = (8 + length + 63) / 64 * 64;
  unsigned char *out = text && whole - 8 <= ST_HEADER_MAX ? malloc(whole) : NULL;
  if (out) {
    for (int i = 0; i < 8; i++) out[i] = (unsigned char)((whole - 8) >> 8 * i);
    memset(out + 8, ' ', whole - 8);
    memcpy(out + 8, text, length);
  }
  free(text);
  *bytes = out;
  *size = whole;
  return out != NULL;
}
