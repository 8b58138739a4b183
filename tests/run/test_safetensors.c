// SPDX-License-Identifier: Apache-2.0
//
// safetensors: what is written is read back; a header that lies is refused with a sentence.
#include <inttypes.h>
#include <string.h>

#include "tests/check.h"
#include "tools/safetensors.h"

static unsigned char file[1 << 16];

static size_t make(const char *header, size_t data_bytes) {
  size_t length = strlen(header);
  for (int i = 0; i < 8; i++) file[i] = (unsigned char)(length >> 8 * i);
  memcpy(file + 8, header, length);
  memset(file + 8 + length, 7, data_bytes);
  return 8 + length + data_bytes;
}

static void good(const char *header, size_t data_bytes, size_t count) {
  struct st_file st;
  char *reason;
  size_t size = make(header, data_bytes);
  CHECK(st_open_memory(file, size, &st, &reason) == ST_OK, "%s: %s", header, reason);
  CHECK(st.count == count, "%s: %zu arrays", header, st.count);
  st_close(&st);
}

static void bad_bytes(size_t size, const char *header, const char *part) {
  struct st_file st;
  char *reason;
  CHECK(st_open_memory(file, size, &st, &reason) == ST_TROUBLE, "%s was taken", header);
  CHECK(reason && strstr(reason, part), "%s: '%s' has no '%s'", header, reason, part);
  free(reason);
  // Cut anywhere, it is refused as well.
  for (size_t n = 0; n < size && n < 200; n++) {
    if (st_open_memory(file, n, &st, &reason) == ST_OK) st_close(&st);
    free(reason);
  }
}

static void bad(const char *header, size_t data_bytes, const char *part) {
  bad_bytes(make(header, data_bytes), header, part);
}

#define A "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}"

static void headers(void) {
  good(A "}", 4, 1);
  good(A ",\"b\":{\"dtype\":\"F4_E2M1\",\"shape\":[2,2],\"data_offsets\":[4,6]}}  ", 6, 2);
  good(A ",\"b\":{\"dtype\":\"F32\",\"shape\":[0,5],\"data_offsets\":[4,4],\"more\":1}}", 4, 2);
  good(A ",\"__metadata__\":{\"format\":\"pt\"}}", 4, 1);
  good("{}", 0, 0);
  good("{\"s\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1, 1);
  bad("", 0, "does not begin with '{'");
  bad(" {}", 0, "does not begin with '{'");
  bad("{", 0, "not JSON");
  bad("{}x", 0, "not JSON");
  bad("[]", 0, "does not begin");
  bad("{\"a\":1}", 0, "dtype");
  bad("{\"a\":{\"dtype\":1,\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "dtype");
  bad("{\"a\":{\"dtype\":\"U8\",\"shape\":4,\"data_offsets\":[0,4]}}", 4, "shape");
  bad("{\"a\":{\"dtype\":\"U8\",\"shape\":[-4],\"data_offsets\":[0,4]}}", 4, "not a size");
  bad("{\"a\":{\"dtype\":\"U8\",\"shape\":[4.0],\"data_offsets\":[0,4]}}", 4, "not a size");
  bad("{\"a\":{\"dtype\":\"U8\",\"shape\":[99999999999999999999],\"data_offsets\":[0,4]}}", 4, "not JSON");
  bad("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0]}}", 4, "data_offsets");
  bad("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,0]}}", 4, "not a range");
  bad("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,9223372036854775807]}}", 4, "cut short");
  bad(A "}", 3, "cut short");
  bad(A "}", 5, "the arrays end at byte 4");
  bad(A ",\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[3,7]}}", 7, "overlap");
  bad(A ",\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "overlap");
  bad(A ",\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[5,6]}}", 6, "belong to no array");
  bad(A ",\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}", 8, "not JSON");
  bad(A ",\"b\\u0000c\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 4, "not JSON");
  bad(A ",\"\xff\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 4, "not JSON");
  bad(A ",\"__metadata__\":[]}", 4, "__metadata__");
  bad(A ",\"__metadata__\":{\"a\":1}}", 4, "__metadata__");
  size_t size = make("{}", 0);
  memset(file, 0xff, 8);
  bad_bytes(size, "a length of 2^64 - 1", "allowed");
  memset(file, 0, 8);
  file[0] = 3;
  bad_bytes(size, "a length past the end", "of which the file has 2");
  memset(file, '[', sizeof file);
  memcpy(file, "\xf0\x7f\0\0\0\0\0\0{\"a\":", 13);
  bad_bytes(sizeof file, "32,000 brackets", "not JSON");
}

static void written(void) {
  const uint64_t shape[] = {2, 3};
  static const char name[] = "w \"q\"\n\xc3\xa9";
  struct st_output outputs[] = {
      {.name = name, .len = sizeof name - 1, .dtype = "F32", .shape = shape, .ndim = 2, .bytes = 24},
      {.name = "empty", .len = 5, .dtype = "BF16", .shape = &(uint64_t){0}, .ndim = 1},
      {.name = "s", .len = 1, .dtype = "U8", .ndim = 0, .bytes = 1}};
  unsigned char *bytes;
  size_t size;
  char *reason;
  struct st_file st;
  CHECK(st_header(outputs, 3, &bytes, &size), "header");
  CHECK(size % 64 == 0 && size + 25 < sizeof file, "%zu bytes", size);
  memcpy(file, bytes, size);
  free(bytes);
  for (unsigned i = 0; i < 25; i++) file[size + i] = (unsigned char)i;
  CHECK(st_open_memory(file, size + 25, &st, &reason) == ST_OK, "%s", reason);
  const struct st_array *w = st_find(&st, name, sizeof name - 1), *s = st_find(&st, "s", 1);
  CHECK(w && w->ndim == 2 && w->shape[0] == 2 && w->shape[1] == 3 && !strcmp(w->dtype, "F32"), "w");
  CHECK(w->end - w->begin == 24 && st.data[w->begin] == 0, "w's bytes");
  CHECK(s && s->ndim == 0 && st.data[s->begin] == 24, "s");
  CHECK(st_find(&st, "empty", 5) && !st_find(&st, "empt", 4) && !st_find(&st, "empty2", 6) && !st_find(&st, "", 0),
        "find");
  st_close(&st);
}

int main(void) {
  headers();
  written();
  struct st_file st;
  char *reason;
  CHECK(st_open("/nonexistent/x.safetensors", &st, &reason) == ST_MISSING, "a missing file");
  free(reason);
  CHECK(st_open("/", &st, &reason) == ST_TROUBLE, "a directory");
  free(reason);
  return 0;
}
