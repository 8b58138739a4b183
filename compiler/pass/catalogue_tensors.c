/* SPDX-License-Identifier: Apache-2.0
 *
 * In: one entry of a catalogue's `tensors:`. Out: its tensors, with every loop unrolled, in order.
 */
#include <inttypes.h>
#include <string.h>

#include "compiler/base/check.h"
#include "compiler/pass/catalogue_impl.h"

enum { FIELD_NAME, FIELD_FOR, FIELD_SHAPE, FIELD_DTYPE, FIELD_COUNT };
enum { NDIM_MAX = 8, LOOPS_MAX = 32 };

struct entry {
  const struct rsc_yaml *name, *loops, *shape; /* loops: NULL without `for` */
  enum rsp_dtype dtype;
  size_t loop_count;
  struct rsc_cat_scope scope;
  struct rsc_constant *vars;
  bool fixed; /* the shape depends on no loop: dims and elems are found once */
  bool known; /* and they are found */
  int64_t *dims;
  int64_t elems;
};

static bool size_error(const struct rsc_cat *cat, const struct entry *e, struct rsc_span span, const char *message) {
  rsc_error(cat->diag, RSC_CATALOGUE_SHAPE, span, "%s", message);
  rsc_cat_note_values(cat->diag, &e->scope);
  return false;
}

static bool find_dims(struct rsc_cat *cat, struct entry *e) {
  size_t ndim = e->shape->u.items.count;
  int64_t product = 1, bytes;
  bool empty = false, overflow = false;
  e->dims = RSC_ARRAY(cat->arena, int64_t, ndim);
  for (size_t i = 0; i < ndim; i++) {
    const struct rsc_yaml *item = &e->shape->u.items.at[i];
    if (!rsc_cat_int(cat->diag, &e->scope, item, 0, item->u.scalar.len, &e->dims[i])) return false;
    if (e->dims[i] < 0) return size_error(cat, e, item->span, "a size is not negative");
    empty = empty || e->dims[i] == 0;
    overflow = overflow || rsc_mul(product, e->dims[i], &product);
  }
  e->elems = empty ? 0 : product;
  if (!empty && (overflow || rsc_mul(product, (int64_t)rsp_dtype_bytes(e->dtype), &bytes)))
    return size_error(cat, e, e->shape->span, "a tensor of this shape has more than 2^63 bytes");
  e->known = e->fixed;
  return true;
}

static bool add_one(struct rsc_cat *cat, struct entry *e) {
  cat->text.len = 0;
  if (!rsc_cat_expand(cat->arena, cat->diag, &e->scope, e->name, &cat->text)) return false;
  if (!e->known && !find_dims(cat, e)) return false;
  if (cat->text.len == 0) {
    rsc_error(cat->diag, RSC_CATALOGUE_TEMPLATE, e->name->span, "the name comes out empty");
    rsc_cat_note_values(cat->diag, &e->scope);
    return false;
  }
  const struct rsc_symbol *name = rsc_intern(cat->names, cat->text.at, cat->text.len);
  if (name->id < cat->tensors.len) {
    rsc_error(cat->diag, RSC_CATALOGUE_DUPLICATE, e->name->span, "tensor '%s' stands in this catalogue twice; keep one",
              cat->text.at);
    rsc_cat_note_values(cat->diag, &e->scope);
    rsc_note(cat->diag, cat->tensors.at[name->id].span, "the other is made here");
    return false;
  }
  struct rsc_tensor tensor = {.name = name->text,
                              .dtype = e->dtype,
                              .ndim = (int32_t)e->shape->u.items.count,
                              .dims = e->dims,
                              .elems = e->elems,
                              .span = e->name->span};
  *RSC_PUSH(cat->arena, &cat->tensors) = tensor;
  return true;
}

static bool unroll(struct rsc_cat *cat, struct entry *e, size_t level);

static bool loop_error(const struct rsc_cat *cat, struct rsc_span span, const char *var, const char *message) {
  rsc_error(cat->diag, RSC_CATALOGUE_LOOP, span, "loop '%s': %s", var, message);
  return false;
}

/* Runs the levels below with the variable of this level set to `value`. */
static bool run_with(struct rsc_cat *cat, struct entry *e, size_t level, struct rsc_constant value) {
  /* Turns are counted, not tensors: an inner loop may be empty. */
  if (cat->turns++ >= cat->max_turns) {
    rsc_error(cat->diag, RSC_CATALOGUE_TOO_MANY, e->vars[level].span,
              "the loops of this catalogue take more than %" PRId64 " turns; check their bounds", cat->max_turns);
    return false;
  }
  value.name = e->vars[level].name;
  value.span = e->vars[level].span;
  e->vars[level] = value;
  e->scope.var_count = level + 1;
  bool ok = unroll(cat, e, level + 1);
  e->scope.var_count = level;
  return ok;
}

