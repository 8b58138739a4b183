/* SPDX-License-Identifier: Apache-2.0
 *
 * In: the text of a YAML file. Out: its tree, or errors with places. libyaml gives events, whose marks count
 * characters; places count bytes of lines that end in \n, so marks are translated.
 */
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "compiler/base/vec.h"
#include "compiler/base/yaml.h"

enum { DEPTH_MAX = 64 };

/* Where a line begins, in both ways of counting. */
struct line {
  size_t byte, chars;
};

struct frame {
  struct rsc_yaml node;
  size_t base; /* of its items in the stack */
};

struct frames {
  RSC_VEC(struct frame);
};

struct nodes {
  RSC_VEC(struct rsc_yaml);
};

struct reader {
  struct rsc_arena *arena;
  struct rsc_diag *diag;
  int file;
  const char *text; /* after a byte order mark */
  size_t len;
  struct {
    RSC_VEC(struct line);
  } lines;
  size_t line;        /* the line found last, and how far into it: marks come mostly in order */
  struct line cursor; /* a place on that line */
  struct nodes stack; /* items of the collections that are open, innermost last */
  struct frames frames;
  bool failed, done;
};

static bool continues(char c) {
  return ((unsigned char)c & 0xC0) == 0x80;
}

/* The length of the UTF-8 character at text[0, len), or 0 if it is not one. */
static size_t utf8_length(const unsigned char *text, size_t len) {
  unsigned char c = text[0];
  size_t n = c < 0x80 ? 1 : c >= 0xC2 && c < 0xE0 ? 2 : c >= 0xE0 && c < 0xF0 ? 3 : c >= 0xF0 && c < 0xF5 ? 4 : 0;
  if (n == 0 || n > len) return 0;
  for (size_t i = 1; i < n; i++) {
    if ((text[i] & 0xC0) != 0x80) return 0;
  }
  bool overlong = (c == 0xE0 && text[1] < 0xA0) || (c == 0xF0 && text[1] < 0x90);
  bool outside = (c == 0xED && text[1] >= 0xA0) || (c == 0xF4 && text[1] >= 0x90);
  return overlong || outside ? 0 : n;
}

static void find_lines(struct reader *r) {
  size_t chars = 0, byte = 0;
  *RSC_PUSH(r->arena, &r->lines) = (struct line){0, 0};
  for (; byte < r->len; byte++) {
    chars += !continues(r->text[byte]);
    if (r->text[byte] == '\n') *RSC_PUSH(r->arena, &r->lines) = (struct line){byte + 1, chars};
  }
}

static size_t line_start(const struct reader *r, size_t line, bool by_chars) {
  return by_chars ? r->lines.at[line].chars : r->lines.at[line].byte;
}

/* Moves to the line that holds byte (or, if `by_chars`, character) number `want`. It mostly is this one or the next. */
static void seek_line(struct reader *r, size_t want, bool by_chars) {
  size_t lo = r->line, hi = lo + 1, count = r->lines.len;
  if (line_start(r, lo, by_chars) > want) lo = 0;
  while (hi < count && hi < r->line + 3 && line_start(r, hi, by_chars) <= want) lo = hi++;
  if (hi < count && line_start(r, hi, by_chars) <= want) hi = count;
  while (hi - lo > 1) {
    size_t mid = lo + (hi - lo) / 2;
    if (line_start(r, mid, by_chars) <= want)
      lo = mid;
    else
      hi = mid;
  }
  if (lo == r->line && r->cursor.byte >= r->lines.at[lo].byte) return;
  r->line = lo;
  r->cursor = r->lines.at[lo];
}

static size_t byte_of(struct reader *r, size_t chars) {
  seek_line(r, chars, true);
  if (r->cursor.chars > chars) r->cursor = r->lines.at[r->line];
  while (r->cursor.chars < chars && r->cursor.byte < r->len) {
    r->cursor.byte++;
    while (r->cursor.byte < r->len && continues(r->text[r->cursor.byte])) r->cursor.byte++;
    r->cursor.chars++;
  }
  return r->cursor.byte;
}

/* The span of bytes [lo, hi), cut to the line that lo is on. */
static struct rsc_span span_of(struct reader *r, size_t lo, size_t hi) {
  seek_line(r, lo, false);
  size_t start = r->lines.at[r->line].byte;
  size_t end = r->line + 1 < r->lines.len ? r->lines.at[r->line + 1].byte - 1 : r->len;
  if (hi > end) hi = end;
  if (hi <= lo) hi = lo + 1;
  size_t col = lo - start + 1;
  return (struct rsc_span){r->file, (uint32_t)(r->line + 1), (uint32_t)col, (uint32_t)(hi - lo)};
}

static struct rsc_span span_at(struct reader *r, yaml_mark_t start, yaml_mark_t end) {
  size_t lo = byte_of(r, start.index), hi = byte_of(r, end.index);
  return span_of(r, lo, hi);
}

