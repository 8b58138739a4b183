# SPDX-License-Identifier: Apache-2.0
"""What FSDP, ZeRO and Megatron-FSDP hold on each rank, in numpy: torch.chunk, FlatParameter, the distributed
optimizer's _compute_per_buffer_param_layout, Megatron-FSDP's _get_parameter_groups and
build_data_parallel_buffer_index, DeepSpeed's partition of a parameter. Nothing here reads a layout.

A function takes {name: array} in the order of the module's parameters, and a way; it gives {buffer: array} per rank.
"""
import math
import re

import numpy as np

from catalogue import GAP


def chunk(array, count, index, axis=0):
    """torch.chunk, with empty parts for the ranks that it leaves out."""
    size = -(-array.shape[axis] // count)
    length = array.shape[axis]
    return np.take(array, range(min(index * size, length), min((index + 1) * size, length)), axis)


def spread(way, held):
    """held(dp) for each rank; replicas are the slower axis."""
    return [held(rank % way["DP"]) for rank in range(way["DP"] * way["REPLICAS"])]


def fsdp2(w, way):
    wide = (lambda a: a.astype("<u4") << 16) if way.get("FP32") else (lambda a: a)
    return spread(way, lambda dp: {n: wide(chunk(a, way["DP"], dp)) for n, a in w.items()})


def fsdp2_tp(w, way):
    """parallelize_module, then fully_shard of what it left: FSDP cuts the local tensor."""
    column = ("embed_tokens", "lm_head", "q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
    plan = dict.fromkeys(column, 0) | {"o_proj": 1, "down_proj": 1}

    def held(dp, tp):
        out = {}
        for n, a in w.items():
            axis = plan.get(n.split(".")[-2])
            local = a if axis is None else chunk(a, way["TP"], tp, axis)
            out[n] = chunk(local, way["DP"], dp)
        return out

    return [held(r // way["TP"], r % way["TP"]) for r in range(way["DP"] * way["TP"])]


def fsdp2_ep(w, way):
    """Experts stacked; expert parallelism cuts the stack (ep is the faster axis), FSDP what a rank has of it."""
    stacks, rest = {}, {}
    for n, a in w.items():
        found = re.match(r"(.*\.experts)\.(\d+)\.(\w+)_proj", n)
        if found:
            stacks.setdefault(found[1], {}).setdefault(found[3], []).append(a)
        else:
            rest[n] = a

    def held(rank):
        out = {n: chunk(a, way["DP"], rank) for n, a in rest.items()}
        for n, kinds in stacks.items():
            gate_up = np.concatenate([np.stack(kinds["gate"]), np.stack(kinds["up"])], 1)
            for name, a in (("gate_up_proj", gate_up), ("down_proj", np.stack(kinds["down"]))):
                mine = np.split(a, way["EP"])[rank % way["EP"]]
                out[f"{n}.{name}"] = chunk(mine, way["DP"] // way["EP"], rank // way["EP"], way["DIM"])
        return out

    return [held(r) for r in range(way["DP"])]


def zero3(w, way):
    def part(array, dp):
        size = math.ceil(array.size / way["DP"])
        flat = np.full(size * way["DP"], GAP, array.dtype)
        flat[: array.size] = array.reshape(-1)
        return flat[dp * size : (dp + 1) * size]

    return spread(way, lambda dp: {n: part(a, dp) for n, a in w.items()})


def even(buffers, way):
    return spread(way, lambda dp: {n: np.split(a, way["DP"])[dp] for n, a in buffers.items()})


def fill(size, pieces):
    """pieces: (offset, array)."""
    out = np.full(size, GAP, "<u2")
    free = np.ones(size, bool)
    for offset, array in pieces:
        assert free[offset : offset + array.size].all()
        free[offset : offset + array.size] = False
        out[offset : offset + array.size] = array.reshape(-1)
    return out


def units(w):
    """[(layer or None, its parameters)] for a wrap of every decoder layer."""
    out = {}
    for n in w:
        found = re.match(r"model\.layers\.(\d+)\.", n)
        out.setdefault(int(found[1]) if found else None, []).append(n)
    return out


def fsdp1(w, way):
    buffers = {}
    for layer, names in units(w).items():
        flat = np.concatenate([w[n].reshape(-1) for n in names])
        size = math.ceil(flat.size / way["DP"]) * way["DP"]  # the last chunk is padded to the length of the first
        buffers["_flat_param" if layer is None else f"model.layers.{layer}._flat_param"] = fill(size, [(0, flat)])
    return even(buffers, way)


def bucket(w, shares):
    """_compute_per_buffer_param_layout with one bucket."""
    at, pieces = 0, []
    for n in reversed(w):
        at = math.ceil(at / 64) * 64
        pieces.append((at, w[n]))
        at += w[n].size
    end = math.lcm(shares, 128)
    return fill(math.ceil(at / end) * end, pieces)


def zero1(w, way):
    return even({"bucket0": bucket(w, way["DP"])}, way)


def grouped(w, names):
    """One bucket's parameters by the length of their rows, and the grid that suits them all."""
    def row(n):
        return math.prod(w[n].shape[1:])

    names = sorted(names, key=row, reverse=True)
    factor = row(names[0])
    for n in names:
        fits = row(n) == factor or (factor % row(n) == 0 and w[n].size % factor == 0) or w[n].size < factor
        factor = factor if fits else math.lcm(factor, row(n))
    return names, factor


def placed(w, names, factor):
    """Where each parameter begins: on the grid; two that do not fill it share a cell; small ones go between."""
    big, small = [n for n in names if w[n].size >= factor], [n for n in names if w[n].size < factor]
    out, at = {}, 0
    while big:
        n = big.pop(0)
        out[n] = at
        left = w[n].size % factor
        if not left:
            at += w[n].size
            continue
        free_at = at + w[n].size
        at += w[n].size - left + factor
        space = factor - left
        mate = next((m for m in big if w[m].size % factor and left + w[m].size % factor <= factor), None)
        if mate:
            big.remove(mate)
            out[mate] = at - w[mate].size % factor
            space -= w[mate].size % factor
            at += w[mate].size - w[mate].size % factor
        for m in list(small):
            if w[m].size <= space:
                out[m], free_at, space = free_at, free_at + w[m].size, space - w[m].size
                small.remove(m)
    for m in small:
        out[m], at = at, at + w[m].size
    return out, at


def megatron_fsdp(w, way):
    groups = {f"layers.{layer}": names for layer, names in units(w).items() if layer is not None}
    groups |= {"embed_tokens": ["model.embed_tokens.weight"], "lm_head": ["model.norm.weight", "lm_head.weight"]}
    buffers = {}
    for buffer, names in groups.items():
        names, factor = grouped(w, names)
        where, end = placed(w, names, factor)
        unit = way["DP"] * factor
        buffers[buffer] = fill(math.ceil(end / unit) * unit, [(where[n], w[n]) for n in names])
    return even(buffers, way)
