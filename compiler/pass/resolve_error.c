/* SPDX-License-Identifier: Apache-2.0
 *
 * What resolve says: once per statement, with the uses of functions and the loop values that led there.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "compiler/pass/resolve_impl.h"

static const struct rsc_span nowhere = {.file = -1};

bool rsc_failed_before(const struct rsc_resolver *r, uint32_t statement) {
  return statement < r->failed.len && r->failed.at[statement];
}

/* The same words about the same place are said once, whatever statement led there. */
static bool is_news(struct rsc_resolver *r, enum rsc_code code, struct rsc_span span, const char *text) {
  struct rsc_key key = {0};
  rsc_key_int(r->own, &key, (int64_t)code);
  rsc_key_add(r->own, &key, &span, sizeof span);
  rsc_key_add(r->own, &key, text, strlen(text));
  bool fresh;
  rsc_keys_id(r->said, key.at, key.len, &fresh);
  return fresh;
}

/* The calls and loop values around an error are told last, after the notes that belong to it: they are kept here until
 * the statement ends or the next error begins. Of many nested calls the innermost two and the outermost are told. */
static void keep_context(struct rsc_resolver *r) {
  struct rsc_context *cx = &r->context;
  *cx = (struct rsc_context){.due = true, .loops = rsc_loop_text(r)};
  for (const struct rsc_call *c = r->call; c; c = c->outer) {
    if (cx->call_count < 3) cx->call_count++;
    cx->calls[cx->call_count - 1] = c->at;
  }
}

void rsc_end_message(struct rsc_resolver *r) {
  const struct rsc_context *cx = &r->context;
  if (!cx->due) return;
  for (int i = 0; i < cx->call_count; i++)
    rsc_note(r->diag, cx->calls[i]->span, "in this use of '%s'", cx->calls[i]->kids[0]->symbol->text);
  if (*cx->loops) rsc_note(r->diag, nowhere, "in the loop at %s", cx->loops);
  r->context.due = r->reported = false;
}

static char *formatted(struct rsc_resolver *r, const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  char few[256], *text;
  int n = vsnprintf(few, sizeof few, format, args);
  size_t size = n < 0 ? 1 : (size_t)n + 1;
  text = rsc_arena_strdup(r->own, few, size <= sizeof few ? size - 1 : 0);
  if (size > sizeof few) {
    text = rsc_arena_alloc(r->own, size);
    vsnprintf(text, size, format, again);
  }
  va_end(again);
  return text;
}

/* What is missing because a model or include could not be read. */
static bool follows(const struct rsc_resolver *r, enum rsc_code code) {
  bool missing = code == RSC_NAME_UNKNOWN || code == RSC_TENSOR_UNKNOWN || code == RSC_NEED_MISSING;
  return r->file_failed && missing;
}

bool rsc_fail(struct rsc_resolver *r, enum rsc_code code, struct rsc_span span, const char *format, ...) {
  r->reported = false;
  rsc_end_message(r);
  if (r->stop || follows(r, code) || rsc_failed_before(r, r->statement)) return false;
  va_list args;
  va_start(args, format);
  char *text = formatted(r, format, args);
  va_end(args);
  RSC_ENSURE(r->own, &r->failed, (size_t)r->statement + 1);
  r->failed.at[r->statement] = true;
  if (!is_news(r, code, span, text)) return false;
  rsc_error(r->diag, code, span, "%s", text);
  keep_context(r);
  r->reported = true;
  return false;
}

void rsc_fail_note(struct rsc_resolver *r, struct rsc_span span, const char *format, ...) {
  if (!r->reported) return;
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  rsc_note(r->diag, span, "%s", text);
}

struct text {
  RSC_VEC(char);
};

static void __attribute__((format(printf, 3, 4))) put(struct rsc_resolver *r, struct text *t, const char *format, ...) {
  char piece[256];
  va_list args;
  va_start(args, format);
  int n = vsnprintf(piece, sizeof piece, format, args);
  va_end(args);
  size_t len = n < 0 ? 0 : (size_t)n < sizeof piece ? (size_t)n : sizeof piece - 1;
  RSC_RESERVE(r->values, t, t->len + len + 1);
  memcpy(t->at + t->len, piece, len + 1);
  t->len += len;
}

static void put_item(struct rsc_resolver *r, struct text *t, const struct rsc_item *item, int depth) {
  enum { ITEMS_SHOWN = 8 };
  switch (item->kind) {
  case RSC_INT:
    put(r, t, "%" PRId64, item->u.number);
    break;
  case RSC_DEC:
    put(r, t, "%g", item->u.decimal);
    break;
  case RSC_STR:
    put(r, t, "\"%.120s%s\"", rsc_name_shown(r->own, item->u.str, item->len < 120 ? item->len : 120, false),
        item->len > 120 ? "..." : "");
    break;
  case RSC_TABLE:
    put(r, t, "[");
    for (size_t i = 0; i < item->len && i < ITEMS_SHOWN && depth < 3; i++) {
      if (i) put(r, t, ", ");
      put_item(r, t, &item->u.table[i], depth + 1);
    }
    put(r, t, depth >= 3 ? "...]" : item->len > ITEMS_SHOWN ? ", ...]" : "]");
    break;
  default:
    put(r, t, "?");
  }
}

const char *rsc_item_text(struct rsc_resolver *r, const struct rsc_item *item) {
  struct text t = {0};
  put_item(r, &t, item, 0);
  return t.at;
}

/* Made at most once per turn, for all the buffers of the turn. */
const char *rsc_loop_text(struct rsc_resolver *r) {
  if (r->loop_text && r->loops.len == r->statement_loops) return r->loop_text;
  if (!r->loops.len) return "";
  struct text t = {0};
  for (size_t i = 0; i < r->loops.len; i++) {
    if (i) put(r, &t, ", ");
    put(r, &t, "%.80s = ", r->loops.at[i].name->text);
    put_item(r, &t, &r->loops.at[i].item, 1);
  }
  if (r->loops.len != r->statement_loops) return t.at;
  return r->loop_text = rsc_arena_strdup(r->arena, t.at, t.len); /* of buffers: one for all of a turn */
}

const char *rsc_kind_text(enum rsc_kind kind) {
  switch (kind) {
  case RSC_INT:
    return "an integer";
  case RSC_STR:
    return "a string";
  case RSC_TABLE:
    return "a table";
  case RSC_DEC:
    return "a decimal";
  case RSC_VALUE:
    return "a value";
  default:
    return "nothing";
  }
}

const char *rsc_shown(struct rsc_resolver *r, const char *name, size_t len) {
  return rsc_name_shown(r->own, name, len, false);
}

bool rsc_step(struct rsc_resolver *r, struct rsc_span span) {
  if (r->stop) return false;
  if (++r->steps <= r->limits.steps) return true;
  rsc_fail(r, RSC_TOO_LARGE, span, "the layout takes more than %" PRIu64 " steps to work out; is a range too long?",
           r->limits.steps);
  r->stop = true;
  return false;
}
