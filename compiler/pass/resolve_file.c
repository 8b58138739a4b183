/* SPDX-License-Identifier: Apache-2.0
 *
 * Files: the top file, what it includes, and model catalogues. Included files with a plain name are read and parsed
 * at once, so that the syntax errors of all files come in one run; names with {} are read when they are executed.
 */
#include <stdlib.h>
#include <string.h>

#include "compiler/ir/catalogue.h"
#include "compiler/pass/resolve_impl.h"

/* "dir/" + path, without "." and, where it can be told from the text, "..". */
static const char *joined(struct rsc_resolver *r, const char *dir, size_t dir_len, const char *path) {
  size_t len = strlen(path), at = 0;
  bool absolute = path[0] == '/';
  if (absolute) dir_len = 0;
  char *raw = rsc_arena_alloc(r->arena, dir_len + len + 2), *out = rsc_arena_alloc(r->arena, dir_len + len + 2);
  memcpy(raw, dir, dir_len);
  if (dir_len && raw[dir_len - 1] != '/') raw[dir_len++] = '/';
  memcpy(raw + dir_len, path, len + 1);
  for (const char *p = raw; *p;) {
    size_t n = strcspn(p, "/");
    bool slash = p[n] == '/';
    bool up = n == 2 && p[0] == '.' && p[1] == '.';
    if (up && at >= 2 && out[at - 1] == '/' && !(at >= 3 && memcmp(out + at - 3, "../", 3) == 0)) {
      for (at--; at && out[at - 1] != '/';) at--;
    } else if (n && !(n == 1 && p[0] == '.')) {
      memcpy(out + at, p, n);
      at += n;
      if (slash) out[at++] = '/';
    } else if (!n && p == raw) {
      out[at++] = '/';
    }
    p += n + slash;
  }
  out[at] = 0;
  return out;
}

static bool load(struct rsc_resolver *r, const char *path, char **text, size_t *len, const char **why) {
  *text = NULL;
  if (r->options->load(r->options->load_user, path, text, len)) return true;
  *why = *text ? rsc_arena_strdup(r->arena, *text, strlen(*text)) : "it cannot be read";
  free(*text);
  return false;
}

struct found {
  const char *path;  /* as opened, with . and .. taken out */
  const char *title; /* as reached from the top file, whose title is its last component */
  char *text;
  size_t len;
};

static const char *beside(struct rsc_resolver *r, const char *file, const char *path) {
  return joined(r, file, (size_t)(rsc_base_name(file) - file), path);
}

/* Looks beside the file being executed, then in each -I and in the library, of which the title says nothing. */
static bool find(struct rsc_resolver *r, const char *path, struct rsc_span span, struct found *out) {
  const char *why, *first_why, *here = rsc_sources_name(r->sources, span.file);
  bool absolute = path[0] == '/';
  out->path = beside(r, here, path);
  out->title = absolute ? rsc_base_name(path) : beside(r, rsc_sources_title(r->sources, span.file), path);
  if (load(r, out->path, &out->text, &out->len, &first_why)) return true;
  out->title = joined(r, "", 0, path);
  size_t named = r->options->include_dir_count, all = named + (r->options->library_dir != NULL);
  for (size_t i = 0; i < all && !absolute; i++) {
    const char *dir = i < named ? r->options->include_dirs[i] : r->options->library_dir;
    out->path = joined(r, dir, strlen(dir), path);
    if (load(r, out->path, &out->text, &out->len, &why)) return true;
  }
  rsc_fail(r, RSC_FILE_UNREADABLE, span, "cannot read '%s': %s", rsc_shown(r, path, strlen(path)), first_why);
  if (!absolute)
    rsc_fail_note(r, (struct rsc_span){.file = -1}, "looked beside '%.200s'%s", here,
                  named ? " and in each -I" : "; -I adds places to look");
  return false;
}

/* Both sides may read the same file; it is one source then. */
static int add_source(struct rsc_resolver *r, const char *name, const char *title, char *text, size_t len) {
  int index = -1;
  for (int i = 0; i < rsc_sources_count(r->sources) && index < 0; i++) {
    size_t other_len;
    const char *other = rsc_sources_text(r->sources, i, &other_len);
    if (other_len == len && strcmp(rsc_sources_name(r->sources, i), name) == 0 &&
        strcmp(rsc_sources_title(r->sources, i), title) == 0 && memcmp(other, text, len) == 0)
      index = i;
  }
  if (index < 0) index = rsc_sources_add_titled(r->sources, name, title, text, len);
  free(text);
  return index;
}

