// SPDX-License-Identifier: Apache-2.0
//
// Out: the annotated dump of the tiny plan with which plans/FORMAT.md opens: the header, the first row of each section,
// and of each table of one holdings block and of its slice.
#include <stdlib.h>
#include <string.h>

#include "tests/plan/tiny.h"

static const unsigned char *file;

static void line(const void *at, size_t size, const char *note) {
  const unsigned char *bytes = at;
  for (size_t i = 0; i < size; i += 16) {
    char hex[16 * 3 + 1] = "";
    for (size_t k = i; k < size && k < i + 16; k++) snprintf(hex + 3 * (k - i), 4, "%02x ", bytes[k]);
    printf("%06x  %-48s %s\n", (unsigned)(bytes + i - file), hex, i ? "" : note);
  }
}

// A field: its name, and its value where it is a number.
static void field(const void *at, size_t size, const char *name, const char *note) {
  char text[160];
  uint32_t small;
  uint64_t large;
  memcpy(&small, at, 4);
  if (size == 4) snprintf(text, sizeof text, small == UINT32_MAX ? "%s none" : "%s %u", name, small);
  if (size == 8) {
    memcpy(&large, at, 8);
    snprintf(text, sizeof text, "%s %llu", name, (unsigned long long)large);
  }
  if (size != 4 && size != 8) snprintf(text, sizeof text, "%s", name);
  if (*note) snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", size == 16 ? ": " : ", ", note);
  line(at, size, text);
}

// Two words of a string or table reference on one line.
static void pair(const void *at, const char *name, const char *note) {
  uint64_t words[2];
  char text[160];
  memcpy(words, at, 16);
  snprintf(text, sizeof text, "%s at %llu, %llu long%s%s", name, (unsigned long long)words[0],
           (unsigned long long)words[1], *note ? ": " : "", note);
  line(at, 16, text);
}

#define F(p, f) field(&(p)->f, sizeof((p)->f), #f, "")
#define N(p, f, note) field(&(p)->f, sizeof((p)->f), #f, note)

static const void *title(const struct rsp_header *h, enum rsp_section_kind kind, const char *name) {
  const struct rsp_section *s = &h->sections[kind];
  printf("\n%s: %llu row%s\n", name, (unsigned long long)s->count, s->count == 1 ? "" : "s");
  return file + s->off;
}

static void dump_header(const struct rsp_header *h) {
  printf("header\n");
  N(h, magic, "89 'RESHARD' CR LF SUB LF 0 0 0 0");
  F(h, version), F(h, compat), F(h, features), F(h, plan_id), F(h, file_bytes);
  F(h, world), F(h, train_world), F(h, infer_world), F(h, rounds);
  F(h, max_ops), N(h, max_peers, "no limit"), F(h, staging_limit), F(h, chunk);
  F(h, section_count), F(h, reserved0);
  line(h->reserved, 16, "reserved");
  const struct rsp_section *s = &h->sections[0];
  printf("\nsection table, first row: strings\n");
  F(s, off), F(s, bytes), F(s, count), F(s, reserved), F(s, digest);
}

static void dump_meaning(const struct rsp_header *h) {
  line(title(h, RSP_SEC_STRINGS, "strings"), h->sections[RSP_SEC_STRINGS].bytes, "no NUL, rows refer to bytes here");
  const struct rsp_input *in = title(h, RSP_SEC_INPUTS, "inputs");
  N(in, kind, "train"), F(in, reserved), pair(&in->name, "name", "train.layout"), F(in, digest);
  const struct rsp_str *layout = title(h, RSP_SEC_FILES, "files");
  pair(layout, "name", "train.layout");
  const struct rsp_tensor *t = title(h, RSP_SEC_TENSORS, "tensors");
  pair(&t->name, "name", "w"), N(t, dtype, "f32"), F(t, ndim), F(t, flags), F(t, reserved);
  N(t, dims, "row of dims"), F(t, elems);
  line(title(h, RSP_SEC_DIMS, "dims"), 16, "4, 4: the shape of w");
  const struct rsp_rank *r = title(h, RSP_SEC_RANKS, "ranks");
  F(r, train_rank), F(r, infer_rank), F(r, domain), F(r, gpu), pair(&r->host, "host", "h0");
  pair(&r->domain_name, "domain_name", "h0");
}

