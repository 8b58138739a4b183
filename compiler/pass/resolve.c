/* SPDX-License-Identifier: Apache-2.0
 *
 * In: the name of a side's top file. Out: its layout: tensors, meshes, buffers and skips with all names, constants and
 * loops gone, and every error of the first stage that has any: reading and parsing, then executing. Buffers without an
 * error are there all the same, so that place can add what it finds wrong with them.
 */
#include "compiler/pass/resolve.h"

#include <inttypes.h>
#include <string.h>

#include "compiler/pass/resolve_impl.h"

static const struct rsc_limits generous = {
    .steps = UINT64_C(1) << 31, .items = 1 << 24, .leaves = 1 << 24, .ranks = 1 << 24, .scratch = INT64_C(1) << 30};

static void begin(struct rsc_resolver *r) {
  struct rsc_arena *arena = r->arena;
  r->said = rsc_keys_new(r->own);
  r->site_keys = rsc_keys_new(r->own);
  r->overlap_keys = rsc_keys_new(r->own);
  r->glob_keys = rsc_keys_new(r->own);
  r->buffer_keys = rsc_keys_new(r->own);
  r->tensor_names = rsc_interner_new_apart(r->own, arena);
  r->buffer_names = rsc_interner_new_apart(r->own, arena);
  r->grammar = (struct rsc_grammar){arena, r->sources, r->diag, rsc_interner_new(arena), 1}; /* statement 0: none */
  r->site = -1;
  RSC_ENSURE(arena, &r->defines_used, r->options->define_count + 1);
  rsc_bind_builtins(r);
}

/* The highest rank named plus 1, or what `world` says if that is not less. */
static void settle_world(struct rsc_resolver *r) {
  int64_t top = -1;
  const struct rsc_mesh *widest = NULL;
  for (size_t m = 0; m < r->meshes.len; m++) {
    const struct rsc_mesh *mesh = &r->meshes.at[m];
    for (int64_t i = 0; i < mesh->rank_count; i++) {
      if (mesh->ranks[i] <= top) continue;
      top = mesh->ranks[i];
      widest = mesh;
    }
  }
  if (!r->world) r->world = top + 1;
  if (r->world > top) return;
  rsc_error(r->diag, RSC_WORLD, r->world_span, "a world of %" PRId64 " rank%s, but mesh '%s' names rank %" PRId64,
            r->world, r->world == 1 ? "" : "s", widest->name, top);
  rsc_note(r->diag, widest->span, "mesh '%s' is defined here", widest->name);
}

static void execute(struct rsc_resolver *r) {
  struct rsc_file *top = r->file;
  struct rsc_span start = {top->index, 1, 1, 1};
  if (r->options->model_path && !rsc_load_model(r, r->options->model_path)) return;
  top->open = true;
  rsc_check_places(r, top->ast, 0);
  rsc_run(r, top->ast);
  size_t errors = rsc_diag_errors(r->diag);
  rsc_check_pending(r);
  rsc_check_defines(r);
  /* a mesh that failed is not missing */
  if (!r->meshes.len && !r->stop && errors == r->errors_before)
    rsc_error(r->diag, RSC_NO_MESH, start, "this side has no mesh; write  mesh NAME [axis: size, ...];");
  if (r->meshes.len) settle_world(r);
}

static void *kept(struct rsc_resolver *r, const void *at, size_t count, size_t size) {
  void *copy = rsc_arena_array(r->arena, count, size);
  if (count) memcpy(copy, at, count * size);
  return copy;
}

static bool whole(const struct rsc_value *v) {
  bool is = v->kind != RSC_VALUE_TENSOR || v->tensor >= 0;
  for (int64_t i = 0; is && i < v->child_count; i++) is = whole(v->children[i]);
  return is;
}

static void drop_broken_buffers(struct rsc_resolver *r) {
  size_t len = 0;
  for (size_t i = 0; i < r->buffers.len; i++)
    if (whole(r->buffers.at[i].value)) r->buffers.at[len++] = r->buffers.at[i];
  r->buffers.len = len;
}

static const struct rsc_layout *finish(struct rsc_resolver *r, bool partial) {
  struct rsc_layout *layout = RSC_NEW(r->arena, struct rsc_layout);
  *layout = (struct rsc_layout){.side = r->side,
                                .world = r->world,
                                .tensors = kept(r, r->tensors.at, r->tensors.len, sizeof *r->tensors.at),
                                .tensor_count = (int64_t)r->tensors.len,
                                .meshes = r->meshes.at,
                                .mesh_count = (int32_t)r->meshes.len,
                                .buffers = kept(r, r->buffers.at, r->buffers.len, sizeof *r->buffers.at),
                                .buffer_count = (int64_t)r->buffers.len,
                                .skips = r->skips.at,
                                .skip_count = (int64_t)r->skips.len,
                                .partial = partial};
  return layout;
}

static void dump_ast(const struct rsc_resolver *r) {
  const struct rsc_options *o = r->options;
  if (!o->dump || !o->dump_file || strcmp(o->dump, "ast") != 0) return;
  for (size_t i = 0; i < r->files.len; i++) {
    fprintf(o->dump_file, "# %s\n", rsc_sources_name(r->sources, r->files.at[i]->index));
    rsc_ast_print(r->files.at[i]->ast, o->dump_file);
  }
}

static const struct rsc_layout *resolve(struct rsc_resolver *r, bool *trouble) {
  const struct rsc_options *options = r->options;
  begin(r);
  *trouble = false;
  const char *path = r->side == RSC_TRAIN ? options->train_path : options->infer_path;
  if (!rsc_load_top(r, path, trouble)) return NULL;
  dump_ast(r);
  if (options->stop_after && strcmp(options->stop_after, "parse") == 0) return NULL;
  execute(r);
  rsc_scratch_free(r);
  bool partial = rsc_diag_errors(r->diag) != r->errors_before;
  if (partial && r->stop) return NULL;
  if (partial) drop_broken_buffers(r);
  return finish(r, partial);
}

const struct rsc_layout *rsc_resolve_within(struct rsc_arena *arena, struct rsc_arena *values,
                                            struct rsc_sources *sources, struct rsc_diag *diag, enum rsc_side side,
                                            const struct rsc_options *options, const struct rsc_limits *limits,
                                            bool *trouble) {
  struct rsc_resolver *r = RSC_NEW(arena, struct rsc_resolver);
  *r = (struct rsc_resolver){.arena = arena,
                             .values = values,
                             .own = rsc_arena_new(),
                             .sources = sources,
                             .diag = diag,
                             .side = side,
                             .options = options,
                             .limits = *limits,
                             .errors_before = rsc_diag_errors(diag)};
  const struct rsc_layout *layout = resolve(r, trouble);
  rsc_arena_free(r->own);
  return layout;
}

const struct rsc_layout *rsc_resolve(struct rsc_arena *arena, struct rsc_arena *values, struct rsc_sources *sources,
                                     struct rsc_diag *diag, enum rsc_side side, const struct rsc_options *options,
                                     bool *trouble) {
  return rsc_resolve_within(arena, values, sources, diag, side, options, &generous, trouble);
}