static bool run_range(struct rsc_cat *cat, struct entry *e, size_t level, const struct rsc_yaml *node, size_t dots) {
  int64_t lo, hi;
  if (!rsc_cat_int(cat->diag, &e->scope, node, 0, dots, &lo)) return false;
  if (!rsc_cat_int(cat->diag, &e->scope, node, dots + 2, node->u.scalar.len, &hi)) return false;
  for (int64_t i = lo; i < hi; i++) {
    if (!run_with(cat, e, level, (struct rsc_constant){.kind = RSC_CONSTANT_INT, .number = i})) return false;
  }
  return true;
}

static bool run_constant(struct rsc_cat *cat, struct entry *e, size_t level, struct rsc_span span,
                         const struct rsc_constant *list) {
  for (int64_t i = 0; i < list->item_count; i++) {
    if (list->items[i].kind == RSC_CONSTANT_LIST)
      return loop_error(cat, span, e->vars[level].name, "its list holds lists; it needs numbers or strings");
    if (list->items[i].kind != list->items[0].kind)
      return loop_error(cat, span, e->vars[level].name, "its list mixes numbers and strings; quote all or none");
  }
  for (int64_t i = 0; i < list->item_count; i++) {
    if (!run_with(cat, e, level, list->items[i])) return false;
  }
  return true;
}

/* An item of a list written in `for`: quoted text is a string; plain text an integer if it makes sense as one. */
static struct rsc_constant list_item(const struct rsc_cat_scope *scope, const struct rsc_yaml *item) {
  struct rsc_constant value = {.kind = RSC_CONSTANT_INT};
  if (item->plain && rsc_cat_int(NULL, scope, item, 0, item->u.scalar.len, &value.number)) return value;
  value.kind = RSC_CONSTANT_STRING;
  value.string = item->u.scalar.text;
  return value;
}

static bool run_list(struct rsc_cat *cat, struct entry *e, size_t level, const struct rsc_yaml *node) {
  size_t count = node->u.items.count;
  struct rsc_constant *items = RSC_ARRAY(cat->arena, struct rsc_constant, count);
  for (size_t i = 0; i < count; i++) {
    if (!rsc_yaml_text(cat->diag, &node->u.items.at[i], "an item of a loop's list")) return false;
    items[i] = list_item(&e->scope, &node->u.items.at[i]);
  }
  struct rsc_constant list = {.items = items, .item_count = (int64_t)count};
  return run_constant(cat, e, level, node->span, &list);
}

/* Levels are few (LOOPS_MAX), so this may recurse. The first error ends the entry: the others would say the same. */
static bool unroll(struct rsc_cat *cat, struct entry *e, size_t level) {
  if (level == e->loop_count) return add_one(cat, e);
  const struct rsc_yaml *node = &e->loops->u.items.at[2 * level + 1];
  const char *var = e->vars[level].name;
  if (node->kind == RSC_YAML_LIST) return run_list(cat, e, level, node);
  if (node->kind == RSC_YAML_MAP) return loop_error(cat, node->span, var, "write a range a..b or a list, not a map");
  const char *dots = strstr(node->u.scalar.text, "..");
  if (dots) return run_range(cat, e, level, node, (size_t)(dots - node->u.scalar.text));
  const struct rsc_constant *c = rsc_cat_find(&e->scope, node->u.scalar.text, node->u.scalar.len);
  if (c && c->kind == RSC_CONSTANT_LIST) return run_constant(cat, e, level, node->span, c);
  return loop_error(cat, node->span, var, "write a range a..b (b not included) or a list; for 0 up to n, 0..n");
}

/* Whether a loop's variable makes a difference: in the name, or in the bounds of a loop inside it. */
static bool is_used(const struct entry *e, size_t level) {
  const char *var = e->vars[level].name;
  if (rsc_cat_mentions(e->name->u.scalar.text, e->name->u.scalar.len, true, var)) return true;
  for (size_t i = level + 1; i < e->loop_count; i++) {
    const struct rsc_yaml *node = &e->loops->u.items.at[2 * i + 1];
    size_t count = node->kind == RSC_YAML_LIST ? node->u.items.count : 1;
    const struct rsc_yaml *item = node->kind == RSC_YAML_LIST ? node->u.items.at : node;
    for (size_t k = 0; k < count; k++) {
      if (item[k].kind != RSC_YAML_SCALAR) continue;
      if (rsc_cat_mentions(item[k].u.scalar.text, item[k].u.scalar.len, false, var)) return true;
    }
  }
  return false;
}

