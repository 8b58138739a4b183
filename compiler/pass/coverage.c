/* SPDX-License-Identifier: Apache-2.0
 *
 * In: pairs. Out: errors only. Every wanted element has a supplier, every supplied element is wanted, none is supplied
 * by two places unless one says replica. Worked out once for all tensors that are placed alike.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/base/keys.h"
#include "compiler/base/names.h"
#include "compiler/pass/pair.h"
#include "plans/words.h"

struct lack {
  int64_t elems, first; /* how many elements, and the first of them */
  int32_t mention, other;
};

struct coverage {
  struct lack missing, unwanted, twice;
  bool spent; /* too many pieces: the rest is not known */
};

struct coverages {
  RSC_VEC(const struct coverage *);
};

struct cover {
  struct rsc_arena *scratch;
  struct rsc_diag *diag;
  const struct rsc_pairs *pairs;
  int64_t pieces, *intersections;
  struct rsc_budget budget; /* of the tensor at hand */
};

static const struct rsc_family *family_of(const struct cover *c, enum rsc_side side, struct rsc_mention m) {
  return &c->pairs->placement[side]->families[rsc_slot_of(c->pairs, m)->family];
}

static const struct rsc_shape *shape_of(const struct cover *c, enum rsc_side side, int32_t shape) {
  return &c->pairs->placement[side]->shapes[shape];
}

/* What is left of a shape; `rest` is kept for its memory, since there may be thousands of shapes to subtract. */
struct remains {
  struct rsc_nests parts, rest;
};

/* parts := parts minus shape; what was taken goes to `taken` if that is not NULL. */
static void subtract(struct cover *c, struct rsc_arena *temp, struct remains *r, const struct rsc_shape *shape,
                     struct rsc_nests *taken) {
  for (size_t q = 0; q < shape->nests.len && !rsc_budget_spent(&c->budget); q++) {
    const struct rsc_nest *nest = &shape->nests.at[q];
    c->budget.left -= (int64_t)r->parts.len / RSC_LOOKS_PER_PIECE;
    int64_t lo = nest->base[RSC_F_TENSOR], hi = lo + rsc_nest_extent(nest, RSC_F_TENSOR);
    r->rest.len = 0;
    for (size_t i = 0; i < r->parts.len && !rsc_budget_spent(&c->budget); i++) {
      const struct rsc_nest *part = &r->parts.at[i];
      int64_t part_lo = part->base[RSC_F_TENSOR], part_hi = part_lo + rsc_nest_extent(part, RSC_F_TENSOR);
      if (part_hi < lo || part_lo > hi) {
        *RSC_PUSH(temp, &r->rest) = *part;
        continue;
      }
      ++*c->intersections;
      rsc_nest_split(temp, part, nest, 3, &c->budget, taken, &r->rest);
    }
    struct rsc_nests left = r->rest;
    r->rest = r->parts;
    r->parts = left;
  }
}

static void widen(struct rsc_arena *temp, const struct rsc_shape *shape, struct rsc_nests *out) {
  for (size_t i = 0; i < shape->nests.len; i++) *RSC_PUSH(temp, out) = rsc_nest_copy(temp, &shape->nests.at[i], 4);
}

static void add_lack(struct lack *lack, const struct rsc_nests *parts, int32_t mention, int32_t other) {
  for (size_t i = 0; i < parts->len; i++) {
    int64_t first = parts->at[i].base[RSC_F_TENSOR];
    if (lack->elems == 0 || first < lack->first) {
      lack->first = first;
      lack->mention = mention;
      lack->other = other;
    }
    lack->elems += rsc_nest_elems(&parts->at[i]);
  }
}

