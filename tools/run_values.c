// SPDX-License-Identifier: Apache-2.0
//
// run_values: the patterns that `reshard run` replays. In: a plan's specification. Out: the bits of any element of any
// tensor under any key, and what a training buffer of any form holds for it.

#include "tools/run_values.h"

#include <stdlib.h>
#include <string.h>

#include "tools/run_convert.h"
#include "tools/run_walk.h"

// What is filled and checked is as much as what is copied, so it uses the vectors that are there.
#if defined(__x86_64__) && defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#define WIDE __attribute__((target("avx2")))
#define HAS_WIDE() __builtin_cpu_supports("avx2")
#else
#define INLINE static inline
#define WIDE
#define HAS_WIDE() 0
#endif

// ---- the hash ------------------------------------------------------------------------------------------------------

struct keys {
  uint32_t in, out;
};

static uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 31)) * UINT64_C(0x9E3779B97F4A7C15);
  x = (x ^ (x >> 29)) * UINT64_C(0xC2B2AE3D27D4EB4F);
  return x ^ (x >> 32);
}

INLINE uint32_t mix32(uint32_t x, struct keys k) {
  x ^= k.in;
  x = (x ^ (x >> 15)) * UINT32_C(0x9E3779B1);
  x = (x ^ (x >> 13)) * UINT32_C(0x85EBCA77);
  return (x ^ (x >> 16)) + k.out;
}

// The keys of 2^32 consecutive elements; `lane` makes independent streams of them.
static struct keys keys_of(const struct run_tensor *tensor, uint64_t key, uint64_t high, uint64_t lane) {
  uint64_t x = mix64(mix64(mix64(key) + tensor->index) + (high << 3 | lane));
  return (struct keys){(uint32_t)x, (uint32_t)(x >> 32)};
}

#define LANES 8 // 0 and 1: any bits; 1: noise; 2 and up: attempts at a finite float
#define ATTEMPTS 5
#define ADDED 3 // so many of them are drawn in a form that adds, the others in the tensor's dtype

// The keys at hand while a row of elements is made.
struct hasher {
  const struct run_tensor *tensor;
  uint64_t key, high;
  struct keys lane[LANES];
};

static void hasher_move(struct hasher *h, uint64_t high) {
  h->high = high;
  for (uint64_t lane = 0; lane < LANES; lane++) h->lane[lane] = keys_of(h->tensor, h->key, high, lane);
}

static struct hasher hasher_start(const struct run_tensor *tensor, uint64_t key, uint64_t t) {
  struct hasher h = {.tensor = tensor, .key = key};
  hasher_move(&h, t >> 32);
  return h;
}

static uint64_t hash64(const struct hasher *h, uint64_t t, unsigned lane) {
  struct keys a = h->lane[lane], b = {a.out, a.in};
  return (uint64_t)mix32((uint32_t)t, a) << 32 | mix32((uint32_t)t * UINT32_C(0x2545F491), b);
}

// ---- any bits ------------------------------------------------------------------------------------------------------

#define FILL(name, type, expression)                                                                                   \
  INLINE void name(type *out, uint32_t t, uint32_t step, size_t count, struct keys k, struct keys k2) {                \
    (void)k2;                                                                                                          \
    for (size_t i = 0; i < count; i++) out[i] = (type)(expression);                                                    \
  }
FILL(fill_bool, uint8_t, mix32(t + (uint32_t)i * step, k) >> 31)
FILL(fill_8, uint8_t, mix32(t + (uint32_t)i * step, k) >> 24)
FILL(fill_16, uint16_t, mix32(t + (uint32_t)i * step, k) >> 16)
FILL(fill_32, uint32_t, mix32(t + (uint32_t)i * step, k))
FILL(fill_64, uint64_t, (uint64_t)mix32(t + (uint32_t)i * step, k) << 32 | mix32(t + (uint32_t)i * step, k2))

// `kind`: bytes per element, 0 for a bool.
INLINE void fill_kind(size_t kind, void *to, uint32_t t, uint32_t step, size_t count, const struct keys k[2]) {
  switch (kind) {
  case 0:
    fill_bool(to, t, step, count, k[0], k[1]);
    break;
  case 1:
    fill_8(to, t, step, count, k[0], k[1]);
    break;
  case 2:
    fill_16(to, t, step, count, k[0], k[1]);
    break;
  case 4:
    fill_32(to, t, step, count, k[0], k[1]);
    break;
  default:
    fill_64(to, t, step, count, k[0], k[1]);
    break;
  }
}

