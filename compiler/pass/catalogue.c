/* SPDX-License-Identifier: Apache-2.0
 *
 * catalogue: a YAML file -> the constants and tensors of a model. This file reads the frame: keys, default dtype,
 * constants; catalogue_tensors.c unrolls the tensors.
 */
#include <string.h>

#include "compiler/pass/catalogue_impl.h"

/* Past so many turns of its loops the file is a mistake: the largest models have some hundred thousand tensors. */
enum { MAX_TURNS = 4 * 1024 * 1024 };

enum { FIELD_VERSION, FIELD_NAME, FIELD_DTYPE, FIELD_CONSTANTS, FIELD_TENSORS, FIELD_COUNT };

enum rsp_dtype rsc_cat_dtype(struct rsc_diag *diag, const struct rsc_yaml *node) {
  static const char *const words[] = {
#define RSP_DTYPE(NAME, word, number, bytes, st) word,
#include "plans/dtype.def"
#undef RSP_DTYPE
  };
  if (!rsc_yaml_text(diag, node, "dtype")) return RSP_DTYPE_NONE;
  enum rsp_dtype dtype = rsp_dtype_from_word(node->u.scalar.text, node->u.scalar.len);
  if (dtype != RSP_DTYPE_NONE) return dtype;
  char buffer[64], list[256];
  size_t count = sizeof words / sizeof *words, used = 0;
  const char *near = rsc_yaml_suggest(node->u.scalar.text, words, count), *shown = rsc_yaml_describe(node, buffer);
  for (size_t i = 0; i < count; i++) {
    size_t len = strlen(words[i]);
    if (used + len + 2 > sizeof list) break;
    if (i) list[used++] = ' ';
    memcpy(list + used, words[i], len);
    used += len;
  }
  list[used] = '\0';
  if (near && strlen(node->u.scalar.text) > 2)
    rsc_error(diag, RSC_CATALOGUE_DTYPE, node->span, "%s is not a dtype; did you mean '%s'? dtypes are %s", shown, near,
              list);
  else
    rsc_error(diag, RSC_CATALOGUE_DTYPE, node->span, "%s is not a dtype; dtypes are %s", shown, list);
  return RSP_DTYPE_NONE;
}

/* Plain text that YAML or a reader may take for something else than text. */
static bool looks_typed(const struct rsc_cat_scope *before, const struct rsc_yaml *node) {
  static const char *const words[] = {"true", "True", "TRUE", "false", "False", "FALSE",
                                      "null", "Null", "NULL", "~",     ""};
  const char *text = node->u.scalar.text;
  int64_t value;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    if (!strcmp(text, words[i])) return true;
  }
  const char *digit = text + strspn(text, "+-.");
  if (*digit >= '0' && *digit <= '9') return true;
  return rsc_cat_int(NULL, before, node, 0, node->u.scalar.len, &value); /* `2*L` or `L` is not a string by intent */
}

static bool read_constant(struct rsc_cat *cat, const struct rsc_cat_scope *before, const struct rsc_yaml *node,
                          struct rsc_constant *out);

static bool read_list(struct rsc_cat *cat, const struct rsc_cat_scope *before, const struct rsc_yaml *node,
                      struct rsc_constant *out) {
  size_t count = node->u.items.count;
  struct rsc_constant *items = RSC_ARRAY(cat->arena, struct rsc_constant, count);
  bool ok = true;
  for (size_t i = 0; i < count; i++) ok = read_constant(cat, before, &node->u.items.at[i], &items[i]) && ok;
  out->kind = RSC_CONSTANT_LIST;
  out->items = items;
  out->item_count = (int64_t)count;
  return ok;
}

/* Recursion ends with the tree's own limit on nesting. */
static bool read_constant(struct rsc_cat *cat, const struct rsc_cat_scope *before, const struct rsc_yaml *node,
                          struct rsc_constant *out) {
  char buffer[64];
  bool overflow = false;
  out->span = node->span;
  if (node->kind == RSC_YAML_LIST) return read_list(cat, before, node, out);
  if (node->kind == RSC_YAML_MAP) {
    rsc_error(cat->diag, RSC_CATALOGUE_CONSTANT, node->span, "a constant is an integer, a string or a list, not a map");
    return false;
  }
  const char *text = node->u.scalar.text;
  if (node->plain && rsc_yaml_is_int(text, &out->number, &overflow)) {
    if (overflow) rsc_error(cat->diag, RSC_CATALOGUE_ARITHMETIC, node->span, "%s does not fit into 64 bits", text);
    return !overflow;
  }
  out->kind = RSC_CONSTANT_STRING;
  out->string = text;
  if (!node->plain || !looks_typed(before, node)) return true;
  rsc_error(
      cat->diag, RSC_CATALOGUE_CONSTANT, node->span,
      "a constant is an integer, a string or a list, not %s; write a decimal integer (1 or 0 for yes or no), or put "
      "text in quotes",
      rsc_yaml_describe(node, buffer));
  return false;
}

