/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of resolve share. Nobody else includes this.
 */
#ifndef RSC_PASS_RESOLVE_IMPL_H
#define RSC_PASS_RESOLVE_IMPL_H

#include "compiler/base/keys.h"
#include "compiler/base/names.h"
#include "compiler/base/vec.h"
#include "compiler/pass/resolve.h"
#include "grammar/parse.h"

/* What an expression evaluates to. Strings and tables live in the scratch memory of the scope that made them. */
enum rsc_kind { RSC_INT, RSC_STR, RSC_TABLE, RSC_DEC, RSC_VALUE, RSC_BROKEN };

struct rsc_item {
  enum rsc_kind kind;     /* BROKEN: defined by a statement that has already failed */
  size_t len;             /* of str, of table */
  struct rsc_span origin; /* STR: the string it was made by; file < 0: none */
  union {
    int64_t number;
    const char *str; /* not NUL-terminated */
    const struct rsc_item *table;
    double decimal;
    const struct rsc_value *value;
  } u;
};

/* A value and what the nodes above it have to know. */
struct rsc_knot {
  struct rsc_value v; /* first: a value handed out is the knot */
  uint64_t axes;      /* axes that cut on some way from a tensor below */
  int64_t leaves;     /* mentions of tensors and gaps, unrolled */
  int32_t depth;
  bool tensors; /* below is at least one */
};

static inline const struct rsc_knot *rsc_knot_of(const struct rsc_value *value) {
  return (const struct rsc_knot *)value;
}

enum rsc_binding_kind { RSC_UNBOUND, RSC_CONST, RSC_LOCAL, RSC_FUNCTION, RSC_MESH_NAME, RSC_BUILTIN };

struct rsc_binding {
  enum rsc_binding_kind kind;
  struct rsc_item item;      /* CONST; LOCAL: a parameter or loop variable while its body is only looked at */
  const struct rsc_ast *def; /* FUNCTION */
  int32_t index;             /* MESH_NAME: of the mesh; BUILTIN: which */
  struct rsc_span span;
};

struct rsc_undo {
  uint32_t symbol;
  struct rsc_binding old;
};

/* Scratch memory: a stack of chunks; what a scope made goes when the scope ends. */
struct rsc_scratch_chunk;
struct rsc_scratch_mark {
  struct rsc_scratch_chunk *chunk;
  size_t used;
};

/* The ranks that a buffer is on: a mesh with some axes pinned. Equal ones are one. */
struct rsc_site {
  int32_t mesh;
  const int64_t *pins;
  uint64_t pinned;      /* mask of the pinned axes */
  const int64_t *ranks; /* ascending; made when first needed */
  int64_t rank_count;
};

struct rsc_call {
  const struct rsc_call *outer;
  const struct rsc_ast *at; /* the CALL */
};

struct rsc_context {
  bool due;
  const struct rsc_ast *calls[3];
  int call_count;
  const char *loops;
};

struct rsc_loop_value {
  const struct rsc_symbol *name;
  struct rsc_item item;
};

enum { RSC_SPOILT = -1 };

/* A mention of a tensor that was not declared yet. */
struct rsc_pending {
  struct rsc_knot *knot;
  const struct rsc_symbol *name;
  struct rsc_span span, call;
  uint32_t statement;
  const char *loops;
};

struct rsc_file {
  const char *path; /* as opened, with . and .. taken out */
  int index;        /* in the sources */
  const struct rsc_ast *ast;
  bool open, done;         /* being executed; executed */
  struct rsc_span include; /* the statement that executes it; file < 0 for the top file */
};

/* Buffers of one name are kept by the mesh and the axes that their `on` pins: within such a group two buffers meet only
 * if their pins are equal, which a key finds. */
struct rsc_buffer_place { /* one per (name, site) */
  int32_t site, next;     /* next of the group: index + 1, 0 ends */
  struct rsc_span span;
};

struct rsc_buffer_group {
  int32_t mesh, first, next; /* first place and next group of the name: index + 1 */
  uint64_t pinned;
};

