/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors, buffers and skips: what the layout is made of, and that each stands once.
 */
#include <inttypes.h>
#include <string.h>

#include "compiler/base/check.h"
#include "compiler/pass/resolve_impl.h"

enum { NDIM_MAX = 8 };

/* What others call our dtypes. */
static const char *dtype_elsewhere(const struct rsc_symbol *name) {
  static const struct {
    const char *theirs, *ours;
  } words[] = {{"bfloat16", "bf16"}, {"float16", "f16"},
               {"half", "f16"},      {"float32", "f32"},
               {"float", "f32"},     {"fp32", "f32"},
               {"fp16", "f16"},      {"float64", "f64"},
               {"double", "f64"},    {"float8_e4m3fn", "f8e4m3"},
               {"e4m3", "f8e4m3"},   {"float8_e5m2", "f8e5m2"},
               {"e5m2", "f8e5m2"},   {"int8", "i8"},
               {"uint8", "u8"},      {"byte", "u8"},
               {"int16", "i16"},     {"uint16", "u16"},
               {"int32", "i32"},     {"int", "i32"},
               {"uint32", "u32"},    {"int64", "i64"},
               {"long", "i64"},      {"uint64", "u64"},
               {"fp8", "f8e4m3"}};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    if (strcmp(words[i].theirs, name->text) == 0) return words[i].ours;
  }
  enum rsp_dtype dtype = rsp_dtype_from_safetensors(name->text, name->len);
  return dtype ? rsp_dtype_word(dtype) : NULL;
}

static bool eval_dtype(struct rsc_resolver *r, const struct rsc_ast *name, enum rsp_dtype *out) {
  static const char *const words[] = {
#define RSP_DTYPE(NAME, word, number, bytes, st) word,
#include "plans/dtype.def"
#undef RSP_DTYPE
  };
  *out = rsp_dtype_from_word(name->symbol->text, name->symbol->len);
  if (*out != RSP_DTYPE_NONE) return true;
  const char *known = dtype_elsewhere(name->symbol);
  struct rsc_guess guess;
  rsc_guess_begin(&guess, name->symbol->text, name->symbol->len);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) rsc_guess_offer(&guess, words[i], strlen(words[i]));
  if (known) guess = (struct rsc_guess){.wanted = "", .best = known, .best_len = strlen(known)};
  const char *text = rsc_guess_text(r->arena, &guess);
  return rsc_fail(r, RSC_DTYPE_UNKNOWN, name->span, "'%s' is no dtype%s", name->symbol->text,
                  *text ? text : "; they are bool u8 i8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64 f8e4m3 f8e5m2");
}

static bool eval_shape(struct rsc_resolver *r, const struct rsc_ast *list, struct rsc_tensor *t) {
  if (list->kid_count > NDIM_MAX)
    return rsc_fail(r, RSC_NDIM, list->span, "%zu dimensions; a tensor has at most %d", list->kid_count, NDIM_MAX);
  int64_t *dims = RSC_ARRAY(r->own, int64_t, list->kid_count ? list->kid_count : 1);
  t->dims = dims;
  t->ndim = (int32_t)list->kid_count;
  t->elems = 1;
  bool empty = false, huge = false;
  for (int32_t i = 0; i < t->ndim; i++) {
    if (!rsc_eval_int(r, list->kids[i], "a dimension", &dims[i])) return false;
    if (dims[i] < 0)
      return rsc_fail(r, RSC_TENSOR_SIZE, list->kids[i]->span,
                      "a dimension of %" PRId64 "; dimensions are not negative", dims[i]);
    empty = empty || dims[i] == 0;
    huge = huge || rsc_mul(t->elems, dims[i], &t->elems);
  }
  int64_t bytes;
  if (empty)
    t->elems = 0;
  else if (huge || rsc_mul(t->elems, (int64_t)rsp_dtype_bytes(t->dtype), &bytes))
    return rsc_fail(r, RSC_TENSOR_SIZE, list->span, "the tensor has 2^63 bytes or more");
  return true;
}

/* Tensors of one loop have mostly the same shape: one copy for them. */
static const int64_t *keep_dims(struct rsc_resolver *r, const struct rsc_tensor *tensor) {
  size_t bytes = (size_t)tensor->ndim * sizeof *tensor->dims;
  const struct rsc_tensor *before = r->tensors.len > 1 ? &r->tensors.at[r->tensors.len - 2] : NULL;
  if (before && before->ndim == tensor->ndim && (!bytes || !memcmp(before->dims, tensor->dims, bytes)))
    return before->dims;
  int64_t *dims = RSC_ARRAY(r->arena, int64_t, tensor->ndim);
  if (bytes) memcpy(dims, tensor->dims, bytes);
  return dims;
}