static bool check_utf8(struct reader *r) {
  for (size_t at = 0; at < r->len;) {
    size_t n = utf8_length((const unsigned char *)r->text + at, r->len - at);
    if (n == 0) {
      rsc_error(r->diag, RSC_YAML_UTF8, span_of(r, at, at + 1), "byte 0x%02x is not UTF-8; save the file as UTF-8",
                (unsigned char)r->text[at]);
      return false;
    }
    at += n;
  }
  return true;
}

static bool refuse(struct reader *r, enum rsc_code code, struct rsc_span span, const char *message) {
  rsc_error(r->diag, code, span, "%s", message);
  r->failed = true;
  return false;
}

/* Adds a finished node to the collection that is open, or makes it the root. */
static void add(struct reader *r, struct rsc_yaml node) {
  *RSC_PUSH(r->arena, &r->stack) = node;
}

/* Whether the node that comes next is a key of the map that is open. */
static bool at_key(const struct reader *r) {
  if (r->frames.len == 0) return false;
  const struct frame *top = &r->frames.at[r->frames.len - 1];
  return top->node.kind == RSC_YAML_MAP && (r->stack.len - top->base) % 2 == 0;
}

static bool check_extras(struct reader *r, struct rsc_span span, const yaml_char_t *anchor, const yaml_char_t *tag) {
  if (anchor) return refuse(r, RSC_YAML_FEATURE, span, "anchors (&name) are not supported; write the value out");
  if (tag) return refuse(r, RSC_YAML_FEATURE, span, "tags (!type) are not supported; remove it");
  return true;
}

static bool open_collection(struct reader *r, const yaml_event_t *event, enum rsc_yaml_kind kind) {
  struct rsc_span span = span_at(r, event->start_mark, event->end_mark);
  bool map = kind == RSC_YAML_MAP;
  const yaml_char_t *anchor = map ? event->data.mapping_start.anchor : event->data.sequence_start.anchor;
  const yaml_char_t *tag = map ? event->data.mapping_start.tag : event->data.sequence_start.tag;
  if (!check_extras(r, span, anchor, tag)) return false;
  if (at_key(r)) return refuse(r, RSC_YAML_FEATURE, span, "a key is plain text, not a list or a map");
  if (r->frames.len >= DEPTH_MAX) return refuse(r, RSC_YAML_DEPTH, span, "nested more than 64 deep; flatten it");
  struct frame frame = {.node = {.kind = kind, .span = span}, .base = r->stack.len};
  *RSC_PUSH(r->arena, &r->frames) = frame;
  return true;
}

/* Texts of keys in order, so that equal ones are neighbours; the first of them stays first. */
static int compare_keys(const void *a, const void *b) {
  const struct rsc_yaml *x = *(const struct rsc_yaml *const *)a, *y = *(const struct rsc_yaml *const *)b;
  int order = strcmp(x->u.scalar.text, y->u.scalar.text);
  return order ? order : (x > y) - (x < y);
}

static void check_equal_keys(struct reader *r, const struct rsc_yaml *at, size_t count) {
  size_t n = count / 2;
  const struct rsc_yaml *few[8];
  const struct rsc_yaml **keys = n <= 8 ? few : RSC_ARRAY(r->arena, const struct rsc_yaml *, n);
  for (size_t i = 0; i < n; i++) keys[i] = &at[2 * i];
  if (n > 1) qsort(keys, n, sizeof *keys, compare_keys);
  for (size_t i = 1; i < n; i++) {
    if (strcmp(keys[i - 1]->u.scalar.text, keys[i]->u.scalar.text) != 0) continue;
    rsc_error(r->diag, RSC_YAML_DUPLICATE_KEY, keys[i]->span, "key '%s' stands twice in this map; keep one",
              keys[i]->u.scalar.text);
    rsc_note(r->diag, keys[i - 1]->span, "the other is here");
    r->failed = true;
  }
}

static void close_collection(struct reader *r) {
  struct frame frame = r->frames.at[--r->frames.len];
  size_t count = r->stack.len - frame.base;
  struct rsc_yaml *at = RSC_ARRAY(r->arena, struct rsc_yaml, count);
  if (count) memcpy(at, r->stack.at + frame.base, count * sizeof *at);
  r->stack.len = frame.base;
  if (frame.node.kind == RSC_YAML_MAP) check_equal_keys(r, at, count);
  frame.node.u.items.at = at;
  frame.node.u.items.count = count;
  add(r, frame.node);
}