struct rsc_dims_memo {
  const struct rsc_dim *dims;
  int32_t count;
};

struct rsc_resolver {
  struct rsc_arena *arena;  /* of what the layout keeps */
  struct rsc_arena *values; /* of the values of buffers */
  struct rsc_arena *own;    /* of what ends with this pass */
  struct rsc_sources *sources;
  struct rsc_diag *diag;
  enum rsc_side side;
  const struct rsc_options *options;
  struct rsc_limits limits;
  struct rsc_grammar grammar;

  /* scopes */
  struct {
    RSC_VEC(struct rsc_binding);
  } bindings; /* by symbol */
  struct {
    RSC_VEC(struct rsc_undo);
  } undo;
  struct rsc_scratch_chunk *scratch;
  int64_t scratch_bytes;
  const struct rsc_call *call;
  struct {
    RSC_VEC(struct rsc_loop_value);
  } loops;
  size_t statement_loops; /* how many of them belong to for statements */
  const char *loop_text;  /* of the present turn, or NULL if not made yet */
  uint32_t statement;     /* the id of the statement being executed */
  struct {
    RSC_VEC(bool);
  } failed; /* by statement */
  struct rsc_context context;
  bool reported;         /* the last rsc_fail said something, so notes belong to it */
  struct rsc_keys *said; /* messages so far, so that a def used twice is not reported twice */
  bool file_failed;      /* what a model or include would have defined is missing everywhere: that is not news */
  bool stop;             /* past a limit: unwind */
  uint64_t steps;
  size_t errors_before;
  int depth;

  struct rsc_file *file; /* being executed */

  /* what is being made */
  struct {
    RSC_VEC(struct rsc_file *);
  } files;
  struct {
    RSC_VEC(struct rsc_mesh);
  } meshes;
  struct {
    RSC_VEC(struct rsc_tensor);
  } tensors;
  struct {
    RSC_VEC(struct rsc_buffer);
  } buffers;
  struct {
    RSC_VEC(struct rsc_skip);
  } skips;
  struct {
    RSC_VEC(const struct rsc_symbol *);
  } params;
  struct {
    RSC_VEC(bool);
  } defines_used; /* by -D */
  struct rsc_interner *tensor_names, *buffer_names;
  struct {
    RSC_VEC(int32_t);
  } declared; /* by tensor name: index + 1, 0 if not declared so far, RSC_SPOILT if that failed */
  struct {
    RSC_VEC(struct rsc_pending);
  } pending;
  struct {
    RSC_VEC(struct rsc_site);
  } sites;
  struct rsc_keys *site_keys, *overlap_keys, *glob_keys, *buffer_keys;
  struct {
    RSC_VEC(int8_t);
  } overlaps; /* by overlap key */
  struct {
    RSC_VEC(struct rsc_item);
  } glob_items; /* by glob key */
  struct {
    RSC_VEC(struct rsc_buffer_place);
  } places; /* by buffer key */
  struct {
    RSC_VEC(struct rsc_buffer_group);
  } groups;
  struct {
    RSC_VEC(int32_t);
  } group_of; /* by buffer name: index + 1 */
  struct {
    RSC_VEC(struct rsc_dims_memo);
  } memo; /* by node */
  int64_t leaves;
  int32_t site;  /* of the `on` around, or -1 */
  bool doubtful; /* the `on` around failed: its buffers are checked, not kept */
  int64_t world;
  struct rsc_span world_span;
};

/* Makes a vector at least n long; what is new is zero. */
#define RSC_ENSURE(arena, v, n)                                                                                        \
  (RSC_RESERVE((arena), (v), (n)), (void)((v)->len < (size_t)(n) ? ((v)->len = (size_t)(n)) : 0))