static void dump_buffers(const struct rsp_header *h) {
  const struct rsp_class *c = title(h, RSP_SEC_CLASSES, "classes");
  N(c, entries, "its first entry"), F(c, entry_count), F(c, slot_count), F(c, reserved);
  const struct rsp_entry *e = title(h, RSP_SEC_ENTRIES, "entries");
  F(e, elems), N(e, dims, "row of dims: 2, 4"), F(e, ndim), F(e, reserved), F(e, pieces), F(e, piece_count);
  const struct rsp_piece *p = title(h, RSP_SEC_PIECES, "pieces");
  F(p, t0), F(p, b0), F(p, loops), F(p, loop_count), F(p, slot), N(p, op, "copy"), F(p, constant), F(p, flags);
  F(p, reserved);
  const struct rsp_ploop *l = title(h, RSP_SEC_PLOOPS, "ploops");
  F(l, count), F(l, t_step), F(l, b_step);
  const struct rsp_buffer *b = title(h, RSP_SEC_BUFFERS, "buffers");
  pair(&b->name, "name", "w"), N(b, side, "train"), N(b, dtype, "f32"), F(b, klass), F(b, rankmap), F(b, slots);
  F(b, file), F(b, line), F(b, col), F(b, reserved);
  line(title(h, RSP_SEC_SLOTS, "slots"), 16, "tensors 0, 1, 0, 1");
  const struct rsp_rankmap *m = title(h, RSP_SEC_RANKMAPS, "rankmaps");
  F(m, holds), F(m, count);
  const struct rsp_hold *o = title(h, RSP_SEC_HOLDS, "holds");
  F(o, rank), F(o, entry);
}

static void dump_end(const struct rsp_header *h) {
  const struct rsp_summary *s = title(h, RSP_SEC_SUMMARY, "summary");
  F(s, tensors), F(s, elements), F(s, bytes), F(s, deliveries), F(s, wanted_bytes), F(s, local_bytes);
  F(s, nvlink_bytes), F(s, network_bytes), F(s, network_minimum);
  line(&s->bound_seconds, 64, "eight doubles: bound_seconds .. issue_seconds");
  const struct rsp_dirent *d = title(h, RSP_SEC_DIRECTORY, "directory");
  N(d, off, "a whole number of pages"), F(d, bytes), F(d, held_off), F(d, held_bytes), F(d, digest), F(d, held_digest);
  F(d, staging);
  line(&d->check, 8, "check");
}

static void dump_rows(const struct rsp_program *p) {
  const struct rsp_body *o = p->bodies;
  printf("first of bodies\n");
  F(o, descs), F(o, desc_count), F(o, elems), F(o, wire_bytes), F(o, reserved);
  const struct rsp_desc *d = p->descs;
  printf("first of descs\n");
  F(d, shape), F(d, ref), F(d, off);
  const struct rsp_shape *h = p->shapes;
  printf("first of shapes\n");
  F(h, buf_dtype), F(h, wire_dtype), F(h, op), F(h, constant), F(h, run), F(h, loops), F(h, loop_count), F(h, reserved);
  const struct rsp_loop *l = p->loops;
  printf("first of loops\n");
  F(l, count), F(l, ref_step), F(l, off_step);
  const struct rsp_stream *t = p->streams;
  printf("first of streams\n");
  F(t, peer), N(t, dir, "out"), N(t, kind, "staged"), F(t, tag), F(t, relay), F(t, slots), F(t, parts),
      F(t, part_count), F(t, bytes);
  F(t, quantum), F(t, round0), F(t, step), F(t, stage_off), F(t, slot_stride);
  const struct rsp_part *q = p->parts;
  printf("first of parts\n");
  F(q, body), F(q, lo), F(q, hi);
}

static void dump_slice(const struct rsp_plan *plan, uint32_t rank) {
  struct rsp_program p;
  rsp_program_of(plan, rank, &p);
  const struct rsp_slice *s = p.slice;
  printf("\nslice of rank %u\n", rank);
  line(&s->magic, 8, "magic 'RSPSLICE'");
  F(s, bytes), F(s, world_rank), F(s, train_rank), F(s, infer_rank), F(s, rounds), F(s, staging);
  static const char *const names[] = {"names",  "files", "buffers", "dims",  "zeros",   "zloops",
                                      "bodies", "descs", "shapes",  "loops", "streams", "parts"};
  for (unsigned i = 0; i < 12; i++) pair(&s->names + i, names[i], i < 6 ? "in the holdings block" : "");
  dump_rows(&p);
}

static void dump_holdings(const struct rsp_plan *plan, uint32_t rank) {
  struct rsp_program p;
  rsp_program_of(plan, rank, &p);
  const struct rsp_slice *s = p.slice;
  printf("\nholdings block of rank %u\n", rank);
  line(p.names, s->names.count, "names");
  pair(p.files, "files[0]", "train.layout");
  const struct rsp_sbuffer *b = p.buffers;
  pair(&b->name, "buffers[0].name", "w"), F(b, gid), F(b, side), F(b, dtype), F(b, ndim), F(b, dims), F(b, bytes);
  F(b, file), F(b, line), F(b, col), F(b, align);
  line(p.dims, 16, "dims: 2, 4");
  const struct rsp_zero *z = p.zeros;
  printf("first of zeros\n");
  F(z, gid), F(z, loop_count), F(z, loops), F(z, off), F(z, run_bytes);
}

int main(void) {
  void *bytes;
  size_t size;
  struct rsp_plan plan;
  struct rsp_error error;
  if (!tiny_plan(&bytes, &size) || rsp_open_memory(bytes, size, &plan, &error) != RSP_OK) return 2;
  file = bytes;
  dump_header(plan.header);
  dump_meaning(plan.header);
  dump_buffers(plan.header);
  dump_end(plan.header);
  dump_holdings(&plan, 1);
  dump_slice(&plan, 1);
  free(bytes);
  return 0;
}