/* Elements of the mentions of one side that no mention of the other side holds. */
static void find_lack(struct cover *c, const struct rsc_paired_tensor *t, enum rsc_side side, struct lack *lack) {
  enum rsc_side other = side == RSC_TRAIN ? RSC_INFER : RSC_TRAIN;
  for (int32_t m = 0; m < t->by_side[side].count; m++) {
    const struct rsc_family *family = family_of(c, side, t->by_side[side].at[m]);
    for (int32_t o = 0; o < family->count; o++) {
      bool seen = false;
      for (int32_t before = 0; before < o && family->shared; before++)
        seen |= family->shapes[before] == family->shapes[o];
      if (seen) continue;
      const struct rsc_shape *shape = shape_of(c, side, family->shapes[o]);
      struct rsc_arena *temp = rsc_arena_new();
      struct remains left = {0};
      widen(temp, shape, &left.parts);
      for (int32_t k = 0; k < t->by_side[other].count && left.parts.len; k++) {
        const struct rsc_family *holder = family_of(c, other, t->by_side[other].at[k]);
        for (int32_t h = 0; h < holder->count && left.parts.len; h++) {
          const struct rsc_shape *held = shape_of(c, other, holder->shapes[h]);
          if (held->t_max >= shape->t_min && held->t_min <= shape->t_max) subtract(c, temp, &left, held, NULL);
        }
      }
      add_lack(lack, &left.parts, m, -1);
      rsc_arena_free(temp);
    }
  }
}

/* Elements that two training places without `replica` hold. Settings of one place are copies or disjoint. */
static void find_twice(struct cover *c, const struct rsc_paired_tensor *t, struct lack *lack) {
  const struct rsc_mentions *train = &t->by_side[RSC_TRAIN];
  for (int32_t m = 0; m < train->count; m++) {
    if (rsc_slot_of(c->pairs, train->at[m])->replica) continue;
    const struct rsc_family *a = family_of(c, RSC_TRAIN, train->at[m]);
    for (int32_t k = m + 1; k < train->count; k++) {
      if (rsc_slot_of(c->pairs, train->at[k])->replica) continue;
      const struct rsc_family *b = family_of(c, RSC_TRAIN, train->at[k]);
      for (int32_t i = 0; i < a->count; i++)
        for (int32_t j = 0; j < b->count; j++) {
          const struct rsc_shape *x = shape_of(c, RSC_TRAIN, a->shapes[i]), *y = shape_of(c, RSC_TRAIN, b->shapes[j]);
          if (x->t_max < y->t_min || x->t_min > y->t_max) continue;
          struct rsc_arena *temp = rsc_arena_new();
          struct remains left = {0};
          struct rsc_nests taken = {0};
          widen(temp, x, &left.parts);
          subtract(c, temp, &left, y, &taken);
          add_lack(lack, &taken, m, k);
          rsc_arena_free(temp);
        }
    }
  }
}

/* ---- messages ---- */

/* "w[3, 0]" for a flat element, "w" for a tensor of no dimensions. */
static const char *element_text(struct cover *c, const struct rsc_tensor *t, int64_t flat) {
  char text[8 * 24 + 4];
  int64_t index[8] = {0};
  for (int32_t i = t->ndim; i-- > 0;) {
    index[i] = flat % t->dims[i];
    flat /= t->dims[i];
  }
  int at = 0;
  text[0] = 0;
  for (int32_t i = 0; i < t->ndim; i++)
    at += snprintf(text + at, sizeof text - (size_t)at, "%s%" PRId64, i ? ", " : "[", index[i]);
  if (t->ndim) at += snprintf(text + at, sizeof text - (size_t)at, "]");
  return rsc_arena_strdup(c->scratch, text, (size_t)at);
}

static struct rsc_span span_of(const struct cover *c, struct rsc_mention m) {
  return rsc_buffer_of(c->pairs, m.gid)->span;
}

static const char *buffer_name(const struct cover *c, struct rsc_mention m) {
  return rsc_buffer_of(c->pairs, m.gid)->name;
}

/* Says which tensor, of the other side alone, may be meant: one that looks the same, or the nearest name. */
static void note_lookalike(struct cover *c, const struct rsc_paired_tensor *t, enum rsc_side other) {
  struct rsc_guess guess;
  size_t len = strlen(t->tensor->name);
  if (rsc_diag_errors(c->diag) > 20) return; /* past the cap nobody reads it */
  rsc_guess_begin(&guess, t->tensor->name, len);
  const struct rsc_tensor *nearest = NULL;
  for (int32_t i = 0; i < c->pairs->tensor_count; i++) {
    const struct rsc_paired_tensor *u = &c->pairs->tensors[i];
    if (u == t || !u->by_side[other].count || u->by_side[1 - other].count) continue;
    const char *before = guess.best;
    rsc_guess_offer(&guess, u->tensor->name, strlen(u->tensor->name));
    if (guess.best != before) nearest = u->tensor;
  }
  if (!nearest) return;
  size_t n = strlen(nearest->name);
  bool alike = rsc_names_look_alike(t->tensor->name, len, nearest->name, n);
  rsc_note(c->diag, nearest->span, "the other side has '%s'%s%s%s", rsc_name_shown(c->scratch, nearest->name, n, alike),
           alike ? ", which differs only invisibly from '" : "",
           alike ? rsc_name_shown(c->scratch, t->tensor->name, len, true) : "", alike ? "'" : "");
}