/* scope */
void *rsc_scratch(struct rsc_resolver *r, size_t bytes); /* not cleared; NULL past the limit, which is reported */
struct rsc_scratch_mark rsc_scratch_mark(const struct rsc_resolver *r);
void rsc_scratch_release(struct rsc_resolver *r, struct rsc_scratch_mark mark);
void rsc_scratch_free(struct rsc_resolver *r);
struct rsc_binding *rsc_binding(struct rsc_resolver *r, const struct rsc_symbol *name);
/* Binds until the scope ends. */
void rsc_bind(struct rsc_resolver *r, const struct rsc_symbol *name, struct rsc_binding binding);
void rsc_unbind(struct rsc_resolver *r, size_t mark);
/* Refuses a name that is visible. */
bool rsc_may_define(struct rsc_resolver *r, const struct rsc_symbol *name, struct rsc_span span);
const char *rsc_guess_name(struct rsc_resolver *r, const struct rsc_symbol *name, bool functions);
void rsc_bind_builtins(struct rsc_resolver *r);

/* errors */
/* Reports once per statement, with the calls and loop values around. Always returns false. */
bool rsc_fail(struct rsc_resolver *r, enum rsc_code code, struct rsc_span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void rsc_fail_note(struct rsc_resolver *r, struct rsc_span span, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Tells what is still to be told of the last message. */
void rsc_end_message(struct rsc_resolver *r);
const char *rsc_loop_text(struct rsc_resolver *r);
const char *rsc_item_text(struct rsc_resolver *r, const struct rsc_item *item);
const char *rsc_kind_text(enum rsc_kind kind); /* "an integer" */
const char *rsc_shown(struct rsc_resolver *r, const char *name, size_t len);
bool rsc_failed_before(const struct rsc_resolver *r, uint32_t statement);
bool rsc_step(struct rsc_resolver *r, struct rsc_span span);

/* expressions */
bool rsc_eval(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out);
/* Reports a NAME that stands for nothing. */
bool rsc_no_name(struct rsc_resolver *r, const struct rsc_ast *e);
bool rsc_eval_int(struct rsc_resolver *r, const struct rsc_ast *e, const char *what, int64_t *out);
bool rsc_eval_string(struct rsc_resolver *r, const struct rsc_ast *e, const char *what, struct rsc_item *out);
bool rsc_eval_call(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out);
bool rsc_builtin(struct rsc_resolver *r, int which, const struct rsc_ast *e, struct rsc_item *out);
bool rsc_table_ints(struct rsc_resolver *r, const struct rsc_item *table, struct rsc_span span, const char *what,
                    int64_t **out);
struct rsc_item rsc_int(int64_t number);

/* A range or table to go through. */
struct rsc_turns {
  int64_t lo, count;
  const struct rsc_item *items; /* NULL: lo, lo + 1, ... */
};
bool rsc_eval_turns(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_turns *out);
struct rsc_item rsc_turn(const struct rsc_turns *turns, int64_t i);
/* Binds a loop variable for the turns of an expression. Ends with rsc_leave_turns(r, mark). */
bool rsc_enter_turns(struct rsc_resolver *r, const struct rsc_ast *name, size_t *mark);
void rsc_set_turn(struct rsc_resolver *r, const struct rsc_ast *name, struct rsc_item item);
void rsc_leave_turns(struct rsc_resolver *r, size_t mark);

/* names in the body of a def, looked at once when it is defined */
bool rsc_check_names(struct rsc_resolver *r, const struct rsc_ast *e);
/* `on` and `buffer` where they may not be; a whole file at once */
void rsc_check_places(struct rsc_resolver *r, const struct rsc_ast *ast, int on_depth);

/* values */
const struct rsc_value *rsc_to_value(struct rsc_resolver *r, const struct rsc_ast *e, const struct rsc_item *item);
const struct rsc_value *rsc_eval_value(struct rsc_resolver *r, const struct rsc_ast *e);
const struct rsc_value *rsc_value_tensor(struct rsc_resolver *r, struct rsc_span span, const char *name, size_t len);
/* A string of bytes that no string of the layout is the origin of. */
struct rsc_item rsc_str(const char *bytes, size_t len);
bool rsc_value_view(struct rsc_resolver *r, const struct rsc_ast *e, const struct rsc_value *child,
                    struct rsc_item *out);
bool rsc_value_call_for(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out);
bool rsc_value_builtin(struct rsc_resolver *r, int which, const struct rsc_ast *e, struct rsc_item *out);
bool rsc_value_replica(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out);
/* NULL (reported) past a limit. */
struct rsc_knot *rsc_knot_new(struct rsc_resolver *r, enum rsc_value_kind kind, struct rsc_span span,
                              const struct rsc_value *const *children, int64_t count);
/* The cuts of a dimension or stack, in scratch memory. `axes` are those that have cut a tensor so far in the same view;
 * children are what is cut, for the rule that an axis cuts once. */
struct rsc_cutting {
  uint64_t axes;
  const struct rsc_dim *dims; /* made so far */
  int32_t dim_count;
  const struct rsc_value *const *children;
  int64_t child_count;
};
bool rsc_eval_cuts(struct rsc_resolver *r, const struct rsc_ast *list, struct rsc_cutting *at, struct rsc_cut **out,
                   int32_t *count);
const struct rsc_cut *rsc_keep_cuts(struct rsc_resolver *r, const struct rsc_cut *cuts, int32_t count);
bool rsc_same_cuts(const struct rsc_cut *a, const struct rsc_cut *b, int32_t count);

/* statements */
void rsc_run(struct rsc_resolver *r, const struct rsc_ast *statements);
void rsc_run_block(struct rsc_resolver *r, const struct rsc_ast *block); /* in a scope of its own */
void rsc_run_mesh(struct rsc_resolver *r, const struct rsc_ast *s);
void rsc_run_on(struct rsc_resolver *r, const struct rsc_ast *s);
void rsc_run_tensor(struct rsc_resolver *r, const struct rsc_ast *s);
/* Refuses a tensor that is declared already. The name must stay as long as the layout. */
bool rsc_declare(struct rsc_resolver *r, const struct rsc_tensor *tensor);
void rsc_run_buffer(struct rsc_resolver *r, const struct rsc_ast *s);
void rsc_run_skip(struct rsc_resolver *r, const struct rsc_ast *s);
void rsc_run_param(struct rsc_resolver *r, const struct rsc_ast *s);
void rsc_run_include(struct rsc_resolver *r, const struct rsc_ast *s);
void rsc_run_model(struct rsc_resolver *r, const struct rsc_ast *s);
/* Tensors that were mentioned before they were declared, or never were. */
void rsc_check_pending(struct rsc_resolver *r);
/* -D that no param took. */
void rsc_check_defines(struct rsc_resolver *r);

/* sites */
/* The index of the axis, or -1 (reported). */
int32_t rsc_axis_of(struct rsc_resolver *r, const struct rsc_mesh *mesh, const struct rsc_ast *name);
int32_t rsc_site_of(struct rsc_resolver *r, int32_t mesh, const int64_t *pins);
/* A rank that is in both, or -1. */
int64_t rsc_common_rank(struct rsc_resolver *r, int32_t a, int32_t b);
/* Whether any rank is in both meshes. */
bool rsc_meshes_meet(struct rsc_resolver *r, int32_t a, int32_t b);
bool rsc_sites_meet(struct rsc_resolver *r, int32_t a, int32_t b);

/* files */
/* The top file, with all that it includes by a plain name; false (reported) if one of them does not parse. */
bool rsc_load_top(struct rsc_resolver *r, const char *path, bool *trouble);
/* --model. False (reported) if it cannot be read. */
bool rsc_load_model(struct rsc_resolver *r, const char *path);

/* Builtin functions: constants first. */
enum {
  RSC_FN_MIN,
  RSC_FN_MAX,
  RSC_FN_LEN,
  RSC_FN_SUM,
  RSC_FN_CEILDIV,
  RSC_FN_CHAR,
  RSC_FN_TENSORS,
  RSC_FN_BUCKET,
  RSC_FN_START,
  RSC_FN_CAT, /* the first of the values */
  RSC_FN_STACK,
  RSC_FN_SLICE,
  RSC_FN_PERMUTE,
  RSC_FN_GAP,
  RSC_FN_CAST,
  RSC_FN_NEG_EXP,
  RSC_FN_ADD
};

#endif
