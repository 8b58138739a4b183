// SPDX-License-Identifier: Apache-2.0
//
// run_pattern: fill, poison, check. In: the specification, values, memory. Out: bytes, and the first that is wrong.
// Work is cut into parts of a few megabytes, which any thread takes; each part's result depends on the part alone.

#include "tools/run_pattern.h"

#include <stdlib.h>
#include <string.h>

#include "tools/run_convert.h"
#include "tools/run_walk.h"

#define PART_BYTES (UINT64_C(8) << 20)
#define CHUNK 1024 // elements made at a time: stays in the first cache
#define GARBAGE 0xFF

// ---- parts ---------------------------------------------------------------------------------------------------------

struct part_job {
  struct run_pattern *pattern;
  struct run_side *side;
  uint64_t *first_part; // of each slot, and the total
  void (*fn)(struct run_pattern *pattern, const struct run_slot *slot, uint64_t part, uint64_t parts);
};

static void run_part(void *user, uint64_t i) {
  struct part_job *job = user;
  uint64_t lo = 0, hi = job->side->slot_count; // the slot whose parts include i
  while (hi - lo > 1) {
    uint64_t mid = lo + (hi - lo) / 2;
    if (job->first_part[mid] <= i)
      lo = mid;
    else
      hi = mid;
  }
  uint64_t first = job->first_part[lo];
  job->fn(job->pattern, &job->side->slots[lo], i - first, job->first_part[lo + 1] - first);
}

// Two replays are for all; more are for tensors of narrow dtypes only.
static bool tensor_wanted(const struct run_pattern *pattern, const struct run_tensor *tensor) {
  return pattern->replay < 2 || tensor->replays > pattern->replay;
}

static bool slot_wanted(const struct run_pattern *pattern, const struct run_slot *slot) {
  if (pattern->replay < 2) return true;
  const struct rsp_buffer *buffer = &pattern->plan->buffers[slot->gid];
  for (uint32_t i = 0; i < pattern->plan->classes[buffer->klass].slot_count; i++)
    if (tensor_wanted(pattern, &pattern->values->tensors[pattern->plan->slots[buffer->slots + i]])) return true;
  return false;
}

static void each_part(struct run_pattern *pattern, uint32_t which,
                      void (*fn)(struct run_pattern *, const struct run_slot *, uint64_t, uint64_t)) {
  struct run_side *side = &pattern->memory->side[which];
  struct part_job job = {pattern, side, malloc((side->slot_count + 1) * sizeof(uint64_t)), fn};
  if (!job.first_part) abort(); // a few bytes: there is nothing left to report with
  uint64_t total = 0;
  for (uint64_t i = 0; i < side->slot_count; i++) {
    job.first_part[i] = total;
    total += slot_wanted(pattern, &side->slots[i]) ? 1 + side->slots[i].bytes / PART_BYTES : 0;
  }
  job.first_part[side->slot_count] = total;
  run_parallel(pattern->threads, total, run_part, &job);
  free(job.first_part);
}

// ---- one row -------------------------------------------------------------------------------------------------------

struct row_job {
  struct run_pattern *pattern;
  const struct run_slot *slot;
  const struct rsp_piece *piece;
  const struct run_tensor *tensor; // NULL for padding and gaps
  uint32_t dtype, bytes;           // of the buffer
  unsigned char fill;              // of padding and gaps
};

static struct row_job row_job(struct run_pattern *pattern, const struct run_slot *slot, const struct rsp_piece *piece) {
  const struct rsp_buffer *buffer = &pattern->plan->buffers[slot->gid];
  struct row_job job = {.pattern = pattern, .slot = slot, .piece = piece, .dtype = buffer->dtype};
  job.bytes = (uint32_t)rsp_dtype_bytes(buffer->dtype);
  if (piece->slot < RSP_SLOT_GAP)
    job.tensor = &pattern->values->tensors[pattern->plan->slots[buffer->slots + piece->slot]];
  return job;
}

static struct run_form form_of(const struct row_job *job) {
  return (struct run_form){job->dtype, job->piece->op, job->piece->constant};
}

