// SPDX-License-Identifier: Apache-2.0
//
// In: a YAML text. Out: what the compiler makes of it, as text.

#include "tests/yaml/load.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/pass/topology.h"

struct sink {
  struct load *load;
  FILE *messages;
};

static void receive(void *user, enum rsc_severity severity, enum rsc_code code, const char *rendered) {
  struct sink *sink = user;
  fputs(rendered, sink->messages);
  if (severity != RSC_ERROR) return;
  if (sink->load->errors < 64) sink->load->codes[sink->load->errors] = code;
  sink->load->errors++;
}

static void dump_constant(FILE *out, const struct rsc_constant *c) {
  if (c->kind == RSC_CONSTANT_INT) fprintf(out, "%" PRId64, c->number);
  if (c->kind == RSC_CONSTANT_STRING) fprintf(out, "\"%s\"", c->string);
  if (c->kind != RSC_CONSTANT_LIST) return;
  fputc('[', out);
  for (int64_t i = 0; i < c->item_count; i++) {
    if (i) fputs(", ", out);
    dump_constant(out, &c->items[i]);
  }
  fputc(']', out);
}

static void dump_catalogue(FILE *out, const struct rsc_catalogue *c) {
  fprintf(out, "model '%s'\n", c->name);
  for (int64_t i = 0; i < c->constant_count; i++) {
    fprintf(out, "let %s = ", c->constants[i].name);
    dump_constant(out, &c->constants[i]);
    fputc('\n', out);
  }
  for (int64_t i = 0; i < c->tensor_count; i++) {
    const struct rsc_tensor *t = &c->tensors[i];
    fprintf(out, "tensor %s %s [", t->name, rsp_dtype_word((uint32_t)t->dtype));
    for (int32_t d = 0; d < t->ndim; d++) fprintf(out, "%s%" PRId64, d ? ", " : "", t->dims[d]);
    fprintf(out, "] = %" PRId64 "\n", t->elems);
  }
}

struct load load_text(enum load_kind kind, const char *name, const char *text, size_t len, long train, long infer) {
  struct load load = {.arena = rsc_arena_new()};
  struct sink sink = {.load = &load};
  size_t size;
  sink.messages = open_memstream(&load.messages, &size);
  struct rsc_sources *sources = rsc_sources_new(load.arena);
  int file = rsc_sources_add(sources, name, text, len);
  struct rsc_diag *diag = rsc_diag_new(load.arena, sources, receive, &sink);
  load.ok = kind == LOAD_CATALOGUE ? rsc_catalogue_read(load.arena, sources, diag, file, &load.catalogue)
                                   : rsc_topology(load.arena, sources, diag, file, train, infer, &load.cluster);
  bool clean = rsc_diag_flush(diag);
  if (clean != load.ok) {
    fprintf(stderr, "%s: the result says %d, the diagnostics say %d\n", name, load.ok, clean);
    abort();
  }
  fclose(sink.messages);
  FILE *dump = open_memstream(&load.dump, &size);
  if (load.ok && kind == LOAD_CATALOGUE) dump_catalogue(dump, &load.catalogue);
  if (load.ok && kind == LOAD_CLUSTER) rsc_cluster_print(&load.cluster, dump);
  fclose(dump);
  return load;
}

void load_free(struct load *load) {
  free(load->dump);
  free(load->messages);
  rsc_arena_free(load->arena);
}

char *load_file(const char *path, size_t *len) {
  FILE *in = fopen(path, "rb");
  if (!in) {
    perror(path);
    exit(2);
  }
  char *text;
  FILE *out = open_memstream(&text, len);
  for (int c; (c = getc(in)) != EOF;) putc(c, out);
  fclose(in);
  fclose(out);
  return text;
}