/* What is said of elements that one side has and the other has not, by the side that has them. */
static const struct {
  enum rsc_code code;
  const char *has, *who_has_not, *other_has, *to_excuse, *where;
} lack_words[] = {
    [RSC_TRAIN] = {RSC_NOT_WANTED, "supplies", "no inference buffer wants", "wanted", "drop it", "inference"},
    [RSC_INFER] = {RSC_NOT_SUPPLIED, "wants", "no training buffer supplies", "supplied",
                   "leave these bytes as they are", "training"},
};

static void note_loops(struct cover *c, struct rsc_mention m) {
  const char *loops = rsc_buffer_of(c->pairs, m.gid)->loop_values;
  if (loops && *loops) rsc_note(c->diag, (struct rsc_span){.file = -1}, "in the loop at %s", loops);
}

static void report_lack(struct cover *c, const struct rsc_paired_tensor *t, enum rsc_side side,
                        const struct lack *lack) {
  enum rsc_side other = side == RSC_TRAIN ? RSC_INFER : RSC_TRAIN;
  struct rsc_mention m = t->by_side[side].at[lack->mention];
  const char *has = lack_words[side].has, *who_has_not = lack_words[side].who_has_not;
  if (t->by_side[other].count == 0) {
    rsc_error(c->diag, lack_words[side].code, span_of(c, m), "buffer '%s' %s tensor '%s', which %s", buffer_name(c, m),
              has, t->tensor->name, who_has_not);
    note_lookalike(c, t, other);
  } else {
    rsc_error(c->diag, lack_words[side].code, span_of(c, m),
              "buffer '%s' %s %" PRId64 " element%s of tensor '%s' that %s; the first is %s%s", buffer_name(c, m), has,
              lack->elems, rsp_plural((uint64_t)lack->elems), t->tensor->name, who_has_not, t->tensor->name,
              element_text(c, t->tensor, lack->first));
    rsc_note(c->diag, span_of(c, t->by_side[other].at[0]), "what is %s of it stands here", lack_words[side].other_has);
  }
  note_loops(c, m);
  rsc_note(c->diag, (struct rsc_span){.file = -1}, "to %s, write  skip \"%s\";  in the %s layout",
           lack_words[side].to_excuse, t->tensor->name, lack_words[side].where);
}

static void report_twice(struct cover *c, const struct rsc_paired_tensor *t, const struct lack *lack) {
  struct rsc_mention a = t->by_side[RSC_TRAIN].at[lack->mention], b = t->by_side[RSC_TRAIN].at[lack->other];
  rsc_error(c->diag, RSC_SUPPLIED_TWICE, span_of(c, b),
            "tensor '%s' is supplied twice: buffer '%s' holds %" PRId64
            " element%s that buffer '%s' supplies too; the first is %s%s",
            t->tensor->name, buffer_name(c, b), lack->elems, rsp_plural((uint64_t)lack->elems), buffer_name(c, a),
            t->tensor->name, element_text(c, t->tensor, lack->first));
  rsc_note(c->diag, span_of(c, a),
           "the other place is here; if both hold the same values, write  replica  before one of them");
  note_loops(c, b);
}

/* A statement in a loop is reported once: with the first tensor that it fails for, and the names of some others. */
struct failing {
  enum { MISSING, UNWANTED, TWICE, SPENT } kind;
  const struct rsc_paired_tensor *tensor; /* the first */
  const struct lack *lack;
  int64_t more;
  const char *names[4];
};

struct failures {
  struct rsc_keys *keys;
  RSC_VEC(struct failing);
};

