# SPDX-License-Identifier: Apache-2.0
"""Catalogues of plans/library: read, with other constants if wanted, and random weights for their tensors."""
import re

import numpy as np
import yaml

SIZES = {"bf16": 2, "f32": 4}
GAP = 0xEEEE  # in the place of padding; no weight in BF16 has these bits


def whole(text, names):
    return eval(str(text).replace("/", "//"), {}, names)  # our own catalogues: sums and products


def values(loop, names):
    if isinstance(loop, list):
        return loop
    if ".." in loop:
        low, high = loop.split("..")
        return range(whole(low, names), whole(high, names))
    return names[loop]


def tensors(catalogue):
    """{name: (dtype, shape)} in the order of the catalogue."""
    out = {}

    def expand(entry, loops, names):
        if loops:
            for value in values(loops[0][1], names):
                expand(entry, loops[1:], names | {loops[0][0]: value})
            return
        name = re.sub(r"\{(.*?)\}", lambda m: str(whole(m[1], names)), entry["name"])
        assert name not in out, name
        out[name] = entry.get("dtype", catalogue["dtype"]), [whole(d, names) for d in entry["shape"]]

    for entry in catalogue["tensors"]:
        expand(entry, list(entry.get("for", {}).items()), catalogue["constants"])
    return out


def read(path, constants=None):
    catalogue = yaml.safe_load(path.read_text())
    unknown = set(constants or {}) - set(catalogue["constants"])
    assert not unknown, unknown
    catalogue["constants"] |= constants or {}
    return catalogue


def tame(bits):
    """Finite floats that BF16 can hold."""
    return np.where(bits & 0x7F80 == 0x7F80, bits & 0x807F | 0x3F80, bits).astype("<u2")


def weights(shapes, coarse, near_one, seed):
    """Random bits for each tensor: u16 for bf16, u32 for f32. `coarse`: f32 tensors that training holds in BF16."""
    rng, out = np.random.default_rng(seed), {}
    for name, (dtype, shape) in shapes.items():
        bits = rng.integers(1, GAP, shape).astype("<u2")
        if near_one(name):
            bits = bf16(rng.integers(32, 96, shape).astype("f4") / 64)
        if dtype == "f32":
            low = np.zeros(shape, "<u4") if coarse(name) else rng.integers(1, 1 << 16, shape).astype("<u4")
            bits = tame(bits).astype("<u4") << 16 | low
        out[name] = bits
    return out


def bf16(numbers):
    """f32 numbers that BF16 can hold, as its bits."""
    bits = numbers.astype("<f4").view("<u4")
    assert not (bits & 0xFFFF).any()
    return (bits >> 16).astype("<u2")


def f32(bits):
    return (bits.astype("<u4") << 16).view("<f4")


