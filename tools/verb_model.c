// SPDX-License-Identifier: Apache-2.0
//
// reshard model: the catalogue of a Hugging Face checkpoint. In: a directory of safetensors files; only their headers
// are read. Out: YAML.
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/pass/pair.h" /* the natural order of names */
#include "plans/words.h"
#include "tools/cli/cli.h"
#include "tools/model_fold.h"
#include "tools/safetensors.h"
#include "tools/verbs.h"

static const char help[] =
    "reshard model - write the catalogue of a checkpoint\n\n"
    "Usage: reshard model DIR [-o FILE]\n\n"
    "DIR holds a checkpoint as Hugging Face publishes it: *.safetensors, and model.safetensors.index.json if there "
    "are\n"
    "several. Names, dtypes and shapes are read from the files' headers, never the data; the index, if there is one, "
    "must\n"
    "agree with the files. Numbered families become one entry each: "
    "model.layers.{l}.mlp.experts.{e}.up_proj.weight.\n\n"
    "  -o FILE   where to write (default -, standard output); whole or not at all\n\n"
    "Exit status: 0 written, 1 the checkpoint contradicts itself or holds what a catalogue cannot say, 2 trouble.\n";

struct found {
  struct model_tensor tensor;
  const char *file;
};

struct reader {
  struct rsc_arena *arena;
  const char *dir;
  struct {
    RSC_VEC(struct found);
  } tensors;
};

static const char *join(struct reader *r, const char *name) {
  size_t room = strlen(r->dir) + strlen(name) + 2;
  char *path = rsc_arena_alloc(r->arena, room);
  snprintf(path, room, "%s/%s", r->dir, name);
  return path;
}