bool rsc_declare(struct rsc_resolver *r, const struct rsc_tensor *tensor) {
  const struct rsc_symbol *symbol = rsc_intern_kept(r->tensor_names, tensor->name, strlen(tensor->name));
  RSC_ENSURE(r->own, &r->declared, (size_t)symbol->id + 1);
  int32_t first = r->declared.at[symbol->id];
  if (first == RSC_SPOILT) return true; /* reported */
  if (first) {
    rsc_fail(r, RSC_TENSOR_TWICE, tensor->span, "tensor '%s' is already declared",
             rsc_shown(r, symbol->text, symbol->len));
    rsc_fail_note(r, r->tensors.at[first - 1].span, "it is declared here");
    return false;
  }
  *RSC_PUSH(r->own, &r->tensors) = *tensor;
  struct rsc_tensor *kept = &r->tensors.at[r->tensors.len - 1];
  kept->name = symbol->text;
  kept->dims = keep_dims(r, tensor);
  r->declared.at[symbol->id] = (int32_t)r->tensors.len;
  return true;
}

static bool eval_label(struct rsc_resolver *r, const struct rsc_ast *e, const char *what, struct rsc_item *out) {
  if (!rsc_eval_string(r, e, "a name", out)) return false;
  return out->len || rsc_fail(r, RSC_NAME_EMPTY, e->span, "the name of a %s is not empty", what);
}

/* A tensor whose declaration failed is not missing where it is mentioned. */
static void spoil(struct rsc_resolver *r, const struct rsc_item *name) {
  const struct rsc_symbol *symbol = rsc_intern(r->tensor_names, name->u.str, name->len);
  RSC_ENSURE(r->own, &r->declared, (size_t)symbol->id + 1);
  if (!r->declared.at[symbol->id]) r->declared.at[symbol->id] = RSC_SPOILT;
}

void rsc_run_tensor(struct rsc_resolver *r, const struct rsc_ast *s) {
  struct rsc_item name;
  struct rsc_tensor t = {.span = s->kids[0]->span};
  if (!eval_label(r, s->kids[0], "tensor", &name)) return;
  t.name = rsc_arena_strdup(r->arena, name.u.str, name.len);
  if (eval_dtype(r, s->kids[1], &t.dtype) && eval_shape(r, s->kids[2], &t))
    rsc_declare(r, &t);
  else
    spoil(r, &name);
}

static void refuse_twice(struct rsc_resolver *r, const struct rsc_symbol *name, struct rsc_span span, int32_t site,
                         const struct rsc_buffer_place *first) {
  rsc_fail(r, RSC_BUFFER_TWICE, span, "buffer '%s' is already on rank %" PRId64, rsc_shown(r, name->text, name->len),
           rsc_common_rank(r, site, first->site));
  rsc_fail_note(r, first->span, "it is defined here");
}

/* The group of this name for the site's mesh and pinned axes, made if it is new. */
static struct rsc_buffer_group *group_of(struct rsc_resolver *r, uint32_t name, const struct rsc_site *site) {
  for (int32_t g = r->group_of.at[name]; g; g = r->groups.at[g - 1].next) {
    struct rsc_buffer_group *group = &r->groups.at[g - 1];
    if (group->mesh == site->mesh && group->pinned == site->pinned) return group;
  }
  *RSC_PUSH(r->own, &r->groups) =
      (struct rsc_buffer_group){.mesh = site->mesh, .pinned = site->pinned, .next = r->group_of.at[name]};
  r->group_of.at[name] = (int32_t)r->groups.len;
  return &r->groups.at[r->groups.len - 1];
}

static bool stands_once(struct rsc_resolver *r, const struct rsc_symbol *name, struct rsc_span span) {
  int32_t site = r->site, pair[2] = {(int32_t)name->id, site};
  RSC_ENSURE(r->own, &r->group_of, (size_t)name->id + 1);
  bool fresh;
  int32_t place = rsc_keys_id(r->buffer_keys, pair, sizeof pair, &fresh);
  if (!fresh) {
    refuse_twice(r, name, span, site, &r->places.at[place]);
    return false;
  }
  *RSC_PUSH(r->own, &r->places) = (struct rsc_buffer_place){.site = site, .span = span};
  struct rsc_buffer_group *mine = group_of(r, name->id, &r->sites.at[site]);
  r->places.at[place].next = mine->first;
  mine->first = place + 1;
  for (int32_t g = r->group_of.at[name->id]; g; g = r->groups.at[g - 1].next) {
    if (&r->groups.at[g - 1] == mine || !rsc_meshes_meet(r, mine->mesh, r->groups.at[g - 1].mesh)) continue;
    for (int32_t p = r->groups.at[g - 1].first; p; p = r->places.at[p - 1].next) {
      if (!rsc_sites_meet(r, site, r->places.at[p - 1].site)) continue;
      refuse_twice(r, name, span, site, &r->places.at[p - 1]);
      return false;
    }
  }
  return true;
}

