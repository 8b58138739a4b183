/* SPDX-License-Identifier: Apache-2.0
 *
 * The device's side of batch.h: warps take tiles in turns. In: an image and a launch of it; out: bytes moved. What is
 * read here is written by nobody meanwhile. A warp finds its tile's part, task and place once; then each lane moves
 * every 32nd unit, several of them in flight, so that neighbours touch neighbouring units at the end where the
 * innermost axis is dense, however short the runs are.
 *
 * Compiled with -fmad=false: conversions give the host's bits. Loads of whole words of 16 bytes leave no copy in the
 * first cache; stores use the second one as usual, since what is packed is read at once by the network.
 */
#include "kernels/batch.h"
#include "kernels/element.h"
#include "kernels/hash.h"

#define WARP 32u
#define ALL_LANES 0xffffffffu
#define WARPS (RSK_BLOCK_THREADS / WARP)
#define CAST_FLIGHT 4u     /* four elements each */
#define SQUARE_BYTES 4352u /* the largest with its padding: 16 rows of 16 elements of 16 bytes and 16 bytes more */

__device__ const double roots[] = RSK_ROOTS;

/* An axis with its digit. */
struct near_axis {
  uint64_t dst_step, src_step;
  uint32_t magic, digit;
};

/* A warp's tile, in shared memory: registers are what there is too few of. */
struct tile {
  struct near_axis near[2];
  struct rsk_place place;
  uint64_t first; /* unit */
  const struct rsk_task *task;
  const struct rsk_axis *axes; /* past the near ones */
  uint32_t far_count, units;
  uint32_t unit, kind;
  rsk_digit digits[RSK_LOOPS + 1];
};

struct warp_room {
  alignas(16) unsigned char square[SQUARE_BYTES];
  struct tile tile;
};

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* rsk_find_start with all lanes: 32 starts are compared at once. */
static __device__ __forceinline__ uint64_t find_start(const uint64_t *starts, uint64_t count, uint64_t number,
                                                      uint32_t lane) {
  uint64_t lo = 0;
  while (count > 1) {
    uint64_t part = (count + WARP - 1) / WARP, i = lane * part;
    uint32_t at_or_before = __popc(__ballot_sync(ALL_LANES, i < count && starts[lo + i] <= number));
    uint64_t skip = (at_or_before - 1) * part;
    lo += skip;
    count = count - skip < part ? count - skip : part;
  }
  return lo;
}

/* One turn of the loop in rsk_unit_place. */
static __device__ __forceinline__ uint32_t carry_over(const struct near_axis &axis, struct rsk_place &place,
                                                      uint32_t carry) {
  place.dst += carry * axis.dst_step;
  place.src += carry * axis.src_step;
  return axis.magic ? rsk_high32(axis.digit + carry, axis.magic) : carry >= axis.digit;
}

/* rsk_unit_place with the first two axes at hand. */
static __device__ __forceinline__ struct rsk_place place_of(const struct tile &tile, uint32_t unit) {
  struct rsk_place place = tile.place;
  uint32_t carry = carry_over(tile.near[0], place, unit);
  if (carry > 0) carry = carry_over(tile.near[1], place, carry);
  if (carry > 0) place = rsk_unit_place(place, tile.axes, tile.far_count, tile.digits + 2, carry);
  return place;
}

/* Registers again: what the turn adds waits in shared memory, behind a barrier to the compiler. */
static __device__ __forceinline__ void place_first(struct tile &tile, const struct rsk_task *task,
                                                   const struct rsk_axis *axes, const struct rsk_span &span) {
  tile.place = {span.dst, span.src};
  asm volatile("" ::: "memory");
  struct rsk_place place = rsk_tile_place(task, axes, tile.first, tile.digits);
  tile.place.dst += place.dst;
  tile.place.src += place.src;
}

/* Where a tile is numbered. */
struct number {
  const struct rsk_series *series;
  uint32_t turn;
  uint64_t first_tile, start, number; /* as rsk_tile_units has them */
};