static bool check_loops(struct rsc_cat *cat, struct entry *e) {
  bool ok = true;
  for (size_t i = 0; i < e->loop_count; i++) {
    const struct rsc_yaml *key = &e->loops->u.items.at[2 * i];
    const char *var = e->vars[i].name;
    struct rsc_cat_scope constants = {.constants = cat->constants, .constant_count = cat->constant_count};
    const struct rsc_constant *taken = rsc_cat_find(&constants, var, key->u.scalar.len);
    e->vars[i].span = key->span;
    if (!rsc_cat_is_name(var, key->u.scalar.len)) {
      ok = loop_error(cat, key->span, var, "letters, digits and _ make a name, a digit not first");
    } else if (taken) {
      ok = loop_error(cat, key->span, var, "the name is a constant already; take another");
      rsc_note(cat->diag, taken->span, "the constant is defined here");
    }
  }
  for (size_t i = 0; ok && i < e->loop_count; i++) {
    if (is_used(e, i)) continue;
    rsc_error(cat->diag, RSC_CATALOGUE_LOOP, e->vars[i].span,
              "loop '%s' is not used in the name; put {%s} into the name or remove the loop", e->vars[i].name,
              e->vars[i].name);
    ok = false;
  }
  return ok;
}

static bool check_shape(struct rsc_cat *cat, struct entry *e) {
  if (!rsc_yaml_expect(cat->diag, e->shape, RSC_YAML_LIST, "shape")) return false;
  if (e->shape->u.items.count > NDIM_MAX) {
    rsc_error(cat->diag, RSC_CATALOGUE_SHAPE, e->shape->span, "a tensor has at most 8 dimensions, not %zu",
              e->shape->u.items.count);
    return false;
  }
  e->fixed = true;
  for (size_t i = 0; i < e->shape->u.items.count; i++) {
    const struct rsc_yaml *item = &e->shape->u.items.at[i];
    if (!rsc_yaml_text(cat->diag, item, "a size")) return false;
    for (size_t v = 0; v < e->loop_count; v++) {
      if (rsc_cat_mentions(item->u.scalar.text, item->u.scalar.len, false, e->vars[v].name)) e->fixed = false;
    }
  }
  return true;
}

static bool check_dtype(struct rsc_cat *cat, struct entry *e, const struct rsc_yaml *entry,
                        const struct rsc_yaml *dtype) {
  e->dtype = dtype ? rsc_cat_dtype(cat->diag, dtype) : cat->dtype;
  if (e->dtype != RSP_DTYPE_NONE) return true;
  if (!dtype)
    rsc_error(cat->diag, RSC_CATALOGUE_DTYPE, entry->span,
              "this tensor has no dtype; add `dtype: bf16` to it, or to the top of the file for all");
  return false;
}

bool rsc_cat_add_tensors(struct rsc_cat *cat, const struct rsc_yaml *entry) {
  struct rsc_yaml_field f[FIELD_COUNT] = {[FIELD_NAME] = {"name", true, "name: model.norm.weight", NULL},
                                          [FIELD_FOR] = {.name = "for"},
                                          [FIELD_SHAPE] = {"shape", true, "shape: [4096]", NULL},
                                          [FIELD_DTYPE] = {.name = "dtype"}};
  if (!rsc_yaml_fields(cat->diag, entry, "a tensor", f, FIELD_COUNT)) return false;
  struct entry e = {.name = f[FIELD_NAME].value, .loops = f[FIELD_FOR].value, .shape = f[FIELD_SHAPE].value};
  bool ok = rsc_yaml_text(cat->diag, e.name, "name");
  if (e.loops && !rsc_yaml_expect(cat->diag, e.loops, RSC_YAML_MAP, "for")) return false;
  e.loop_count = e.loops ? e.loops->u.items.count / 2 : 0;
  if (e.loop_count > LOOPS_MAX) {
    rsc_error(cat->diag, RSC_CATALOGUE_LOOP, e.loops->span, "more than %d loops in one tensor; use a list", LOOPS_MAX);
    return false;
  }
  struct rsc_constant vars[LOOPS_MAX] = {{.name = NULL}};
  e.vars = vars;
  for (size_t i = 0; i < e.loop_count; i++) vars[i].name = e.loops->u.items.at[2 * i].u.scalar.text;
  e.scope = (struct rsc_cat_scope){.constants = cat->constants, .constant_count = cat->constant_count, .vars = vars};
  ok = ok && check_loops(cat, &e);
  ok = check_shape(cat, &e) && ok;
  ok = check_dtype(cat, &e, entry, f[FIELD_DTYPE].value) && ok;
  return ok && unroll(cat, &e, 0);
}