static int no(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int no(const char *format, ...) {
  va_list args;
  fputs("reshard model: ", stderr);
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fputc('\n', stderr);
  return CLI_NO;
}

// ---- the files -----------------------------------------------------------------------------------------------------

static int add_array(struct reader *r, const char *file, const struct st_array *a) {
  enum rsp_dtype dtype = rsp_dtype_from_safetensors(a->dtype, strlen(a->dtype));
  if (dtype == RSP_DTYPE_NONE) return no("tensor '%s' has dtype %s, which no layout can hold", a->name, a->dtype);
  if (a->ndim > 8) return no("tensor '%s' of '%s' has more than 8 dimensions", a->name, file);
  uint64_t *shape = RSC_ARRAY(r->arena, uint64_t, a->ndim + 1);
  if (a->ndim) memcpy(shape, a->shape, a->ndim * sizeof *shape);
  *RSC_PUSH(r->arena, &r->tensors) =
      (struct found){{rsc_arena_strdup(r->arena, a->name, strlen(a->name)), dtype, shape, a->ndim}, file};
  return CLI_YES;
}

static int read_file(struct reader *r, const char *name) {
  struct st_file file;
  char *reason = NULL;
  const char *path = join(r, name);
  if (st_open(path, &file, &reason) != ST_OK) {
    int status = cli_trouble("reshard model", "'%s': %s", path, reason ? reason : "out of memory");
    free(reason);
    return status;
  }
  int status = CLI_YES;
  for (size_t i = 0; i < file.count && status == CLI_YES; i++) status = add_array(r, name, &file.arrays[i]);
  st_close(&file);
  return status;
}

struct names {
  RSC_VEC(const char *);
};

static int by_text(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool ends_with(const char *name, const char *end) {
  size_t n = strlen(name), m = strlen(end);
  return n > m && !strcmp(name + n - m, end);
}

// All *.safetensors of the directory.
static int list_files(struct reader *r, struct names *files) {
  DIR *dir = opendir(r->dir);
  if (!dir) return cli_trouble("reshard model", "'%s': %s", r->dir, strerror(errno));
  for (struct dirent *e; (e = readdir(dir));)
    if (ends_with(e->d_name, ".safetensors"))
      *RSC_PUSH(r->arena, files) = rsc_arena_strdup(r->arena, e->d_name, strlen(e->d_name));
  closedir(dir);
  if (!files->len) return cli_trouble("reshard model", "'%s' holds no .safetensors file", r->dir);
  qsort(files->at, files->len, sizeof *files->at, by_text);
  return CLI_YES;
}

// The index's map of names to files, or NULL with *status CLI_YES if there is none.
static json_t *read_index(struct reader *r, int *status) {
  const char *path = join(r, "model.safetensors.index.json");
  json_error_t error;
  FILE *file = fopen(path, "rb");
  *status = CLI_YES;
  if (!file) {
    if (errno != ENOENT) *status = cli_trouble("reshard model", "'%s': %s", path, strerror(errno));
    return NULL;
  }
  json_t *root = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
  fclose(file);
  json_t *map = root ? json_incref(json_object_get(root, "weight_map")) : NULL;
  if (!root)
    *status = cli_trouble("reshard model", "'%s' is no index: %s (line %d)", path, error.text, error.line);
  else if (!json_is_object(map))
    *status = cli_trouble("reshard model", "'%s' has no weight_map", path);
  json_decref(root);
  if (*status == CLI_YES) return map;
  json_decref(map);
  return NULL;
}

static int indexed_files(struct reader *r, json_t *map, struct names *files) {
  const char *name;
  json_t *value;
  json_object_foreach(map, name, value) {
    const char *file = json_string_value(value);
    if (!file || strchr(file, '/')) return no("the index gives no file of this directory for '%s'", name);
    *RSC_PUSH(r->arena, files) = rsc_arena_strdup(r->arena, file, strlen(file));
  }
  if (!files->len) return no("the index is empty");
  qsort(files->at, files->len, sizeof *files->at, by_text);
  size_t kept = 0;
  for (size_t i = 0; i < files->len; i++)
    if (!kept || strcmp(files->at[kept - 1], files->at[i])) files->at[kept++] = files->at[i];
  files->len = kept;
  return CLI_YES;
}

// The index and the headers name the same tensors in the same files.
static int check_index(struct reader *r, json_t *map) {
  for (size_t i = 0; i < r->tensors.len; i++) {
    const struct found *f = &r->tensors.at[i];
    const char *file = json_string_value(json_object_get(map, f->tensor.name));
    if (!file || strcmp(file, f->file))
      return no("'%s' is in '%s', but the index says otherwise", f->tensor.name, f->file);
  }
  const char *name;
  json_t *value;
  json_object_foreach(map, name, value) {
    bool found = false;
    struct found key = {.tensor.name = name};
    size_t lo = 0, hi = r->tensors.len;
    while (lo < hi && !found) {
      size_t mid = lo + (hi - lo) / 2;
      int c = rsc_natural_compare(r->tensors.at[mid].tensor.name, key.tensor.name);
      found = c == 0;
      if (c < 0)
        lo = mid + 1;
      else
        hi = mid;
    }
    if (!found) return no("the index says that '%s' is in '%s', and it is not", name, json_string_value(value));
  }
  return CLI_YES;
}

static int by_name(const void *a, const void *b) {
  return rsc_natural_compare(((const struct found *)a)->tensor.name, ((const struct found *)b)->tensor.name);
}

static int read_checkpoint(struct reader *r) {
  int status;
  struct names files = {0};
  json_t *map = read_index(r, &status);
  if (status == CLI_YES) status = map ? indexed_files(r, map, &files) : list_files(r, &files);
  for (size_t i = 0; i < files.len && status == CLI_YES; i++) status = read_file(r, files.at[i]);
  if (status == CLI_YES && r->tensors.len) qsort(r->tensors.at, r->tensors.len, sizeof *r->tensors.at, by_name);
  for (size_t i = 1; i < r->tensors.len && status == CLI_YES; i++)
    if (!strcmp(r->tensors.at[i - 1].tensor.name, r->tensors.at[i].tensor.name))
      status = no("tensor '%s' is in two files, '%s' among them", r->tensors.at[i].tensor.name, r->tensors.at[i].file);
  if (status == CLI_YES && map) status = check_index(r, map);
  json_decref(map);
  return status;
}

// ---- the catalogue -------------------------------------------------------------------------------------------------

struct text {
  char *at;
  size_t len;
  FILE *out;
};

// A double-quoted YAML scalar; braces doubled, since names may hold expressions.
static void put_name_part(FILE *out, const char *part) {
  for (const unsigned char *s = (const unsigned char *)part; *s; s++) {
    if (*s == '"' || *s == '\\')
      fprintf(out, "\\%c", *s);
    else if (*s == '{' || *s == '}')
      fprintf(out, "%c%c", *s, *s);
    else if (*s < 0x20 || *s == 0x7f)
      fprintf(out, "\\x%02x", *s);
    else
      fputc(*s, out);
  }
}

// Loops are named after what stands before their number: layers l, experts e, the others i, j, k, ...
static void name_loops(const struct model_entry *e, char *names) {
  static const char spare[] = "ijkmnopqrstuvwxyz";
  size_t next = 0;
  for (size_t i = 0; i < e->loops; i++) {
    const char *before = e->parts[i];
    char c = ends_with(before, "layers.") || ends_with(before, "blocks.") ? 'l'
             : ends_with(before, "experts.")                              ? 'e'
                                                                          : 0;
    if (!c || memchr(names, c, i)) c = spare[next < sizeof spare - 2 ? next++ : next];
    names[i] = c;
  }
}

static void put_values(FILE *out, const struct model_values *v) {
  if (v->at[v->len - 1] - v->at[0] == (int64_t)v->len - 1) {
    fprintf(out, "%" PRId64 "..%" PRId64, v->at[0], v->at[v->len - 1] + 1);
    return;
  }
  fputc('[', out);
  for (size_t i = 0; i < v->len; i++) fprintf(out, "%s%" PRId64, i ? ", " : "", v->at[i]);
  fputc(']', out);
}

static void put_entry(FILE *out, const struct model_entry *e, enum rsp_dtype usual) {
  char *names = calloc(e->loops + 1, 1);
  if (!names) rsc_oom(e->loops);
  name_loops(e, names);
  fputs("  - {name: \"", out);
  for (size_t i = 0; i <= e->loops; i++) {
    put_name_part(out, e->parts[i]);
    if (i < e->loops) fprintf(out, "{%c}", names[i]);
  }
  fputc('"', out);
  for (size_t i = 0; i < e->loops; i++) {
    fprintf(out, "%s%c: ", i ? ", " : ", for: {", names[i]);
    put_values(out, &e->values[i]);
  }
  if (e->loops) fputc('}', out);
  fputs(", shape: [", out);
  for (size_t i = 0; i < e->like->ndim; i++) fprintf(out, "%s%" PRIu64, i ? ", " : "", e->like->shape[i]);
  fputc(']', out);
  if (e->like->dtype != usual) fprintf(out, ", dtype: %s", rsp_dtype_word(e->like->dtype));
  fputs("}\n", out);
  free(names);
}

static uint64_t bytes_of(const struct model_tensor *t) {
  uint64_t n = rsp_dtype_bytes(t->dtype);
  for (size_t i = 0; i < t->ndim; i++) n *= t->shape[i];
  return n;
}

static const char *base_name(const char *dir) {
  const char *base = dir;
  for (const char *s = dir; *s; s++)
    if (*s == '/' && s[1] && s[1] != '/') base = s + 1;
  return base;
}

static void put_catalogue(FILE *out, struct reader *r) {
  struct model_tensor *tensors = RSC_ARRAY(r->arena, struct model_tensor, r->tensors.len);
  uint64_t bytes = 0, of[256] = {0};
  enum rsp_dtype usual = RSP_BF16;
  for (size_t i = 0; i < r->tensors.len; i++) {
    tensors[i] = r->tensors.at[i].tensor;
    bytes += bytes_of(&tensors[i]);
    of[tensors[i].dtype & 255]++;
  }
  for (unsigned d = 0; d < 256; d++)
    if (of[d] > of[usual]) usual = (enum rsp_dtype)d;
  struct model_entries entries = model_fold(r->arena, tensors, r->tensors.len);
  const char *base = base_name(r->dir);
  size_t len = strcspn(base, "/");
  fprintf(out, "# %zu tensor%s, %" PRIu64 " byte%s.\nreshard-model: 1\nname: \"", r->tensors.len,
          rsp_plural(r->tensors.len), bytes, rsp_plural(bytes));
  put_name_part(out, rsc_arena_strdup(r->arena, base, len));
  fprintf(out, "\"\ndtype: %s\ntensors:\n", rsp_dtype_word(usual));
  for (size_t i = 0; i < entries.len; i++) put_entry(out, &entries.at[i], usual);
}

static int write_catalogue(struct reader *r, const char *path) {
  struct text text = {0};
  text.out = open_memstream(&text.at, &text.len);
  if (!text.out) return cli_trouble("reshard model", "out of memory");
  put_catalogue(text.out, r);
  bool good = fclose(text.out) == 0;
  char *reason = NULL;
  int status = CLI_YES;
  if (!good)
    status = cli_trouble("reshard model", "out of memory");
  else if (!cli_write_file(path, text.at, text.len, &reason))
    status = cli_trouble("reshard model", "'%s': %s", path, reason ? reason : "cannot be written");
  free(reason);
  free(text.at);
  return status;
}

int verb_model(int argc, char **argv) {
  static const struct option options[] = {
      {"help", no_argument, NULL, 'h'}, {"output", required_argument, NULL, 'o'}, {NULL, 0, NULL, 0}};
  const char *output = "-";
  for (int c; (c = getopt_long(argc, argv, "o:h", options, NULL)) != -1;) {
    if (c == 'h') return cli_help(help);
    if (c == 'o')
      output = optarg;
    else
      return cli_usage(argv[0], "wrong option");
  }
  if (argc - optind != 1) return cli_usage(argv[0], "one directory is wanted");
  struct reader r = {.arena = rsc_arena_new(), .dir = argv[optind]};
  int status = read_checkpoint(&r);
  if (status == CLI_YES && !r.tensors.len) status = no("'%s' holds no tensor", r.dir);
  if (status == CLI_YES) status = write_catalogue(&r, output);
  rsc_arena_free(r.arena);
  return cli_finish(argv[0], status);
}