static void add_failing(struct cover *c, struct failures *list, struct failing f) {
  enum rsc_side side = f.kind == MISSING ? RSC_INFER : RSC_TRAIN;
  int32_t mention = f.kind == TWICE   ? f.lack->other
                    : f.kind == SPENT ? rsc_most_pieces(c->pairs, f.tensor, side)
                                      : f.lack->mention;
  struct rsc_span span = span_of(c, f.tensor->by_side[side].at[mention]);
  int64_t key[4] = {f.kind, span.file, span.line, span.col};
  bool fresh;
  int32_t id = rsc_keys_id(list->keys, key, sizeof key, &fresh);
  if (fresh) {
    *RSC_PUSH(c->scratch, list) = f;
    return;
  }
  struct failing *first = &list->at[id];
  if (first->more < (int64_t)(sizeof f.names / sizeof *f.names)) first->names[first->more] = f.tensor->tensor->name;
  first->more++;
}

static void note_more(struct cover *c, const struct failing *f) {
  int64_t named = (int64_t)(sizeof f->names / sizeof *f->names);
  char text[512];
  int at = 0;
  if (named > f->more) named = f->more;
  for (int64_t i = 0; i < named; i++)
    at += snprintf(text + at, sizeof text - (size_t)at, "%s'%.100s'", i ? ", " : "", f->names[i]);
  if (f->more)
    rsc_note(c->diag, (struct rsc_span){.file = -1}, "the same statement fails so for %" PRId64 " more: %s%s", f->more,
             text, named < f->more ? ", ..." : "");
}

static void report(struct cover *c, const struct failing *f) {
  if (f->kind == SPENT)
    rsc_overlap_spent(c->diag, c->pairs, f->tensor);
  else if (f->kind == TWICE)
    report_twice(c, f->tensor, f->lack);
  else
    report_lack(c, f->tensor, f->kind == MISSING ? RSC_INFER : RSC_TRAIN, f->lack);
  note_more(c, f);
}

static const struct coverage *find_coverage(struct cover *c, const struct rsc_paired_tensor *t) {
  struct coverage *result = RSC_NEW(c->scratch, struct coverage), spent = {.spent = true};
  c->budget = rsc_overlap_budget(c->pairs, t, c->pieces);
  find_lack(c, t, RSC_INFER, &result->missing);
  find_lack(c, t, RSC_TRAIN, &result->unwanted);
  find_twice(c, t, &result->twice);
  if (rsc_budget_spent(&c->budget)) *result = spent;
  return result;
}

void rsc_check_coverage(struct rsc_diag *diag, const struct rsc_pairs *pairs, int64_t pieces, int64_t *intersections) {
  struct cover c = {rsc_arena_new(), diag, pairs, pieces, intersections, {0}};
  struct rsc_keys *keys = rsc_keys_new(c.scratch);
  struct coverages known = {0};
  struct failures failures = {.keys = rsc_keys_new(c.scratch)};
  struct rsc_key key = {0};
  for (int32_t i = 0; i < pairs->tensor_count; i++) {
    const struct rsc_paired_tensor *t = &pairs->tensors[i];
    key.len = 0;
    for (int side = 0; side < 2; side++) {
      rsc_key_int(c.scratch, &key, t->by_side[side].count);
      for (int32_t m = 0; m < t->by_side[side].count; m++) {
        const struct rsc_slot *slot = rsc_slot_of(pairs, t->by_side[side].at[m]);
        rsc_key_int(c.scratch, &key, slot->family * 2 + slot->replica);
      }
    }
    bool fresh;
    int32_t id = rsc_keys_id(keys, key.at, key.len, &fresh);
    if (fresh) *RSC_PUSH(c.scratch, &known) = find_coverage(&c, t);
    const struct coverage *found = known.at[id];
    if (found->spent) add_failing(&c, &failures, (struct failing){.kind = SPENT, .tensor = t});
    if (found->missing.elems && !t->skip_train)
      add_failing(&c, &failures, (struct failing){.kind = MISSING, .tensor = t, .lack = &found->missing});
    if (found->unwanted.elems && !t->skip_infer)
      add_failing(&c, &failures, (struct failing){.kind = UNWANTED, .tensor = t, .lack = &found->unwanted});
    if (found->twice.elems)
      add_failing(&c, &failures, (struct failing){.kind = TWICE, .tensor = t, .lack = &found->twice});
  }
  for (size_t i = 0; i < failures.len; i++) report(&c, &failures.at[i]);
  rsc_arena_free(c.scratch);
}