static bool set_row(void *user, const struct run_row *r) {
  const struct row_job *job = user;
  unsigned char *at = job->slot->data + r->b * job->bytes;
  if (r->b_step == 1) {
    memset(at, job->fill, r->count * job->bytes);
    return true;
  }
  for (uint64_t i = 0; i < r->count; i++, at += r->b_step * job->bytes) memset(at, job->fill, job->bytes);
  return true;
}

static bool fill_row(void *user, const struct run_row *r) {
  const struct row_job *job = user;
  struct run_form form = form_of(job);
  unsigned char *at = job->slot->data + r->b * job->bytes;
  if (r->b_step == 1) {
    run_values_train(job->tensor, &form, job->pattern->key, r->t, r->t_step, r->count, at);
    return true;
  }
  _Alignas(64) unsigned char chunk[CHUNK * 8];
  for (uint64_t i = 0; i < r->count; i += CHUNK) {
    uint64_t n = r->count - i < CHUNK ? r->count - i : CHUNK;
    run_values_train(job->tensor, &form, job->pattern->key, r->t + i * r->t_step, r->t_step, n, chunk);
    for (uint64_t k = 0; k < n; k++, at += r->b_step * job->bytes) memcpy(at, chunk + k * job->bytes, job->bytes);
  }
  return true;
}

static void fill_part(struct run_pattern *pattern, const struct run_slot *slot, uint64_t part, uint64_t parts) {
  for (uint64_t p = 0; p < slot->entry->piece_count; p++) {
    struct row_job job = row_job(pattern, slot, &pattern->plan->pieces[slot->entry->pieces + p]);
    job.fill = GARBAGE;
    if (job.tensor && !tensor_wanted(pattern, job.tensor)) continue;
    run_walk(pattern->plan, job.piece, part, parts, job.tensor ? fill_row : set_row, &job);
  }
}

static void poison_part(struct run_pattern *pattern, const struct run_slot *slot, uint64_t part, uint64_t parts) {
  uint64_t lo = slot->bytes / parts * part, hi = part + 1 == parts ? slot->bytes : slot->bytes / parts * (part + 1);
  if (hi > lo) memset(slot->data + lo, pattern->poison, hi - lo);
}

static void zero_part(struct run_pattern *pattern, const struct run_slot *slot, uint64_t part, uint64_t parts) {
  for (uint64_t p = 0; p < slot->entry->piece_count; p++) {
    struct row_job job = row_job(pattern, slot, &pattern->plan->pieces[slot->entry->pieces + p]);
    if (job.piece->slot == RSP_SLOT_PAD) run_walk(pattern->plan, job.piece, part, parts, set_row, &job);
  }
}

// ---- checks --------------------------------------------------------------------------------------------------------

static bool comes_before(const struct run_mismatch *a, const struct run_mismatch *b) {
  if (b->wrong == RUN_RIGHT) return true;
  if (a->slot->side_rank != b->slot->side_rank) return a->slot->side_rank < b->slot->side_rank;
  if (a->slot->gid != b->slot->gid) return a->slot->gid < b->slot->gid;
  return a->b < b->b;
}

// Always false, so that the walk of this part ends.
static bool report(struct run_pattern *pattern, const struct run_mismatch *found) {
  pthread_mutex_lock(&pattern->lock);
  pattern->wrong_parts++;
  if (comes_before(found, &pattern->first)) pattern->first = *found;
  pthread_mutex_unlock(&pattern->lock);
  return false;
}

static uint64_t poison_bits(unsigned char poison, uint32_t bytes) {
  uint64_t all = UINT64_C(0x0101010101010101) * poison;
  return bytes == 8 ? all : all & ((UINT64_C(1) << bytes * 8) - 1);
}

static bool report_row(const struct row_job *job, enum run_wrong wrong, const struct run_row *r, uint64_t i,
                       uint64_t expected) {
  struct run_mismatch m = {.wrong = wrong, .slot = job->slot, .piece = job->piece, .expected = expected};
  m.b = r->b + i * r->b_step;
  m.t = r->t + i * r->t_step;
  m.got = run_load(job->slot->data + m.b * job->bytes, job->bytes);
  m.untouched = m.got == poison_bits(job->pattern->poison, job->bytes);
  return report(job->pattern, &m);
}

