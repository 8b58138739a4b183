// SPDX-License-Identifier: Apache-2.0
//
// In: any bytes; the first one picks what the rest is read as: even a catalogue, odd a cluster. Holds: no crash, an
// error for what is refused and none for what is taken, names distinct, every rank on a GPU of its host.

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/base/intern.h"
#include "compiler/pass/catalogue_impl.h"
#include "compiler/pass/topology_impl.h"

enum { MAX_TURNS = 2000, MAX_GPUS = 4096, MAX_INPUT = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok) {
  if (!ok) abort();
}

static void check_catalogue(struct rsc_arena *arena, const struct rsc_catalogue *c) {
  struct rsc_interner *names = rsc_interner_new(arena);
  must(c->tensor_count <= MAX_TURNS + MAX_INPUT);
  for (int64_t i = 0; i < c->tensor_count; i++) {
    const struct rsc_tensor *t = &c->tensors[i];
    must(rsc_intern(names, t->name, strlen(t->name))->id == i);
    must(t->name[0] && t->ndim >= 0 && t->ndim <= 8 && t->elems >= 0 && rsp_dtype_bytes((uint32_t)t->dtype) > 0);
    for (int32_t d = 0; d < t->ndim; d++) must(t->dims[d] >= 0);
  }
}

static void check_cluster(const struct rsc_cluster *c) {
  must(c->world >= c->train_world && c->world >= c->infer_world && c->world <= c->train_world + c->infer_world);
  for (int64_t i = 0; i < c->host_count; i++) must(c->hosts[i].domain >= 0 && c->hosts[i].domain < c->domain_count);
  for (int64_t i = 0; i < c->world; i++) {
    const struct rsc_process *p = &c->processes[i];
    must(p->host >= 0 && p->host < c->host_count && p->gpu >= 0 && p->gpu < c->hosts[p->host].gpus);
    must(p->train_rank < 0 || c->world_of_train[p->train_rank] == i);
    must(p->infer_rank < 0 || c->world_of_infer[p->infer_rank] == i);
    must(p->train_rank >= 0 || p->infer_rank >= 0);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1 || size > MAX_INPUT) return 0;
  struct rsc_arena *arena = rsc_arena_new();
  struct rsc_sources *sources = rsc_sources_new(arena);
  int file = rsc_sources_add(sources, "fuzz.yaml", (const char *)data + 1, size - 1);
  struct rsc_diag *diag = rsc_diag_new(arena, sources, NULL, NULL);
  struct rsc_catalogue catalogue;
  struct rsc_cluster cluster;
  bool model = data[0] % 2 == 0;
  bool ok = model ? rsc_catalogue_read_limited(arena, sources, diag, file, MAX_TURNS, &catalogue)
                  : rsc_topology_limited(arena, sources, diag, file, 4, 4, MAX_GPUS, &cluster);
  must(rsc_diag_flush(diag) == ok);
  if (ok && model) check_catalogue(arena, &catalogue);
  if (ok && !model) check_cluster(&cluster);
  rsc_arena_free(arena);
  return 0;
}