static void fill_plain(size_t kind, void *to, uint32_t t, uint32_t step, size_t count, const struct keys k[2]) {
  fill_kind(kind, to, t, step, count, k);
}

WIDE static void fill_wide(size_t kind, void *to, uint32_t t, uint32_t step, size_t count, const struct keys k[2]) {
  fill_kind(kind, to, t, step, count, k);
}

static void fill_bits(const struct run_tensor *tensor, uint64_t key, uint64_t t, uint64_t step, size_t count,
                      unsigned char *out) {
  size_t bytes = rsp_dtype_bytes(tensor->dtype), kind = tensor->dtype == RSP_BOOL ? 0 : bytes;
  while (count) {
    // As many as stay below the next multiple of 2^32: their keys are the same.
    uint64_t left = UINT32_MAX - (uint32_t)t, fit = step ? left / step + 1 : count;
    size_t n = fit < count ? (size_t)fit : count;
    struct keys k[2] = {keys_of(tensor, key, t >> 32, 0), keys_of(tensor, key, t >> 32, 1)};
    (HAS_WIDE() ? fill_wide : fill_plain)(kind, out, (uint32_t)t, (uint32_t)step, n, k);
    t += step * n;
    out += bytes * n;
    count -= n;
  }
}

// ---- finite floats -------------------------------------------------------------------------------------------------

static uint64_t draw(const struct hasher *hasher, uint32_t dtype, uint64_t t, unsigned attempt) {
  const struct run_tensor *tensor = hasher->tensor;
  struct run_float f = run_float_of(dtype);
  uint64_t h = hash64(hasher, t, 2 + attempt);
  uint64_t sign = h & 1, range = (uint64_t)(tensor->emax - tensor->emin + 1);
  int exponent = tensor->emin + (int)((h >> 1 & 0x7fff) * range >> 15);
  uint64_t mant = tensor->mant ? h >> (64 - tensor->mant) : 0;
  unsigned width = (unsigned)rsp_dtype_bytes(dtype) * 8;
  return sign << (width - 1) | (uint64_t)(exponent - f.emin + 1) << f.mant | mant << (f.mant - tensor->mant);
}

// A number of `form` that stands for the tensor's v: beside it where the form is finer.
static uint64_t stand(const struct run_tensor *tensor, const struct run_form *form, uint64_t v, uint64_t noise) {
  if (form->op == RSP_OP_ADD) return run_receive(tensor->dtype, form->dtype, RSP_OP_ADD, form->constant, v);
  if (form->dtype == tensor->dtype) return v;
  uint64_t b = run_encode(form->dtype, run_decode(tensor->dtype, v));
  struct run_float fine = run_float_of(form->dtype), coarse = run_float_of(tensor->dtype);
  int dropped = fine.mant - coarse.mant;
  if (dropped < 2 || v == 0) return b;
  uint64_t off = noise & ((UINT64_C(1) << (dropped - 1)) - 1);
  bool power_of_two = (v & ((UINT64_C(1) << coarse.mant) - 1)) == 0; // below one the numbers are twice as dense
  return noise >> 63 && !power_of_two ? b - off : b + off;
}

static bool stands_for(const struct run_tensor *tensor, const struct run_form *form, uint64_t b, uint64_t v) {
  return run_send(form->dtype, tensor->dtype, form->op, form->constant, b) == v;
}

// The tensor's element, and the number that it was drawn as, in the first form if that adds. With several forms, of
// which one adds, not every number can be had in all of them: some are tried, and then zero.
static uint64_t finite(struct hasher *hasher, uint64_t t, uint64_t noise, uint64_t *first) {
  const struct run_tensor *tensor = hasher->tensor;
  const struct run_form *forms = tensor->forms;
  bool adds = forms[0].op == RSP_OP_ADD;
  for (unsigned attempt = 0;; attempt++) {
    bool added = adds && attempt < ADDED;
    uint64_t u = attempt == ATTEMPTS ? 0 : draw(hasher, added ? forms[0].dtype : tensor->dtype, t, attempt);
    uint64_t v = added ? run_send(forms[0].dtype, tensor->dtype, forms[0].op, forms[0].constant, u) : u;
    *first = adds && !added ? stand(tensor, &forms[0], v, noise) : u;
    bool good = true;
    for (size_t i = added; adds && i < tensor->form_count && good; i++)
      good = stands_for(tensor, &forms[i], stand(tensor, &forms[i], v, noise), v);
    if (good || attempt == ATTEMPTS) return v;
  }
}

