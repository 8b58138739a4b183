// SPDX-License-Identifier: Apache-2.0
//
// In: parts of a plan. Out: JSON values, and at the end text on standard output.
#include "tools/plan_json.h"

#include "tools/cli/cli.h"
#include "tools/cli/json.h"

json_t *plan_json_str(const char *table, struct rsp_str s) {
  return cli_json_bytes(table + s.off, (size_t)s.len);
}

json_t *plan_json_u64(uint64_t n) {
  return json_integer((json_int_t)n);
}

json_t *plan_json_id(const uint8_t id[16]) {
  char text[33];
  rsp_id_text(id, text);
  return json_string(text);
}

json_t *plan_json_rank(uint32_t rank) {
  return rank == RSP_NO_RANK ? json_null() : json_integer(rank);
}

json_t *plan_json_dims(const uint64_t *dims, uint32_t ndim) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < ndim; i++) json_array_append_new(list, plan_json_u64(dims[i]));
  return list;
}

void plan_json_place(json_t *object, const char *table, struct rsp_str file, uint32_t line, uint32_t col) {
  json_object_set_new(object, "file", plan_json_str(table, file));
  json_object_set_new(object, "line", json_integer(line));
  json_object_set_new(object, "col", json_integer(col));
}

int plan_json_write(const char *program, json_t *object, int status) {
  if (!object) return cli_trouble(program, "out of memory");
  cli_json_print(object);
  return cli_finish(program, status);
}
