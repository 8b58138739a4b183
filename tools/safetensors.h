/* SPDX-License-Identifier: Apache-2.0
 *
 * safetensors: files of named arrays. Reading maps the file and believes nothing in its header; writing makes a header
 * for data that the caller puts behind it.
 *
 * The format: 8 bytes, the length of the header, little-endian; the header, a JSON object {name: {"dtype", "shape",
 * "data_offsets": [begin, end]}, ...}; then the data, which the offsets count from and the arrays fill without holes.
 * Names are JSON strings: UTF-8 without NUL. "__metadata__" is not a name.
 */
#ifndef RESHARD_TOOLS_SAFETENSORS_H
#define RESHARD_TOOLS_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ST_HEADER_MAX 100000000u /* bytes; what the format's own library accepts */

enum st_status {
  ST_OK = 0,
  ST_MISSING, /* there is no such file */
  ST_TROUBLE  /* it cannot be read, or is no safetensors file */
};

struct st_array {
  const char *name, *dtype; /* NUL-terminated; dtype as the file spells it, perhaps unknown to us */
  const uint64_t *shape;
  size_t ndim;
  uint64_t begin, end; /* bytes in the data; inside it, and overlapping no other array */
};

struct st_file {
  struct st_array *arrays; /* ascending by name */
  size_t count;
  const unsigned char *data; /* the arrays' bytes, of any alignment */
  uint64_t data_bytes;
  void *json, *shapes, *mapping; /* private */
  size_t mapped_bytes;
};

/* Maps `path` for reading. On failure *reason is a malloc'd sentence without the path, or NULL if memory is out.
 * Otherwise to be closed. */
enum st_status st_open(const char *path, struct st_file *file, char **reason);
/* The same over caller-owned bytes, which must outlive it. */
enum st_status st_open_memory(const void *bytes, size_t size, struct st_file *file, char **reason);
void st_close(struct st_file *file);
/* The array of that name, or NULL. */
const struct st_array *st_find(const struct st_file *file, const char *name, size_t len);

/* What is to be written, in the order of the data. `begin` and `end` are filled by st_header. */
struct st_output {
  const char *name; /* valid UTF-8, len bytes */
  size_t len;
  const char *dtype;
  const uint64_t *shape;
  size_t ndim;
  uint64_t bytes;
  uint64_t begin;
};

/* The length and the header of a file of these arrays: *bytes is malloc'd, a multiple of 64 long, so that data that
 * follows is aligned in a mapping. Arrays lie in the order given, end to end. False: out of memory, or the header would
 * be larger than ST_HEADER_MAX. */
bool st_header(struct st_output *outputs, size_t count, unsigned char **bytes, size_t *size);

#ifdef __cplusplus
}
#endif

#endif