static bool read_constants(struct rsc_cat *cat, const struct rsc_yaml *map) {
  if (!rsc_yaml_expect(cat->diag, map, RSC_YAML_MAP, "constants")) return false;
  size_t count = map->u.items.count / 2;
  struct rsc_constant *constants = RSC_ARRAY(cat->arena, struct rsc_constant, count);
  bool ok = true;
  cat->constants = constants;
  for (size_t i = 0; i < count; i++) {
    const struct rsc_yaml *key = &map->u.items.at[2 * i];
    struct rsc_cat_scope before = {.constants = constants, .constant_count = i};
    constants[i].name = key->u.scalar.text;
    if (!rsc_cat_is_name(key->u.scalar.text, key->u.scalar.len)) {
      rsc_error(cat->diag, RSC_CATALOGUE_CONSTANT, key->span,
                "'%s' is not a name; letters, digits and _ make one, a digit not first", key->u.scalar.text);
      ok = false;
    }
    ok = read_constant(cat, &before, key + 1, &constants[i]) && ok;
    constants[i].span = key->span;
    cat->constant_count = i + 1;
  }
  return ok;
}

static bool check_version(struct rsc_diag *diag, const struct rsc_yaml *root, const struct rsc_yaml *version) {
  char buffer[64];
  if (!version) {
    for (size_t k = 0; root->kind == RSC_YAML_MAP && k < root->u.items.count; k += 2) {
      if (strcmp(root->u.items.at[k].u.scalar.text, "reshard-cluster") != 0) continue;
      rsc_error(diag, RSC_YAML_VERSION, root->u.items.at[k].span,
                "this is a cluster file; give it with --cluster, and a catalogue of tensors here");
      return false;
    }
    rsc_error(diag, RSC_YAML_VERSION, root->span, "a catalogue begins with `reshard-model: 1`; add this line");
    return false;
  }
  if (version->kind == RSC_YAML_SCALAR && !strcmp(version->u.scalar.text, "1")) return true;
  rsc_error(diag, RSC_YAML_VERSION, version->span, "reshard-model is %s; this program reads `reshard-model: 1`",
            rsc_yaml_describe(version, buffer));
  return false;
}

static bool read_tensors(struct rsc_cat *cat, const struct rsc_yaml *list) {
  if (!rsc_yaml_expect(cat->diag, list, RSC_YAML_LIST, "tensors")) return false;
  bool ok = true;
  for (size_t i = 0; i < list->u.items.count; i++) ok = rsc_cat_add_tensors(cat, &list->u.items.at[i]) && ok;
  return ok;
}

static const struct rsc_yaml *find(const struct rsc_yaml *map, const char *key) {
  for (size_t k = 0; map->kind == RSC_YAML_MAP && k < map->u.items.count; k += 2) {
    if (!strcmp(map->u.items.at[k].u.scalar.text, key)) return &map->u.items.at[k + 1];
  }
  return NULL;
}

bool rsc_catalogue_read_limited(struct rsc_arena *arena, struct rsc_sources *sources, struct rsc_diag *diag, int file,
                                int64_t max_turns, struct rsc_catalogue *out) {
  struct rsc_yaml_field f[FIELD_COUNT] = {[FIELD_VERSION] = {.name = "reshard-model"},
                                          [FIELD_NAME] = {.name = "name"},
                                          [FIELD_DTYPE] = {.name = "dtype"},
                                          [FIELD_CONSTANTS] = {.name = "constants"},
                                          [FIELD_TENSORS] = {"tensors", true, "tensors: [...]", NULL}};
  struct rsc_cat cat = {.arena = arena, .diag = diag, .max_turns = max_turns, .names = rsc_interner_new(arena)};
  struct rsc_yaml root;
  *out = (struct rsc_catalogue){.name = ""};
  if (!rsc_yaml_read(arena, sources, diag, file, &root)) return false;
  if (!rsc_yaml_expect(diag, &root, RSC_YAML_MAP, "a catalogue")) return false;
  if (!check_version(diag, &root, find(&root, "reshard-model"))) return false;
  bool ok = rsc_yaml_fields(diag, &root, "a catalogue", f, FIELD_COUNT);
  if (f[FIELD_NAME].value) ok = rsc_yaml_text(diag, f[FIELD_NAME].value, "name") && ok;
  if (f[FIELD_DTYPE].value) ok = (cat.dtype = rsc_cat_dtype(diag, f[FIELD_DTYPE].value)) != RSP_DTYPE_NONE && ok;
  /* Tensors need the constants and the default; without them they would only repeat the same mistake. */
  if (f[FIELD_CONSTANTS].value) ok = read_constants(&cat, f[FIELD_CONSTANTS].value) && ok;
  if (!ok) return false;
  ok = read_tensors(&cat, f[FIELD_TENSORS].value);
  if (f[FIELD_NAME].value) out->name = f[FIELD_NAME].value->u.scalar.text;
  out->constants = cat.constants;
  out->constant_count = (int64_t)cat.constant_count;
  out->tensors = cat.tensors.at;
  out->tensor_count = (int64_t)cat.tensors.len;
  return ok;
}

bool rsc_catalogue_read(struct rsc_arena *arena, struct rsc_sources *sources, struct rsc_diag *diag, int file,
                        struct rsc_catalogue *out) {
  return rsc_catalogue_read_limited(arena, sources, diag, file, MAX_TURNS, out);
}