/* The warp's first lane divides for all. */
static __device__ __forceinline__ void open_tile(struct tile &tile, const struct rsk_task *task,
                                                 const struct rsk_axis *axes, const struct number &at) {
  struct rsk_span span = rsk_turn_span(at.series, at.turn);
  struct rsk_units units = rsk_tile_units(task, rsk_units_in(task, &span), at.first_tile, at.start, at.number);
  uint32_t count = task->axis_count;
  tile.task = task;
  tile.axes = axes + 2;
  tile.far_count = count > 2 ? count - 2 : 0;
  tile.first = units.first;
  tile.units = (uint32_t)(units.end - units.first);
  tile.unit = task->unit;
  tile.kind = task->kind;
  place_first(tile, task, axes, span);
  for (uint32_t i = 0; i < 2; i++) {
    struct near_axis near = {0, 0, 0, UINT32_MAX};
    if (i < count) near = {(uint64_t)axes[i].dst_step, (uint64_t)axes[i].src_step, axes[i].magic, tile.digits[i]};
    tile.near[i] = near;
  }
}

static __device__ __forceinline__ uint32_t lane_of() {
  return threadIdx.x % WARP;
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

/* Words of up to 4 bytes, and of 8 and 16: one loop for each, since a loop for every width takes too many registers. */
struct narrow_word {
  uint32_t bits;
  enum { SIDE = 32, FLIGHT = 6 }; /* FLIGHT: loads of a lane that are under way at once */
  __device__ __forceinline__ void load(const void *from, uint32_t bytes) {
    if (bytes == 4) bits = __ldg((const uint32_t *)from);
    if (bytes == 2) bits = __ldg((const uint16_t *)from);
    if (bytes == 1) bits = __ldg((const uint8_t *)from);
  }
  __device__ __forceinline__ void take(const void *shared, uint32_t bytes) {
    if (bytes == 4) bits = *(const uint32_t *)shared;
    if (bytes == 2) bits = *(const uint16_t *)shared;
    if (bytes == 1) bits = *(const uint8_t *)shared;
  }
  __device__ __forceinline__ void store(void *to, uint32_t bytes) const {
    if (bytes == 4) *(uint32_t *)to = bits;
    if (bytes == 2) *(uint16_t *)to = (uint16_t)bits;
    if (bytes == 1) *(uint8_t *)to = (uint8_t)bits;
  }
};

struct wide_word {
  uint4 bits;
  enum { SIDE = 16, FLIGHT = 4 };
  __device__ __forceinline__ void low(uint2 half) {
    bits.x = half.x;
    bits.y = half.y;
  }
  __device__ __forceinline__ void load(const void *from, uint32_t bytes) {
    if (bytes == 16)
      bits = __ldcs((const uint4 *)from);
    else
      low(__ldcs((const uint2 *)from));
  }
  __device__ __forceinline__ void take(const void *shared, uint32_t bytes) {
    if (bytes == 16)
      bits = *(const uint4 *)shared;
    else
      low(*(const uint2 *)shared);
  }
  __device__ __forceinline__ void store(void *to, uint32_t bytes) const {
    if (bytes == 16)
      *(uint4 *)to = bits;
    else
      *(uint2 *)to = make_uint2(bits.x, bits.y);
  }
};

static __device__ __forceinline__ void *pointer(uint64_t address) {
  return (void *)(uintptr_t)address;
}

/* Copies, and zeros. All loads of a step are made before its first store. */
template <typename WORD> static __device__ __forceinline__ void copy_units(const struct tile &tile) {
  const uint32_t bytes = tile.unit;
  const bool reads = tile.kind == RSK_TASK_COPY;
#pragma unroll 1
  for (uint32_t first = lane_of(); first < tile.units; first += WARP * WORD::FLIGHT) {
    WORD words[WORD::FLIGHT] = {};
    uint64_t to[WORD::FLIGHT];
#pragma unroll
    for (uint32_t k = 0; k < WORD::FLIGHT; k++) {
      if (first + k * WARP >= tile.units) continue;
      struct rsk_place place = place_of(tile, first + k * WARP);
      to[k] = place.dst;
      if (reads) words[k].load(pointer(place.src), bytes);
    }
#pragma unroll
    for (uint32_t k = 0; k < WORD::FLIGHT; k++) {
      if (first + k * WARP < tile.units) words[k].store(pointer(to[k]), bytes);
    }
  }
}

/* The 16 bytes from byte `skew` of the first word on, skew from 1 to 15. */
static __device__ __forceinline__ uint4 across(const uint4 &first, const uint4 &second, uint32_t skew) {
  uint32_t words[8] = {first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w};
#pragma unroll
  for (uint32_t i = 0; i < 6; i++) words[i] = skew & 8 ? words[i + 2] : words[i];
#pragma unroll
  for (uint32_t i = 0; i < 5; i++) words[i] = skew & 4 ? words[i + 1] : words[i];
  const uint32_t bits = 8 * (skew & 3);
  return make_uint4(__funnelshift_r(words[0], words[1], bits), __funnelshift_r(words[1], words[2], bits),
                    __funnelshift_r(words[2], words[3], bits), __funnelshift_r(words[3], words[4], bits));
}

/* Whole words are read, also where only a part of one is of the nest: a word that has a byte of a buffer can be read.
 * The neighbour's second word is this lane's first. */
static __device__ __forceinline__ void shift_units(const struct tile &tile) {
  const uint32_t flight = 2;
#pragma unroll 1
  for (uint32_t first = lane_of(); first < tile.units; first += WARP * flight) {
    uint4 low[flight] = {}, high[flight] = {};
    uint64_t to[flight] = {};
    uint32_t skew = 0;
#pragma unroll
    for (uint32_t k = 0; k < flight; k++) {
      if (first + k * WARP >= tile.units) continue;
      struct rsk_place place = place_of(tile, first + k * WARP);
      skew = (uint32_t)place.src & 15; /* the task's: the same in all */
      to[k] = place.dst;
      low[k] = __ldg((const uint4 *)pointer(place.src - skew));
      high[k] = __ldg((const uint4 *)pointer(place.src - skew + 16));
    }
#pragma unroll
    for (uint32_t k = 0; k < flight; k++) {
      if (first + k * WARP < tile.units) *(uint4 *)pointer(to[k]) = across(low[k], high[k], skew);
    }
  }
}

/* ---- squares ----------------------------------------------------------------------------------------------------- */

/* Rows are read whole into shared memory and columns written whole from there; the padding keeps a column's elements in
 * different banks. */
template <typename WORD>
static __device__ __forceinline__ void turn_square(const struct tile &tile, const struct rsk_square &square,
                                                   unsigned char *room) {
  const uint32_t bytes = tile.unit, pitch = WORD::SIDE * bytes + (bytes > 4 ? bytes : 4), rows = WARP / WORD::SIDE;
  const uint32_t x = lane_of() % WORD::SIDE, y = lane_of() / WORD::SIDE;
  const uint64_t src = tile.place.src + x * bytes, dst = tile.place.dst + x * bytes;
#pragma unroll 1
  for (uint32_t first = y; first < square.along; first += rows * WORD::FLIGHT) {
    WORD words[WORD::FLIGHT] = {};
#pragma unroll
    for (uint32_t k = 0; k < WORD::FLIGHT; k++) {
      uint32_t i = first + k * rows;
      if (i < square.along && x < square.across)
        words[k].load(pointer(src + i * (uint64_t)tile.task->along_src_step), bytes);
    }
#pragma unroll
    for (uint32_t k = 0; k < WORD::FLIGHT; k++) {
      uint32_t i = first + k * rows;
      if (i < square.along && x < square.across) words[k].store(room + i * pitch + x * bytes, bytes);
    }
  }
  __syncwarp();
#pragma unroll 1
  for (uint32_t j = y; j < square.across; j += rows) {
    WORD word = {};
    if (x >= square.along) continue;
    word.take(room + x * pitch + j * bytes, bytes);
    word.store(pointer(dst + j * (uint64_t)tile.task->across_dst_step), bytes);
  }
}

/* ---- elements ---------------------------------------------------------------------------------------------------- */

/* Up to 16 bytes of elements of any form. */
union elements {
  uint4 all;
  uint2 half;
  uint64_t u64[2];
  uint32_t u32[4];
  uint16_t u16[8];
  uint8_t u8[16];
};

static __device__ __forceinline__ union elements load_elements(uint64_t address, uint32_t bytes) {
  union elements raw;
  raw.u64[0] = raw.u64[1] = 0;
  if (bytes == 16) raw.all = __ldcs((const uint4 *)pointer(address));
  if (bytes == 8) raw.half = __ldcs((const uint2 *)pointer(address));
  if (bytes == 4) raw.u32[0] = __ldg((const uint32_t *)pointer(address));
  if (bytes == 2) raw.u32[0] = __ldg((const uint16_t *)pointer(address));
  if (bytes == 1) raw.u32[0] = __ldg((const uint8_t *)pointer(address));
  return raw;
}

static __device__ __forceinline__ void store_elements(uint64_t address, const union elements &raw, uint32_t bytes) {
  if (bytes == 16) *(uint4 *)pointer(address) = raw.all;
  if (bytes == 8) *(uint2 *)pointer(address) = raw.half;
  if (bytes == 4) *(uint32_t *)pointer(address) = raw.u32[0];
  if (bytes == 2) *(uint16_t *)pointer(address) = raw.u16[0];
  if (bytes == 1) *(uint8_t *)pointer(address) = raw.u8[0];
}

template <uint32_t FORM> static __device__ __forceinline__ uint64_t element_of(const union elements &raw, uint32_t i) {
  return FORM == RSK_FORM_F64    ? raw.u64[i % 2]
         : FORM == RSK_FORM_F32  ? raw.u32[i % 4]
         : FORM <= RSK_FORM_BF16 ? raw.u16[i % 8]
                                 : raw.u8[i % 16];
}

/* Casts between these, where a unit is a whole word at its wider end: what large tensors need. A lane takes four
 * elements at a time. */
template <uint32_t FROM, uint32_t TO>
static __device__ __forceinline__ union elements cast_four(const union elements &raw) {
  union elements out;
#pragma unroll
  for (uint32_t i = 0; i < 4; i++) {
    uint64_t bits = rsk_pattern(TO, rsk_value(FROM, element_of<FROM>(raw, i), TO));
    if (TO == RSK_FORM_F32)
      out.u32[i] = (uint32_t)bits;
    else
      out.u16[i] = (uint16_t)bits;
  }
  return out;
}

#define CAST(FROM, TO)                                                                                                 \
  case RSK_FORM_##FROM * 4 + RSK_FORM_##TO:                                                                            \
    return cast_four<RSK_FORM_##FROM, RSK_FORM_##TO>(raw);

static __device__ __forceinline__ union elements cast(uint32_t from, uint32_t to, const union elements &raw) {
  switch (from * 4 + to) {
    CAST(F32, BF16)
    CAST(F32, F16)
    CAST(BF16, F32)
    CAST(F16, F32)
    CAST(BF16, F16)
    CAST(F16, BF16)
  default:
    return raw;
  }
}

static __device__ __forceinline__ void cast_units(const struct tile &tile) {
  const uint32_t from = tile.task->from, to = tile.task->to, four = tile.unit / 4;
  const uint32_t src_bytes = 4 * rsk_form_bytes(from), dst_bytes = 4 * rsk_form_bytes(to), count = tile.units * four;
#pragma unroll 1
  for (uint32_t first = lane_of(); first < count; first += WARP * CAST_FLIGHT) {
    union elements raw[CAST_FLIGHT];
    uint64_t dst[CAST_FLIGHT];
#pragma unroll
    for (uint32_t k = 0; k < CAST_FLIGHT; k++) {
      uint32_t at = first + k * WARP, part = at & (four - 1);
      if (at >= count) continue;
      struct rsk_place place = place_of(tile, at >> (four - 1)); /* four is 1 or 2 */
      dst[k] = place.dst + part * dst_bytes;
      raw[k] = load_elements(place.src + part * src_bytes, src_bytes);
    }
#pragma unroll
    for (uint32_t k = 0; k < CAST_FLIGHT; k++) {
      if (first + k * WARP < count) store_elements(dst[k], cast(from, to, raw[k]), dst_bytes);
    }
  }
}

/* Any conversions, element by element. */
static __device__ __forceinline__ void convert_units(const struct tile &tile) {
  const struct rsk_task &task = *tile.task;
  uint32_t src_bytes = rsk_form_bytes(task.from), dst_bytes = rsk_form_bytes(task.to);
#pragma unroll 1
  for (uint32_t unit = lane_of(); unit < tile.units; unit += WARP) {
    struct rsk_place place = place_of(tile, unit);
#pragma unroll 1
    for (uint32_t i = 0; i < task.unit; i++, place.src += src_bytes, place.dst += dst_bytes) {
      uint64_t bits = 0;
      uint32_t step = task.loose ? 1 : src_bytes;
#pragma unroll 1
      for (uint32_t at = 0; at < src_bytes; at += step) {
        union elements raw = load_elements(place.src + at, step);
        bits |= raw.u64[0] << (8 * at);
      }
      bits = rsk_element(&task, bits, roots);
      union elements out;
      out.u64[0] = bits;
      if (!task.loose) store_elements(place.dst, out, dst_bytes);
#pragma unroll 1
      for (uint32_t at = 0; task.loose && at < dst_bytes; at++)
        *(uint8_t *)pointer(place.dst + at) = (uint8_t)(bits >> (8 * at));
    }
  }
}

static __device__ __forceinline__ void convert_tile(const struct tile &tile) {
  const struct rsk_task *task = tile.task;
  bool is_cast = task->between == RSK_NO_FORM && task->op[0] == RSK_OP_COPY && task->from != task->to &&
                 task->from <= RSK_FORM_F32 && task->to <= RSK_FORM_F32;
  uint32_t bytes = rsk_form_bytes(task->from), dst_bytes = rsk_form_bytes(task->to);
  if (is_cast && tile.unit * (bytes > dst_bytes ? bytes : dst_bytes) == 16)
    cast_units(tile);
  else
    convert_units(tile);
}

/* ---- hashes ------------------------------------------------------------------------------------------------------ */

/* Up to 8 bytes from an address that is a multiple of `step`, zeros after them. */
static __device__ __forceinline__ uint64_t load_word(uint64_t address, uint64_t bytes, uint32_t step) {
  if (step == 8 && bytes >= 8) return __ldg((const uint64_t *)pointer(address));
  uint64_t word = 0;
  uint32_t at = 0, count = bytes < 8 ? (uint32_t)bytes : 8;
  if (step > 4) step = 4;
#pragma unroll 1
  for (; at + step <= count; at += step) word |= load_elements(address + at, step).u64[0] << (8 * at);
#pragma unroll 1
  for (; at < count; at++) word |= load_elements(address + at, 1).u64[0] << (8 * at);
  return word;
}

/* A piece by a warp. */
static __device__ __forceinline__ void hash_piece(const struct tile &tile, uint64_t bytes) {
  uint64_t sum = 0;
#pragma unroll 4
  for (uint64_t i = lane_of(); 8 * i < bytes; i += WARP)
    sum += rsk_hash_word(load_word(tile.place.src + 8 * i, bytes - 8 * i, tile.unit), i);
#pragma unroll
  for (uint32_t other = WARP / 2; other > 0; other /= 2) sum += __shfl_xor_sync(ALL_LANES, sum, other);
  if (lane_of() == 0) *(uint64_t *)pointer(tile.place.dst) = sum;
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

template <typename WORD>
static __device__ __forceinline__ void move_tile(const struct tile &tile, unsigned char *room) {
  if (tile.kind == RSK_TASK_TURN)
    turn_square<WORD>(tile, rsk_turn_square(tile.task, tile.axes - 2, tile.first), room);
  else
    copy_units<WORD>(tile);
}

/* From the number of a tile in its launch to its part, from there to its task. */
static __device__ __forceinline__ void find_tile(const unsigned char *image, const struct rsk_launch &launch,
                                                 uint64_t at, struct tile &tile) {
  const uint64_t *part_starts = (const uint64_t *)(image + launch.starts_off);
  uint64_t row = find_start(part_starts, launch.part_count, at, lane_of());
  const struct rsk_part part = ((const struct rsk_part *)(image + launch.parts_off))[row];
  const struct rsk_series *series = (const struct rsk_series *)(image + (uint64_t)part.series * RSK_SERIES_BYTES);
  const uint64_t *starts = (const uint64_t *)(image + series->starts_off);
  uint64_t number = part.first + (at - part_starts[row]);
  row = find_start(starts, series->task_count, number, lane_of());
  if (lane_of() != 0) return;
  const struct rsk_task *task = (const struct rsk_task *)(image + series->tasks_off) + row;
  const struct rsk_axis *axes = (const struct rsk_axis *)(image + series->axes_off) + task->axes;
  open_tile(tile, task, axes, {series, part.turn, part.first, starts[row], number});
}

template <uint32_t KERNEL>
static __device__ __forceinline__ void run_tiles(const unsigned char *image, const struct rsk_launch &launch,
                                                 struct warp_room *room) {
  uint64_t step = (uint64_t)gridDim.x * WARPS;
  for (uint64_t at = (uint64_t)blockIdx.x * WARPS + threadIdx.x / WARP; at < launch.tile_count; at += step) {
    find_tile(image, launch, at, room->tile);
    __syncwarp();
    const struct tile &tile = room->tile;
    if (KERNEL == RSK_KERNEL_HASH)
      hash_piece(tile, rsk_piece_bytes(tile.task, tile.axes - 2, tile.first));
    else if (KERNEL == RSK_KERNEL_CONVERT && tile.kind == RSK_TASK_CONVERT)
      convert_tile(tile);
    else if (tile.kind == RSK_TASK_SHIFT)
      shift_units(tile);
    else if (tile.unit <= 4)
      move_tile<narrow_word>(tile, room->square);
    else
      move_tile<wide_word>(tile, room->square);
    __syncwarp(); /* the room is free again */
  }
}

extern "C" __global__ void __launch_bounds__(RSK_BLOCK_THREADS, 4)
    rsk_batch_kernel(const unsigned char *image, struct rsk_launch launch) {
  __shared__ struct warp_room rooms[WARPS];
  run_tiles<RSK_KERNEL_COPY>(image, launch, &rooms[threadIdx.x / WARP]);
}

extern "C" __global__ void __launch_bounds__(RSK_BLOCK_THREADS, 2)
    rsk_batch_convert_kernel(const unsigned char *image, struct rsk_launch launch) {
  __shared__ struct warp_room rooms[WARPS];
  run_tiles<RSK_KERNEL_CONVERT>(image, launch, &rooms[threadIdx.x / WARP]);
}

extern "C" __global__ void __launch_bounds__(RSK_BLOCK_THREADS, 4)
    rsk_batch_hash_kernel(const unsigned char *image, struct rsk_launch launch) {
  __shared__ struct warp_room rooms[WARPS];
  run_tiles<RSK_KERNEL_HASH>(image, launch, &rooms[threadIdx.x / WARP]);
}