void run_values_tensor(const struct run_tensor *tensor, uint64_t key, uint64_t t0, uint64_t step, size_t count,
                       unsigned char *out) {
  if (!tensor->converted) {
    fill_bits(tensor, key, t0, step, count, out);
    return;
  }
  unsigned bytes = (unsigned)rsp_dtype_bytes(tensor->dtype);
  struct hasher hasher = hasher_start(tensor, key, t0);
  uint64_t first;
  for (size_t i = 0; i < count; i++, t0 += step) {
    if (t0 >> 32 != hasher.high) hasher_move(&hasher, t0 >> 32);
    run_store(out + i * bytes, bytes, finite(&hasher, t0, hash64(&hasher, t0, 1), &first));
  }
}

static bool same_form(const struct run_form *a, const struct run_form *b) {
  return a->dtype == b->dtype && a->op == b->op && memcmp(&a->constant, &b->constant, sizeof a->constant) == 0;
}

void run_values_train(const struct run_tensor *tensor, const struct run_form *form, uint64_t key, uint64_t t0,
                      uint64_t step, size_t count, unsigned char *out) {
  if (!tensor->converted) {
    fill_bits(tensor, key, t0, step, count, out);
    return;
  }
  unsigned bytes = (unsigned)rsp_dtype_bytes(form->dtype);
  bool drawn = form->op == RSP_OP_ADD && same_form(form, &tensor->forms[0]);
  struct hasher hasher = hasher_start(tensor, key, t0);
  for (size_t i = 0; i < count; i++, t0 += step) {
    if (t0 >> 32 != hasher.high) hasher_move(&hasher, t0 >> 32);
    uint64_t first, noise = hash64(&hasher, t0, 1), v = finite(&hasher, t0, noise, &first);
    run_store(out + i * bytes, bytes, drawn ? first : stand(tensor, form, v, noise));
  }
}

// ---- what the plan says about each tensor --------------------------------------------------------------------------

static void limit(struct run_tensor *tensor, int mant, int emin, int emax) {
  if (mant < tensor->mant) tensor->mant = mant;
  if (emin > tensor->emin) tensor->emin = emin;
  if (emax < tensor->emax) tensor->emax = emax;
}

static bool add_form(struct run_tensor *tensor, const struct run_form *form) {
  for (size_t i = 0; i < tensor->form_count; i++)
    if (same_form(&tensor->forms[i], form)) return true;
  struct run_form *forms = realloc(tensor->forms, (tensor->form_count + 1) * sizeof *forms);
  if (!forms) return false;
  tensor->forms = forms;
  forms[tensor->form_count++] = *form;
  if (form->op == RSP_OP_ADD) { // values are drawn in a form that adds, if there is one
    forms[tensor->form_count - 1] = forms[0];
    forms[0] = *form;
  }
  return true;
}

// Calls `see` for each piece of each entry of each buffer that holds elements of a tensor.
static bool each_use(struct run_values *values, const struct rsp_plan *plan,
                     bool (*see)(struct run_tensor *, const struct rsp_plan *, const struct rsp_buffer *,
                                 const struct rsp_piece *)) {
  for (uint64_t i = 0; i < plan->buffer_count; i++) {
    const struct rsp_buffer *buffer = &plan->buffers[i];
    const struct rsp_class *klass = &plan->classes[buffer->klass];
    for (uint64_t e = 0; e < klass->entry_count; e++) {
      const struct rsp_entry *entry = &plan->entries[klass->entries + e];
      for (uint64_t p = 0; p < entry->piece_count; p++) {
        const struct rsp_piece *piece = &plan->pieces[entry->pieces + p];
        if (piece->slot >= RSP_SLOT_GAP) continue;
        uint32_t tensor = plan->slots[buffer->slots + piece->slot];
        if (!see(&values->tensors[tensor], plan, buffer, piece)) return false;
      }
    }
  }
  return true;
}

static bool see_conversion(struct run_tensor *tensor, const struct rsp_plan *plan, const struct rsp_buffer *buffer,
                           const struct rsp_piece *piece) {
  (void)plan;
  if (piece->op != RSP_OP_COPY || buffer->dtype != tensor->dtype) tensor->converted = true;
  return true;
}

