/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops; included by isa_*.c, each with its own compiler options. In: RSK_SUFFIX, the name of the set.
 * Vectors come from the compiler where plain loops do, and from intrinsics for stores past the caches.
 */
#include "kernels/bits.h"
#include "kernels/isa.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define VEC __m512i
#define VLOAD(p) _mm512_loadu_si512((const void *)(p))
#define VSTREAM(p, v) _mm512_stream_si512((void *)(p), v)
#elif defined(__AVX2__)
#define VEC __m256i
#define VLOAD(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define VSTREAM(p, v) _mm256_stream_si256((__m256i *)(void *)(p), v)
#elif defined(__SSE2__)
#define VEC __m128i
#define VLOAD(p) _mm_loadu_si128((const __m128i *)(const void *)(p))
#define VSTREAM(p, v) _mm_stream_si128((__m128i *)(void *)(p), v)
#endif

#define LINE 64u

static inline uint64_t to_line(const unsigned char *p) {
  return (LINE - ((uintptr_t)p & (LINE - 1))) & (LINE - 1);
}

#ifdef VEC
/* One whole, aligned line. */
static inline void stream_line(unsigned char *dst, const unsigned char *src) {
  for (unsigned i = 0; i < LINE; i += (unsigned)sizeof(VEC)) VSTREAM(dst + i, VLOAD(src + i));
}

static inline void stream_lines(unsigned char *dst, const unsigned char *src, uint64_t lines) {
  for (; lines >= 4; lines -= 4, dst += 4 * LINE, src += 4 * LINE) {
    stream_line(dst, src);
    stream_line(dst + LINE, src + LINE);
    stream_line(dst + 2 * LINE, src + 2 * LINE);
    stream_line(dst + 3 * LINE, src + 3 * LINE);
  }
  for (; lines > 0; lines--, dst += LINE, src += LINE) stream_line(dst, src);
}

static void stream(unsigned char *dst, const unsigned char *src, uint64_t bytes) {
  uint64_t head = to_line(dst);
  if (head >= bytes) {
    memcpy(dst, src, bytes);
    return;
  }
  memcpy(dst, src, head);
  stream_lines(dst + head, src + head, (bytes - head) / LINE);
  uint64_t tail = (bytes - head) % LINE;
  memcpy(dst + bytes - tail, src + bytes - tail, tail);
}

static void fence(void) {
  _mm_sfence();
}
#else
static void stream(unsigned char *dst, const unsigned char *src, uint64_t bytes) {
  memcpy(dst, src, bytes);
}
static void fence(void) {}
#endif

#define ROWS_OF(N)                                                                                                     \
  case N:                                                                                                              \
    for (uint64_t k = 0; k < count; k++, dst += dst_step, src += src_step) memcpy(dst, src, N);                        \
    return;

/* Runs of 17 to 128 bytes as two or more moves that may overlap: no loop over the rest. */
static inline void short_run(unsigned char *dst, const unsigned char *src, uint64_t run) {
  if (run <= 32) {
    unsigned char a[16], b[16];
    memcpy(a, src, 16);
    memcpy(b, src + run - 16, 16);
    memcpy(dst, a, 16);
    memcpy(dst + run - 16, b, 16);
  } else if (run <= 64) {
    unsigned char a[32], b[32];
    memcpy(a, src, 32);
    memcpy(b, src + run - 32, 32);
    memcpy(dst, a, 32);
    memcpy(dst + run - 32, b, 32);
  } else {
    unsigned char a[64], b[64];
    memcpy(a, src, 64);
    memcpy(b, src + run - 64, 64);
    memcpy(dst, a, 64);
    memcpy(dst + run - 64, b, 64);
  }
}

static void rows(unsigned char *dst, const unsigned char *src, uint64_t count, int64_t dst_step, int64_t src_step,
                 uint64_t run) {
  switch (run) {
    ROWS_OF(1)
    ROWS_OF(2)
    ROWS_OF(4)
    ROWS_OF(6)
    ROWS_OF(8)
    ROWS_OF(12)
    ROWS_OF(16)
    ROWS_OF(32)
    ROWS_OF(64)
    ROWS_OF(128)
    ROWS_OF(256)
  default:
    break;
  }
  if (run > 16 && run <= 128) {
    for (uint64_t k = 0; k < count; k++, dst += dst_step, src += src_step) short_run(dst, src, run);
  } else {
    for (uint64_t k = 0; k < count; k++, dst += dst_step, src += src_step) memcpy(dst, src, run);
  }
}

#ifdef VEC
/* Rows ahead of which the source is asked for: where rows are far apart the processor does not see the pattern. */
#define AHEAD 16u
#define LINE_VECS (LINE / sizeof(VEC))

static inline void ask_row(const unsigned char *src, int64_t src_step, uint64_t lines) {
  uintptr_t at = (uintptr_t)src + AHEAD * (uintptr_t)src_step; /* may lie past the end: nothing is read */
  for (uint64_t i = 0; i < lines; i++) __builtin_prefetch((const void *)(at + i * LINE), 0, 3);
}