static struct rsc_file *parse_file(struct rsc_resolver *r, const char *path, int index, struct rsc_span include,
                                   bool *clean) {
  struct rsc_file *file = RSC_NEW(r->arena, struct rsc_file);
  *file = (struct rsc_file){.path = path, .index = index, .include = include};
  file->ast = rsc_parse(&r->grammar, index, clean);
  *RSC_PUSH(r->arena, &r->files) = file;
  return file;
}

static struct rsc_file *known(struct rsc_resolver *r, const char *path) {
  for (size_t i = 0; i < r->files.len; i++) {
    if (strcmp(r->files.at[i]->path, path) == 0) return r->files.at[i];
  }
  return NULL;
}

static struct rsc_file *open_include(struct rsc_resolver *r, const char *path, struct rsc_span span, bool *clean) {
  struct found found;
  if (!find(r, path, span, &found)) return NULL;
  struct rsc_file *file = known(r, found.path);
  if (file) {
    free(found.text);
    return file;
  }
  return parse_file(r, found.path, add_source(r, found.path, found.title, found.text, found.len), span, clean);
}

/* Opens what a file includes by plain names, and what those include. */
static bool open_includes(struct rsc_resolver *r, const struct rsc_file *file, bool *clean) {
  for (size_t i = 0; i < file->ast->kid_count; i++) {
    const struct rsc_ast *s = file->ast->kids[i], *name;
    if (s->kind != RSC_AST_INCLUDE) continue;
    name = s->kids[0];
    if (name->kid_count != 1 || name->kids[0]->kind != RSC_AST_TEXT) continue;
    size_t before = r->files.len;
    r->statement = s->id;
    struct rsc_file *next = open_include(r, name->kids[0]->text, name->span, clean);
    if (next && r->files.len > before) open_includes(r, next, clean);
  }
  return *clean;
}

bool rsc_load_top(struct rsc_resolver *r, const char *path, bool *trouble) {
  char *text;
  size_t len;
  const char *why;
  bool clean = true;
  if (!load(r, path, &text, &len, &why)) {
    *trouble = true;
    rsc_error(r->diag, RSC_FILE_UNREADABLE, (struct rsc_span){.file = -1}, "cannot read '%s': %s", path, why);
    return false;
  }
  int index = add_source(r, path, rsc_base_name(path), text, len);
  r->file = parse_file(r, joined(r, "", 0, path), index, (struct rsc_span){.file = -1}, &clean);
  return open_includes(r, r->file, &clean);
}

void rsc_run_include(struct rsc_resolver *r, const struct rsc_ast *s) {
  struct rsc_item name;
  struct rsc_span span = s->kids[0]->span;
  bool clean = true;
  if (!rsc_eval_string(r, s->kids[0], "the name of a file", &name)) return;
  if (!name.len) {
    rsc_fail(r, RSC_NAME_EMPTY, span, "the name of a file is not empty");
    return;
  }
  struct rsc_file *outer = r->file,
                  *file = open_include(r, rsc_arena_strdup(r->arena, name.u.str, name.len), span, &clean);
  r->file_failed |= !file || !clean;
  if (!file || !clean) return;
  if (file->open || file->done) {
    rsc_fail(r, file->open ? RSC_INCLUDE_CYCLE : RSC_INCLUDE_TWICE, span, "'%s' %s", file->path,
             file->open ? "includes itself, by way of this include"
                        : "is already included; its names are visible here");
    if (file->include.file >= 0) rsc_fail_note(r, file->include, "it is included here");
    return;
  }
  file->include = span;
  file->open = true;
  rsc_check_places(r, file->ast, 0);
  r->file = file;
  rsc_run(r, file->ast);
  r->file = outer;
  file->open = false;
  file->done = true;
}

static struct rsc_item constant_item(struct rsc_resolver *r, const struct rsc_constant *c) {
  if (c->kind == RSC_CONSTANT_INT) return rsc_int(c->number);
  size_t len = c->kind == RSC_CONSTANT_STRING ? strlen(c->string) : 0;
  if (c->kind == RSC_CONSTANT_STRING) return rsc_str(rsc_arena_strdup(r->arena, c->string, len), len);
  struct rsc_item *items = RSC_ARRAY(r->arena, struct rsc_item, c->item_count ? c->item_count : 1);
  for (int64_t i = 0; i < c->item_count; i++) items[i] = constant_item(r, &c->items[i]);
  return (struct rsc_item){.kind = RSC_TABLE, .len = (size_t)c->item_count, .u.table = items};
}