static const struct rsc_value *buffer_value(struct rsc_resolver *r, const struct rsc_ast *s,
                                            const struct rsc_item *name) {
  const struct rsc_ast *e = s->kids[2];
  if (e && !(e->kind == RSC_AST_VIEW && !e->kids[0])) return rsc_eval_value(r, e);
  const struct rsc_value *tensor = rsc_value_tensor(r, s->kids[0]->span, name->u.str, name->len);
  struct rsc_item item;
  if (!e || !tensor) return tensor;
  return rsc_value_view(r, e, tensor, &item) ? item.u.value : NULL;
}

void rsc_run_buffer(struct rsc_resolver *r, const struct rsc_ast *s) {
  struct rsc_item label;
  enum rsp_dtype dtype = RSP_DTYPE_NONE;
  if (r->site < 0) return; /* refused by rsc_check_places */
  if (!eval_label(r, s->kids[0], "buffer", &label) || (s->kids[1] && !eval_dtype(r, s->kids[1], &dtype))) return;
  const struct rsc_value *value = buffer_value(r, s, &label);
  if (!value) return;
  struct rsc_span span = s->kids[0]->span;
  const struct rsc_knot *knot = rsc_knot_of(value);
  if (!knot->tensors && dtype == RSP_DTYPE_NONE) {
    rsc_fail(r, RSC_GAP_DTYPE, span, "a buffer that holds no tensor states its dtype: buffer \"...\" u8 = ...");
    return;
  }
  r->leaves += knot->leaves;
  if (r->leaves > r->limits.leaves) {
    rsc_fail(r, RSC_TOO_LARGE, span, "the layout mentions more than %" PRId64 " tensors", r->limits.leaves);
    r->stop = true;
    return;
  }
  const struct rsc_symbol *name = rsc_intern(r->buffer_names, label.u.str, label.len);
  if (r->doubtful || !stands_once(r, name, span)) return;
  const struct rsc_site *site = &r->sites.at[r->site];
  *RSC_PUSH(r->own, &r->buffers) = (struct rsc_buffer){.name = name->text,
                                                       .dtype = dtype,
                                                       .mesh = site->mesh,
                                                       .pins = site->pins,
                                                       .value = value,
                                                       .span = span,
                                                       .loop_values = rsc_loop_text(r)};
}

void rsc_run_skip(struct rsc_resolver *r, const struct rsc_ast *s) {
  struct rsc_item glob;
  if (!eval_label(r, s->kids[0], "tensor to skip", &glob)) return;
  *RSC_PUSH(r->arena, &r->skips) =
      (struct rsc_skip){.glob = rsc_arena_strdup(r->arena, glob.u.str, glob.len), .span = s->kids[0]->span};
}

static void refuse_unknown(struct rsc_resolver *r, const struct rsc_pending *p) {
  struct rsc_guess guess;
  r->statement = p->statement;
  if (rsc_failed_before(r, p->statement)) return;
  rsc_guess_begin(&guess, p->name->text, p->name->len);
  for (size_t i = 0; i < r->tensors.len; i++)
    rsc_guess_offer(&guess, r->tensors.at[i].name, strlen(r->tensors.at[i].name));
  const char *text = rsc_guess_text(r->arena, &guess);
  if (!r->tensors.len) text = "; it declares none, so a  model \"...\";  or  tensor \"...\" ...;  is missing";
  rsc_fail(r, RSC_TENSOR_UNKNOWN, p->span, "this side declares no tensor '%s'%s",
           rsc_shown(r, p->name->text, p->name->len), text);
  if (p->call.file >= 0) rsc_fail_note(r, p->call, "in this use");
  if (*p->loops) rsc_fail_note(r, (struct rsc_span){.file = -1}, "in the loop at %s", p->loops);
}

void rsc_check_pending(struct rsc_resolver *r) {
  for (size_t i = 0; i < r->pending.len; i++) {
    const struct rsc_pending *p = &r->pending.at[i];
    int32_t declared = r->declared.at[p->name->id];
    p->knot->v.tensor = declared > 0 ? declared - 1 : -1;
    if (!declared) refuse_unknown(r, p);
  }
}