/* `group` rows are read before the first is written: loads and stores past the caches wait for each other less. */
static inline void stream_rows_of(unsigned char *dst, const unsigned char *src, uint64_t count, int64_t dst_step,
                                  int64_t src_step, uint64_t lines, uint64_t group) {
  uint64_t vecs = lines * LINE_VECS;
  for (; count >= group; count -= group, dst += (int64_t)group * dst_step, src += (int64_t)group * src_step) {
    VEC v[8 * LINE_VECS];
    for (uint64_t k = 0; k < group; k++) {
      const unsigned char *row = src + (int64_t)k * src_step;
      ask_row(row, src_step, lines);
      for (uint64_t i = 0; i < vecs; i++) v[k * vecs + i] = VLOAD(row + i * sizeof(VEC));
    }
    for (uint64_t k = 0; k < group; k++) {
      unsigned char *row = dst + (int64_t)k * dst_step;
      for (uint64_t i = 0; i < vecs; i++) VSTREAM(row + i * sizeof(VEC), v[k * vecs + i]);
    }
  }
  for (; count > 0; count--, dst += dst_step, src += src_step) {
    for (uint64_t i = 0; i < lines; i++) stream_line(dst + i * LINE, src + i * LINE);
  }
}
#endif

static void rows_stream(unsigned char *dst, const unsigned char *src, uint64_t count, int64_t dst_step,
                        int64_t src_step, uint64_t run) {
#ifdef VEC
  if (run % LINE == 0 && (((uintptr_t)dst | (uint64_t)dst_step) & (LINE - 1)) == 0) {
    switch (run / LINE) {
    case 1:
      stream_rows_of(dst, src, count, dst_step, src_step, 1, 4);
      return;
    case 2:
      stream_rows_of(dst, src, count, dst_step, src_step, 2, 4);
      return;
    case 4:
      stream_rows_of(dst, src, count, dst_step, src_step, 4, 2);
      return;
    default:
      break;
    }
  }
#endif
  for (uint64_t k = 0; k < count; k++, dst += dst_step, src += src_step) stream(dst, src, run);
}

/* `MAKE` turns the `T` in memory into the float; the first loop is the one that becomes vector code. */
#define LOADER(NAME, T, MAKE)                                                                                          \
  static void NAME(float *out, const unsigned char *src, uint64_t count, int64_t step) {                               \
    if (step == (int64_t)sizeof(T)) {                                                                                  \
      for (uint64_t i = 0; i < count; i++) {                                                                           \
        T x;                                                                                                           \
        memcpy(&x, src + i * sizeof(T), sizeof(T));                                                                    \
        out[i] = MAKE(x);                                                                                              \
      }                                                                                                                \
      return;                                                                                                          \
    }                                                                                                                  \
    for (uint64_t i = 0; i < count; i++, src += step) {                                                                \
      T x;                                                                                                             \
      memcpy(&x, src, sizeof(T));                                                                                      \
      out[i] = MAKE(x);                                                                                                \
    }                                                                                                                  \
  }

#define STORER(NAME, T, MAKE)                                                                                          \
  static void NAME(unsigned char *dst, const float *in, uint64_t count, int64_t step) {                                \
    if (step == (int64_t)sizeof(T)) {                                                                                  \
      for (uint64_t i = 0; i < count; i++) {                                                                           \
        T x = MAKE(in[i]);                                                                                             \
        memcpy(dst + i * sizeof(T), &x, sizeof(T));                                                                    \
      }                                                                                                                \
      return;                                                                                                          \
    }                                                                                                                  \
    for (uint64_t i = 0; i < count; i++, dst += step) {                                                                \
      T x = MAKE(in[i]);                                                                                               \
      memcpy(dst, &x, sizeof(T));                                                                                      \
    }                                                                                                                  \
  }

#define FROM_F64(NAME, T, MAKE)                                                                                        \
  static void NAME(unsigned char *dst, const unsigned char *src, uint64_t count, int64_t dst_step, int64_t src_step) { \
    for (uint64_t i = 0; i < count; i++, dst += dst_step, src += src_step) {                                           \
      double x;                                                                                                        \
      memcpy(&x, src, 8);                                                                                              \
      T y = MAKE(x);                                                                                                   \
      memcpy(dst, &y, sizeof(T));                                                                                      \
    }                                                                                                                  \
  }

#define F64_TO_F16(x) rsk_to_f16(rsk_odd_from_f64(x))
#define F64_TO_BF16(x) rsk_to_bf16(rsk_odd_from_f64(x))
#define AS_IT_IS(x) (x)
#define AS_F32(x) ((float)(x))
#define AS_F64(x) ((double)(x))

LOADER(load_f16, uint16_t, rsk_from_f16)
LOADER(load_bf16, uint16_t, rsk_from_bf16)
LOADER(load_f32, float, AS_IT_IS)
LOADER(load_f8e4m3, uint8_t, rsk_from_f8e4m3)
LOADER(load_f8e5m2, uint8_t, rsk_from_f8e5m2)
STORER(store_f16, uint16_t, rsk_to_f16)
STORER(store_bf16, uint16_t, rsk_to_bf16)
STORER(store_f32, float, AS_IT_IS)
STORER(store_f64, double, AS_F64)
FROM_F64(f16_from_f64, uint16_t, F64_TO_F16)
FROM_F64(bf16_from_f64, uint16_t, F64_TO_BF16)
FROM_F64(f32_from_f64, float, AS_F32)

#define GLUE2(a, b) a##b
#define GLUE(a, b) GLUE2(a, b)
#define TEXT2(a) #a
#define TEXT(a) TEXT2(a)

const struct rsk_isa GLUE(rsk_isa_, RSK_SUFFIX) = {
    .name = TEXT(RSK_SUFFIX),
    .stream = stream,
    .rows = rows,
    .rows_stream = rows_stream,
    .load = {load_f16, load_bf16, load_f32, NULL, load_f8e4m3, load_f8e5m2},
    .store = {store_f16, store_bf16, store_f32, store_f64},
    .from_f64 = {f16_from_f64, bf16_from_f64, f32_from_f64, NULL},
    .fence = fence,
};