static void declare_all(struct rsc_resolver *r, const struct rsc_catalogue *catalogue) {
  RSC_RESERVE(r->own, &r->tensors, r->tensors.len + (size_t)catalogue->tensor_count);
  rsc_intern_reserve(r->tensor_names, (size_t)catalogue->tensor_count);
  for (int64_t i = 0; i < catalogue->tensor_count; i++) {
    if (!rsc_declare(r, &catalogue->tensors[i])) break;
  }
  for (int64_t i = 0; i < catalogue->constant_count; i++) {
    const struct rsc_constant *c = &catalogue->constants[i];
    const struct rsc_symbol *name = rsc_intern(r->grammar.names, c->name, strlen(c->name));
    if (!rsc_may_define(r, name, c->span)) continue;
    rsc_bind(r, name, (struct rsc_binding){.kind = RSC_CONST, .item = constant_item(r, c), .span = c->span});
  }
}

static const struct rsc_constant *copy_constants(struct rsc_arena *arena, const struct rsc_constant *from,
                                                 int64_t count) {
  struct rsc_constant *to = RSC_ARRAY(arena, struct rsc_constant, count);
  for (int64_t i = 0; i < count; i++) {
    to[i] = from[i];
    if (from[i].name) to[i].name = rsc_arena_strdup(arena, from[i].name, strlen(from[i].name));
    if (from[i].string) to[i].string = rsc_arena_strdup(arena, from[i].string, strlen(from[i].string));
    to[i].items = copy_constants(arena, from[i].items, from[i].item_count);
  }
  return to;
}

/* Tensors of one loop have mostly the same dimensions, in one place. */
static const struct rsc_catalogue *copy_catalogue(struct rsc_arena *arena, const struct rsc_catalogue *from) {
  struct rsc_catalogue *to = RSC_NEW(arena, struct rsc_catalogue);
  struct rsc_tensor *tensors = RSC_ARRAY(arena, struct rsc_tensor, from->tensor_count);
  for (int64_t i = 0; i < from->tensor_count; i++) {
    const struct rsc_tensor *t = &from->tensors[i];
    tensors[i] = *t;
    tensors[i].name = rsc_arena_strdup(arena, t->name, strlen(t->name));
    if (i && t->dims == t[-1].dims) {
      tensors[i].dims = tensors[i - 1].dims;
      continue;
    }
    int64_t *dims = RSC_ARRAY(arena, int64_t, t->ndim);
    if (t->ndim) memcpy(dims, t->dims, (size_t)t->ndim * sizeof *dims);
    tensors[i].dims = dims;
  }
  *to = (struct rsc_catalogue){.name = rsc_arena_strdup(arena, from->name, strlen(from->name)),
                               .constants = copy_constants(arena, from->constants, from->constant_count),
                               .constant_count = from->constant_count,
                               .tensors = tensors,
                               .tensor_count = from->tensor_count};
  return to;
}

/* Both sides mostly have the same catalogue: it is read once, and what they need of it kept. */
static void take_catalogue(struct rsc_resolver *r, const struct found *found) {
  int index = add_source(r, found->path, found->title, found->text, found->len);
  if (!rsc_sources_kept(r->sources, index)) {
    struct rsc_catalogue fresh = {0};
    struct rsc_arena *scratch = rsc_arena_new();
    if (rsc_catalogue_read(scratch, r->sources, r->diag, index, &fresh))
      rsc_sources_keep(r->sources, index, copy_catalogue(r->arena, &fresh));
    rsc_arena_free(scratch);
  }
  const struct rsc_catalogue *catalogue = rsc_sources_kept(r->sources, index);
  if (catalogue)
    declare_all(r, catalogue);
  else
    r->file_failed = true;
}

void rsc_run_model(struct rsc_resolver *r, const struct rsc_ast *s) {
  struct rsc_item name;
  struct rsc_span span = s->kids[0]->span;
  struct found found;
  if (!rsc_eval_string(r, s->kids[0], "the name of a file", &name)) return;
  if (!name.len)
    rsc_fail(r, RSC_NAME_EMPTY, span, "the name of a file is not empty");
  else if (find(r, rsc_arena_strdup(r->arena, name.u.str, name.len), span, &found))
    take_catalogue(r, &found);
  else
    r->file_failed = true;
}

bool rsc_load_model(struct rsc_resolver *r, const char *path) {
  struct found found = {.path = path, .title = rsc_base_name(path)};
  const char *why;
  if (!load(r, path, &found.text, &found.len, &why)) {
    rsc_error(r->diag, RSC_FILE_UNREADABLE, (struct rsc_span){.file = -1}, "cannot read '%s': %s", path, why);
    return false;
  }
  take_catalogue(r, &found);
  return true;
}