static bool see_form(struct run_tensor *tensor, const struct rsp_plan *plan, const struct rsp_buffer *buffer,
                     const struct rsp_piece *piece) {
  (void)plan;
  if (!tensor->converted) return true;
  // exp(x) and x + c tell neighbours apart only where x is neither tiny nor huge.
  if (piece->op == RSP_OP_NEG_EXP) limit(tensor, 52, -2, 2);
  if (piece->op == RSP_OP_ADD) limit(tensor, 52, -2, 3);
  if (buffer->side != RSP_TRAIN) return true;
  struct run_float f = run_float_of(buffer->dtype);
  limit(tensor, f.mant, f.emin, f.emax);
  return add_form(tensor, &(struct run_form){buffer->dtype, piece->op, piece->constant});
}

static bool see_narrowest(struct run_tensor *tensor, const struct rsp_plan *plan, const struct rsp_buffer *buffer,
                          const struct rsp_piece *piece) {
  (void)plan;
  if (!tensor->converted) return true;
  int mant = run_float_of(buffer->dtype).mant;
  if (mant > tensor->mant) mant = tensor->mant;
  uint32_t told = (uint32_t)(piece->op == RSP_OP_COPY ? mant + 4 : mant + 1); // sign and exponent, roughly
  uint32_t replays = (31 + told) / told;
  if (replays > tensor->replays) tensor->replays = replays;
  return true;
}

static void start_tensor(struct run_tensor *tensor, const struct rsp_tensor *t, uint32_t index) {
  struct run_float f = run_float_of(t->dtype);
  uint32_t told = t->dtype == RSP_BOOL ? 1 : (uint32_t)rsp_dtype_bytes(t->dtype) * 8;
  *tensor = (struct run_tensor){.index = index, .dtype = t->dtype, .mant = f.mant, .emin = f.emin, .emax = f.emax};
  if (tensor->emin < -12) tensor->emin = -12;
  if (tensor->emax > 12) tensor->emax = 12;
  tensor->replays = told >= 32 ? 1 : (31 + told) / told;
  tensor->partial = (t->flags & RSP_TENSOR_SKIP_TRAIN) != 0;
}

// ---- what the training side supplies -------------------------------------------------------------------------------

static bool supply_row(void *user, const struct run_row *r) {
  uint64_t *supplied = user, t = r->t;
  for (uint64_t i = 0; i < r->count; i++, t += r->t_step) supplied[t / 64] |= UINT64_C(1) << t % 64;
  return true;
}

static bool see_supply(struct run_tensor *tensor, const struct rsp_plan *plan, const struct rsp_buffer *buffer,
                       const struct rsp_piece *piece) {
  if (!tensor->partial || buffer->side != RSP_TRAIN) return true;
  if (!tensor->supplied) tensor->supplied = calloc(plan->tensors[tensor->index].elems / 64 + 1, sizeof(uint64_t));
  if (!tensor->supplied) return false;
  return run_walk(plan, piece, 0, 1, supply_row, tensor->supplied);
}

bool run_values_init(struct run_values *values, const struct rsp_plan *plan) {
  *values = (struct run_values){.count = plan->tensor_count, .replays = 2};
  values->tensors = calloc(plan->tensor_count ? plan->tensor_count : 1, sizeof *values->tensors);
  if (!values->tensors) return false;
  for (uint64_t i = 0; i < plan->tensor_count; i++) start_tensor(&values->tensors[i], &plan->tensors[i], (uint32_t)i);
  if (!each_use(values, plan, see_conversion) || !each_use(values, plan, see_form)) return false;
  for (uint64_t i = 0; i < plan->tensor_count; i++) {
    struct run_tensor *tensor = &values->tensors[i];
    struct run_form own = {tensor->dtype, RSP_OP_COPY, 0};
    if (tensor->converted && !tensor->form_count && !add_form(tensor, &own)) return false;
  }
  if (!each_use(values, plan, see_narrowest) || !each_use(values, plan, see_supply)) return false;
  for (uint64_t i = 0; i < plan->tensor_count; i++)
    if (values->tensors[i].replays > values->replays) values->replays = values->tensors[i].replays;
  return true;
}

void run_values_free(struct run_values *values) {
  for (uint64_t i = 0; values->tensors && i < values->count; i++) {
    free(values->tensors[i].forms);
    free(values->tensors[i].supplied);
  }
  free(values->tensors);
  values->tensors = NULL;
}
