# SPDX-License-Identifier: Apache-2.0
"""Bits <-> numbers of every float dtype, with one rounding to nearest even.  Arrays of unsigned bits in and out."""
import numpy as np
from syntax import DTYPES

BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
SAFETENSORS = {'bool': 'BOOL', 'u8': 'U8', 'i8': 'I8', 'u16': 'U16', 'i16': 'I16', 'u32': 'U32', 'i32': 'I32',
               'u64': 'U64', 'i64': 'I64', 'f16': 'F16', 'bf16': 'BF16', 'f32': 'F32', 'f64': 'F64',
               'f8e4m3': 'F8_E4M3', 'f8e5m2': 'F8_E5M2'}


def bits_type(dtype):
    return BITS[DTYPES[dtype]]


def e4m3(b):
    """OCP e4m3: no infinities, one NaN per sign, bias 7."""
    s, e, m = (-1.0 if b >> 7 else 1.0), b >> 3 & 15, b & 7
    if e == 15 and m == 7:
        return float('nan')
    return s * (m / 8 * 2.0**-6 if e == 0 else (1 + m / 8) * 2.0**(e - 7))


E4M3 = np.array([e4m3(b) for b in range(256)], dtype=np.float64)


def to_f64(bits, dtype):
    """Exact for every float dtype."""
    with np.errstate(all='ignore'):
        if dtype == 'f64':
            return bits.view(np.float64)
        if dtype == 'f32':
            return bits.view(np.float32).astype(np.float64)
        if dtype == 'f16':
            return bits.view(np.float16).astype(np.float64)
        if dtype == 'bf16':
            return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        if dtype == 'f8e4m3':
            return E4M3[bits]
        if dtype == 'f8e5m2':
            return (bits.astype(np.uint16) << 8).view(np.float16).astype(np.float64)
    raise ValueError(dtype)


def odd_f32(x):
    """f64 -> f32 rounded to odd: a second rounding to fewer bits is then as good as one."""
    with np.errstate(all='ignore'):
        y = x.astype(np.float32)
        back = y.astype(np.float64)
        y = np.where(np.abs(back) > np.abs(x), np.nextafter(y, np.float32(0)), y)
        inexact = (y.astype(np.float64) != x) & ~np.isnan(x)
    u = y.view(np.uint32)
    return np.where(inexact, u | np.uint32(1), u).astype(np.uint32)


def from_f64(x, dtype):
    """One rounding to nearest even; overflow is infinity, NaN is NaN."""
    x = np.ascontiguousarray(x, dtype=np.float64)
    with np.errstate(all='ignore'):
        if dtype == 'f64':
            return x.view(np.uint64)
        if dtype == 'f32':
            return x.astype(np.float32).view(np.uint32)
        if dtype == 'f16':
            return x.astype(np.float16).view(np.uint16)
    if dtype == 'bf16':
        u = odd_f32(x)
        r = ((u.astype(np.uint64) + 0x7fff + (u >> 16 & 1)) >> 16).astype(np.uint16)
        return np.where(np.isnan(x), np.uint16(0x7fc0), r).astype(np.uint16)
    raise ValueError(dtype)


def convert(bits, src, dst):
    return bits if src == dst else from_f64(to_f64(bits, src), dst)


def is_nan(bits, dtype):
    return np.isnan(to_f64(bits, dtype))


def apply(bits, src, dst, op, inverse=False):
    """The list of acceptable results: more than one for exp, whose last bit is the library's own."""
    if op is None:
        return [convert(bits, src, dst)]
    with np.errstate(all='ignore'):
        x = to_f64(bits, src).astype(np.float32)
        if op[0] == 'add':
            c = np.float32(op[1])
            y = x - c if inverse else x + c
            return [from_f64(y.astype(np.float64), dst)]
        y = (-np.exp(x.astype(np.float64))).astype(np.float32)
        out, up, down = [y], y, y
        for _ in range(2):
            up, down = np.nextafter(up, np.float32(np.inf)), np.nextafter(down, np.float32(-np.inf))
            out += [up, down]
    return [from_f64(v.astype(np.float64), dst) for v in out]


def same(a, b, dtype):
    """Bit equality; any NaN stands for any NaN where a conversion happened."""
    eq = a == b
    if dtype in ('f16', 'bf16', 'f32', 'f64', 'f8e4m3', 'f8e5m2'):
        eq |= is_nan(a, dtype) & is_nan(b, dtype)
    return eq