static bool check_constant_row(void *user, const struct run_row *r) {
  const struct row_job *job = user;
  uint64_t want = poison_bits(job->fill, job->bytes);
  const unsigned char *at = job->slot->data + r->b * job->bytes;
  enum run_wrong wrong = job->piece->slot == RSP_SLOT_PAD ? RUN_WRONG_PADDING : RUN_WRONG_GAP;
  if (job->pattern->plan->buffers[job->slot->gid].side == RSP_TRAIN) wrong = RUN_WRONG_SOURCE;
  for (uint64_t i = 0; i < r->count; i++, at += r->b_step * job->bytes)
    if (run_load(at, job->bytes) != want) return report_row(job, wrong, r, i, want);
  return true;
}

// Tensor elements in `chunk` as the bits that this inference buffer must hold.
static void receive_chunk(const struct row_job *job, unsigned char *chunk, uint64_t count) {
  unsigned from = (unsigned)rsp_dtype_bytes(job->tensor->dtype);
  unsigned char out[CHUNK * 8];
  for (uint64_t i = 0; i < count; i++) {
    uint64_t bits = run_load(chunk + i * from, from);
    bits = run_receive(job->tensor->dtype, job->dtype, job->piece->op, job->piece->constant, bits);
    run_store(out + i * job->bytes, job->bytes, bits);
  }
  memcpy(chunk, out, count * job->bytes);
}

static bool element_agrees(const struct row_job *job, uint64_t t, uint64_t got) {
  unsigned char one[8];
  run_values_tensor(job->tensor, job->pattern->key, t, 0, 1, one);
  uint64_t bits = run_load(one, (unsigned)rsp_dtype_bytes(job->tensor->dtype));
  return run_receive_agrees(job->tensor->dtype, job->dtype, job->piece->op, job->piece->constant, bits, got) != 0;
}

// Elements [from, from + n) of the row against the bits they must have, one by one.
static bool check_elements(const struct row_job *job, const struct run_row *r, uint64_t from, uint64_t n,
                           const unsigned char *chunk, bool source) {
  uint64_t poison = poison_bits(job->pattern->poison, job->bytes);
  for (uint64_t k = 0; k < n; k++) {
    uint64_t i = from + k, want = run_load(chunk + k * job->bytes, job->bytes), t = r->t + i * r->t_step;
    uint64_t got = run_load(job->slot->data + (r->b + i * r->b_step) * job->bytes, job->bytes);
    bool excused = !source && !run_supplied(job->tensor, t);
    if (excused && got != poison) return report_row(job, RUN_WRONG_EXCUSED, r, i, poison);
    if (excused || got == want) continue;
    if (source) return report_row(job, RUN_WRONG_SOURCE, r, i, want);
    if (!job->tensor->converted || !element_agrees(job, t, got)) return report_row(job, RUN_WRONG_ELEMENT, r, i, want);
  }
  return true;
}

static bool check_row(void *user, const struct run_row *r) {
  const struct row_job *job = user;
  bool source = job->pattern->plan->buffers[job->slot->gid].side == RSP_TRAIN;
  struct run_form form = form_of(job);
  bool exact = job->dtype == job->tensor->dtype && job->piece->op == RSP_OP_COPY;
  _Alignas(64) unsigned char chunk[CHUNK * 8];
  for (uint64_t i = 0; i < r->count; i += CHUNK) {
    uint64_t n = r->count - i < CHUNK ? r->count - i : CHUNK, t = r->t + i * r->t_step;
    if (source)
      run_values_train(job->tensor, &form, job->pattern->key, t, r->t_step, n, chunk);
    else
      run_values_tensor(job->tensor, job->pattern->key, t, r->t_step, n, chunk);
    if (!source && !exact) receive_chunk(job, chunk, n);
    const unsigned char *at = job->slot->data + (r->b + i * r->b_step) * job->bytes;
    if (r->b_step == 1 && (source || !job->tensor->partial) && !memcmp(at, chunk, n * job->bytes)) continue;
    if (!check_elements(job, r, i, n, chunk, source)) return false;
  }
  return true;
}

