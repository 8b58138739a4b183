// SPDX-License-Identifier: Apache-2.0
//
// Writes the tiny plan with one thing changed. Usage: make_tiny_plan WHAT FILE; the list below names every WHAT.
#include <stdlib.h>
#include <string.h>

#include "tests/plan/tiny.h"

static void none(struct tiny *t) {
  (void)t;
}

// Same meaning: other lines, other files, another cut into pieces, parts, slots or sections.
static void line(struct tiny *t) {
  t->buffers[0].line = t->slice[0].buffers[0].line = t->slice[1].buffers[0].line = 9;
}
static void inputs(struct tiny *t) {
  memset(t->inputs[0].digest, 0x77, 16);
  t->inputs[1].name = t->inputs[0].name;
}
static void pieces(struct tiny *t) {
  static const struct rsp_ploop more[] = {{2, 4, 4}, {4, 1, 1}};
  memcpy(t->ploops + 4, more, sizeof more);
  t->global.counts[RSP_SEC_PLOOPS] = 6;
  t->pieces[0].loops = 4;
  t->pieces[0].loop_count = 2;
}
static void parts(struct tiny *t) {
  t->slice[0].parts[3] = (struct rsp_part){0, 0, 3};
  t->slice[0].parts[4] = (struct rsp_part){0, 3, 4};
  t->slices[0].part_count = 5;
  t->slice[0].streams[0].parts = 3;
  t->slice[0].streams[0].part_count = 2;
}
static void tensors(struct tiny *t) {
  struct rsp_tensor w = t->tensors[0];
  t->tensors[0] = t->tensors[1];
  t->tensors[1] = w;
  for (unsigned i = 0; i < 4; i++) t->slots[i] = 1 - t->slots[i];
}

// Another meaning.
static void elements(struct tiny *t) {
  t->pieces[3].t0 = 2;
  t->pieces[4].t0 = 0;
}
static void dtype(struct tiny *t) {
  t->tensors[0].dtype = RSP_BF16;
}
static void skip(struct tiny *t) {
  t->tensors[1].flags = RSP_TENSOR_SKIP_TRAIN;
}
static void tensor(struct tiny *t) {
  t->tensors[2] = t->tensors[1];
  t->tensors[2].name = t->ranks[0].host; // "h0"
  t->global.counts[RSP_SEC_TENSORS] = 3;
}
static void name(struct tiny *t) {
  t->buffers[2].name = t->tensors[0].name; // "w" in place of "w_t"
  for (unsigned r = 1; r <= 2; r++) {
    struct rsp_str *s = &t->slice[r].buffers[r == 1 ? 2 : 0].name;
    s->len = 1;
  }
}
static void seat(struct tiny *t) {
  t->ranks[2].gpu = 3;
}
static void limit(struct tiny *t) {
  t->global.max_ops = 16;
}
static void rates(struct tiny *t) {
  t->summary.network_bandwidth = 25e9;
}
static void route(struct tiny *t) {
  t->slice[0].descs[0].off = 8;
}
static void round_(struct tiny *t) {
  // What goes from 0 to 2 without staging now goes at another time.
  t->slice[0].streams[2].round0 = t->slice[2].streams[1].round0 = 0;
}

// The forms with a relay.
static void relay(struct tiny *t) {
  tiny_init_form(t, TINY_RELAY_STAGED);
}
static void relay_direct(struct tiny *t) {
  tiny_init_form(t, TINY_RELAY_DIRECT);
}
static void again(struct tiny *t) {
  tiny_init_form(t, TINY_AGAIN_STAGED);
}
static void again_direct(struct tiny *t) {
  tiny_init_form(t, TINY_AGAIN_DIRECT);
}
// The streams from rank 1 to rank 2 in another order.
static void relay_tag(struct tiny *t) {
  tiny_init_form(t, TINY_RELAY_STAGED);
  struct rsp_stream *out = t->slice[1].streams, *in = t->slice[2].streams, whole = out[1];
  out[1] = out[0];
  out[0] = whole;
  whole = in[2];
  in[2] = in[1];
  in[1] = whole;
  out[0].tag = in[1].tag = 0;
  out[1].tag = in[2].tag = 1;
}

static const struct {
  const char *what;
  void (*change)(struct tiny *t);
} changes[] = {{"none", none},          {"line", line},
               {"inputs", inputs},      {"pieces", pieces},
               {"parts", parts},        {"tensors", tensors},
               {"dtype", dtype},        {"skip", skip},
               {"tensor", tensor},      {"name", name},
               {"elements", elements},  {"seat", seat},
               {"limit", limit},        {"rates", rates},
               {"route", route},        {"round", round_},
               {"relay", relay},        {"relay-direct", relay_direct},
               {"again", again},        {"again-direct", again_direct},
               {"relay-tag", relay_tag}};

int main(int argc, char **argv) {
  struct rsp_error error;
  void *bytes;
  size_t size;
  struct tiny *t = malloc(sizeof *t);
  if (argc != 3 || !t) return 2;
  tiny_init(t);
  for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
    if (strcmp(argv[1], changes[i].what) != 0) continue;
    changes[i].change(t);
    bool good = tiny_build(t, &bytes, &size) && rsp_write_file(argv[2], bytes, size, &error) == RSP_OK;
    free(bytes);
    free(t);
    return good ? 0 : 2;
  }
  fprintf(stderr, "no change is called '%s'\n", argv[1]);
  return 2;
}