static bool add_scalar(struct reader *r, const yaml_event_t *event) {
  const char *text = (const char *)event->data.scalar.value;
  size_t len = event->data.scalar.length;
  bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
  struct rsc_span span = span_at(r, event->start_mark, event->end_mark);
  if (!check_extras(r, span, event->data.scalar.anchor, event->data.scalar.tag)) return false;
  if (memchr(text, 0, len)) return refuse(r, RSC_YAML_TYPE, span, "text may not hold a NUL character");
  if (at_key(r) && len == 0) return refuse(r, RSC_YAML_TYPE, span, "a key is missing before the ':'");
  if (at_key(r) && plain && !strcmp(text, "<<"))
    return refuse(r, RSC_YAML_FEATURE, span, "merge keys (<<) are not supported; write the values out");
  size_t at = byte_of(r, event->start_mark.index) + !plain;
  bool direct = at <= r->len && len <= r->len - at && !memcmp(r->text + at, text, len) && !memchr(text, '\n', len);
  struct rsc_yaml node = {.kind = RSC_YAML_SCALAR, .plain = plain, .direct = direct, .span = span};
  node.u.scalar.text = rsc_arena_strdup(r->arena, text, len);
  node.u.scalar.len = len;
  add(r, node);
  return true;
}

/* One event; false ends the reading. */
static bool take(struct reader *r, const yaml_event_t *event) {
  struct rsc_span span = {r->file, 1, 1, 1};
  switch (event->type) {
  case YAML_SCALAR_EVENT:
    return add_scalar(r, event);
  case YAML_SEQUENCE_START_EVENT:
    return open_collection(r, event, RSC_YAML_LIST);
  case YAML_MAPPING_START_EVENT:
    return open_collection(r, event, RSC_YAML_MAP);
  case YAML_SEQUENCE_END_EVENT:
  case YAML_MAPPING_END_EVENT:
    close_collection(r);
    return true;
  case YAML_ALIAS_EVENT:
    span = span_at(r, event->start_mark, event->end_mark);
    return refuse(r, RSC_YAML_FEATURE, span, "aliases (*name) are not supported; write the value out or quote it");
  case YAML_DOCUMENT_START_EVENT:
    if (r->stack.len == 0) return true;
    span = span_at(r, event->start_mark, event->end_mark);
    return refuse(r, RSC_YAML_FEATURE, span, "a second document begins here; a file holds one");
  case YAML_STREAM_END_EVENT:
    r->done = true;
    return false;
  default:
    return true;
  }
}

/* What usually causes the syntax error at `at`, or NULL. */
static const char *syntax_cure(const struct reader *r, size_t at, const char *problem) {
  char c = at < r->len ? r->text[at] : 0;
  if (c == '\t') return "indent with spaces, not tabs";
  if (c == '@' || c == '`' || c == '%') return "put text that begins with this character in quotes";
  if (strstr(problem, "mapping values"))
    return "put text that holds ': ' in quotes, and begin each key on its own line";
  if (strstr(problem, "expected key") || strstr(problem, "expected '-'") || strstr(problem, "block"))
    return "line its keys and '-' up with those above";
  if (strstr(problem, "',' or")) return "close the bracket or brace, and put a comma between its parts";
  if (strstr(problem, "end of stream")) return "close the quote";
  return NULL;
}

static void report_syntax(struct reader *r, const yaml_parser_t *parser) {
  const char *problem = parser->problem ? parser->problem : "unreadable";
  size_t at = parser->error == YAML_READER_ERROR ? parser->problem_offset : byte_of(r, parser->problem_mark.index);
  if (at > r->len) at = r->len;
  const char *cure = syntax_cure(r, at, problem);
  rsc_error(r->diag, RSC_YAML_SYNTAX, span_of(r, at, at + 1), "this is not YAML: %s%s%s", problem, cure ? "; " : "",
            cure ? cure : "");
  if (parser->context && parser->error != YAML_READER_ERROR) {
    size_t from = byte_of(r, parser->context_mark.index);
    rsc_note(r->diag, span_of(r, from, from + 1), "%s that begins here", parser->context);
  }
  r->failed = true;
}

static void read_events(struct reader *r) {
  yaml_parser_t parser;
  if (!yaml_parser_initialize(&parser)) rsc_oom(sizeof parser);
  yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string(&parser, (const unsigned char *)r->text, r->len);
  for (bool more = true; more;) {
    yaml_event_t event;
    if (!yaml_parser_parse(&parser, &event)) {
      if (parser.error == YAML_MEMORY_ERROR) rsc_oom(r->len);
      report_syntax(r, &parser);
      break;
    }
    more = take(r, &event);
    yaml_event_delete(&event);
  }
  yaml_parser_delete(&parser);
}

bool rsc_yaml_read(struct rsc_arena *arena, const struct rsc_sources *sources, struct rsc_diag *diag, int file,
                   struct rsc_yaml *root) {
  struct reader r = {.arena = arena, .diag = diag, .file = file};
  r.text = rsc_sources_text(sources, file, &r.len);
  bool mark = r.len >= 3 && !memcmp(r.text, "\xEF\xBB\xBF", 3);
  if (mark) r.text += 3, r.len -= 3;
  find_lines(&r);
  if (!check_utf8(&r)) return false;
  read_events(&r);
  if (r.failed) return false;
  if (r.stack.len == 0) {
    rsc_error(diag, RSC_YAML_SYNTAX, (struct rsc_span){file, 1, 1, 1}, "the file is empty");
    return false;
  }
  *root = r.stack.at[0];
  return true;
}