static bool check_guards(struct run_pattern *pattern, const struct run_slot *slot) {
  for (uint64_t i = 0; i < 2 * RUN_GUARD && slot->guarded; i++) {
    uint64_t place = i < RUN_GUARD ? i - RUN_GUARD : slot->bytes + i - RUN_GUARD; // wraps to before the buffer
    unsigned char got = slot->data[(int64_t)place];
    if (got == RUN_GUARD_BYTE) continue;
    struct run_mismatch m = {
        .wrong = RUN_WRONG_GUARD, .slot = slot, .b = place, .expected = RUN_GUARD_BYTE, .got = got};
    return report(pattern, &m);
  }
  return true;
}

static void check_part(struct run_pattern *pattern, const struct run_slot *slot, uint64_t part, uint64_t parts) {
  bool source = pattern->plan->buffers[slot->gid].side == RSP_TRAIN;
  for (uint64_t p = 0; p < slot->entry->piece_count; p++) {
    struct row_job job = row_job(pattern, slot, &pattern->plan->pieces[slot->entry->pieces + p]);
    if (job.tensor && !tensor_wanted(pattern, job.tensor)) continue;
    if (!job.tensor) job.fill = source ? GARBAGE : job.piece->slot == RSP_SLOT_PAD ? 0 : pattern->poison;
    if (!run_walk(pattern->plan, job.piece, part, parts, job.tensor ? check_row : check_constant_row, &job)) return;
  }
  if (part == 0) check_guards(pattern, slot);
}

// ---- the whole -----------------------------------------------------------------------------------------------------

void run_pattern_init(struct run_pattern *pattern, const struct rsp_plan *plan, const struct run_values *values,
                      struct run_memory *memory, uint64_t seed) {
  *pattern = (struct run_pattern){.plan = plan, .values = values, .memory = memory, .threads = run_processors()};
  pattern->key = seed;
  pthread_mutex_init(&pattern->lock, NULL);
}

void run_pattern_free(struct run_pattern *pattern) {
  pthread_mutex_destroy(&pattern->lock);
}

void run_pattern_begin(struct run_pattern *pattern, uint32_t replay) {
  pattern->replay = replay;
  pattern->key = (pattern->key + 1) * UINT64_C(0x9E3779B97F4A7C15);
  pattern->poison = replay % 2 ? 0x5A : 0xA5; // neither is a bool, nor zero
  pattern->first = (struct run_mismatch){0};
  pattern->wrong_parts = 0;
}

void run_pattern_fill(struct run_pattern *pattern) {
  each_part(pattern, RSP_TRAIN, fill_part);
}

void run_pattern_poison(struct run_pattern *pattern, bool zero_padding) {
  run_memory_guard(&pattern->memory->side[RSP_INFER]);
  each_part(pattern, RSP_INFER, poison_part);
  if (zero_padding) each_part(pattern, RSP_INFER, zero_part);
}

bool run_pattern_check(struct run_pattern *pattern) {
  each_part(pattern, RSP_INFER, check_part);
  // What is written to a training buffer would hide behind what it makes of the inference buffers.
  if (pattern->first.wrong == RUN_RIGHT) each_part(pattern, RSP_TRAIN, check_part);
  return pattern->first.wrong == RUN_RIGHT;
}

// ---- extracting ----------------------------------------------------------------------------------------------------

struct extract_job {
  struct row_job row;
  unsigned char *to;
};

static bool extract_row(void *user, const struct run_row *r) {
  const struct extract_job *job = user;
  uint32_t bytes = job->row.bytes;
  if (r->b_step == 1 && !job->row.tensor->partial) {
    memcpy(job->to + r->b * bytes, job->row.slot->data + r->b * bytes, r->count * bytes);
    return true;
  }
  for (uint64_t i = 0; i < r->count; i++) {
    uint64_t at = (r->b + i * r->b_step) * bytes;
    if (run_supplied(job->row.tensor, r->t + i * r->t_step)) memcpy(job->to + at, job->row.slot->data + at, bytes);
  }
  return true;
}

void run_pattern_extract(struct run_pattern *pattern, const struct run_slot *slot, unsigned char *to) {
  for (uint64_t p = 0; p < slot->entry->piece_count; p++) {
    const struct rsp_piece *piece = &pattern->plan->pieces[slot->entry->pieces + p];
    struct extract_job job = {row_job(pattern, slot, piece), to};
    if (job.row.tensor) run_walk(pattern->plan, piece, 0, 1, extract_row, &job);
  }
}
