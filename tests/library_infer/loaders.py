# SPDX-License-Identifier: Apache-2.0
"""The weight loaders of vLLM and SGLang, in numpy: each fills the parameter of one rank from the tensors of a
checkpoint, as their linear, embedding, Mamba and expert layers do. Nothing here reads a layout.
"""
import numpy as np


def bf16_of_f32(bits):
    """The bits of an f32, rounded to nearest even as BF16."""
    wide = bits.astype(np.uint64)
    return ((wide + 0x7FFF + (wide >> 16 & 1)) >> 16).astype("<u2")


def f32_of_bf16(bits):
    return bits.astype("<u4") << 16


def minus_exp(bits):
    return (-np.exp(bits.view("<f4").astype("f8"))).astype("<f4").view("<u4")


def divide(a, b):
    assert a % b == 0, (a, b)
    return a // b


def narrow(array, dim, begin, size):
    assert begin + size <= array.shape[dim]
    return np.take(array, range(begin, begin + size), dim)


def column(weight, rank, size):
    """ColumnParallelLinear; also sharded_weight_loader(0)."""
    rows = divide(len(weight), size)
    return narrow(weight, 0, rank * rows, rows)


def row(weight, rank, size):
    """RowParallelLinear."""
    columns = divide(weight.shape[1], size)
    return narrow(weight, 1, rank * columns, columns)


def merged(weights, output_sizes, rank, size):
    """MergedColumnParallelLinear: a tensor of the checkpoint may hold several of the outputs."""
    param = np.zeros((divide(sum(output_sizes), size), *weights[0].shape[1:]), weights[0].dtype)
    shards = iter(range(len(output_sizes)))
    for weight in weights:
        at = 0
        while at < len(weight):
            shard = next(shards)
            offset = divide(sum(output_sizes[:shard]), size)
            rows = divide(output_sizes[shard], size)
            param[offset : offset + rows] = narrow(weight, 0, at + rank * rows, rows)
            at += output_sizes[shard]
    assert next(shards, None) is None
    return param


def qkv(q, k, v, head, heads, kv_heads, rank, size):
    """QKVParallelLinear: with more ranks than kv heads, each is on several consecutive ranks."""
    own = divide(heads, size)
    own_kv, copies = (1, divide(size, kv_heads)) if size >= kv_heads else (divide(kv_heads, size), 1)
    param = np.zeros(((own + 2 * own_kv) * head, q.shape[1]), q.dtype)
    for weight, offset, rows, index in (
        (q, 0, own * head, rank),
        (k, own * head, own_kv * head, rank // copies),
        (v, (own + own_kv) * head, own_kv * head, rank // copies),
    ):
        param[offset : offset + rows] = narrow(weight, 0, index * rows, rows)
    return param


def vocabulary(weight, rank, size):
    """VocabParallelEmbedding: padded to a multiple of 64 rows, the padding zero."""
    padded = -(-len(weight) // 64) * 64
    each = divide(padded, size)
    begin, end = min(rank * each, len(weight)), min((rank + 1) * each, len(weight))
    param = np.zeros((each, weight.shape[1]), weight.dtype)
    param[: end - begin] = weight[begin:end]
    return param


def mamba_sections(weight, sections, rank, size):
    """mamba_v2_sharded_weight_loader. A section: its size over all ranks, how much of that is copies, whether every
    rank has the same."""
    pieces, at = [], 0
    for full, extra, same in sections:
        rows = divide(full, size)
        skip = (0 if same else rank) * rows
        pieces.append(narrow(weight, 0, at + skip, min(rows, full - extra - skip)))
        at += full - extra
    assert at == len(weight)
    return np.concatenate(pieces)


def group_section(groups, state, size):
    """The section of B or C: one group is extended to one for each rank."""
    assert groups % size == 0 or groups == 1
    extra = 0 if groups % size == 0 else size - groups % size
    return (groups + extra) * state, extra * state, groups == 1 and size > 1


def linear_map(experts, index, count):
    """determine_expert_map, strategy linear: the global experts of a rank in the order of its slots."""
    base, remainder = divmod(experts, count)
    begin = index * base + min(index, remainder)
    return list(range(begin, begin + base + (index < remainder)))


def round_robin_map(experts, index, count):
    return list(range(index, experts, count))


def physical_map(table, index, count):
    """EPLB: the logical experts of a rank's physical ones."""
    each = divide(len(table), count)
    return [table[index * each + i] for i in range(each)]


def w13(gate, up, rank, size, padded=None):
    """One expert's part: w1 in the first half, w3 in the second. up is None without a gate. A parameter may be larger
    than what is loaded into each of its halves."""
    rows = divide(len(gate), size)
    half = padded or rows
    param = np.zeros(((1 if up is None else 2) * half, gate.shape[1]), gate.dtype)
    param[:rows] = narrow(gate, 0, rank * rows, rows)
    if up is not None:
        param[half : half + rows] = narrow(up, 0, rank * rows, rows)
    return param


def w2(down, rank, size, padded=None):
    columns = divide(down.shape[1], size)
    param = np.zeros((len(down), padded or columns), down.dtype)
    param[:, :columns] = narrow(down, 1, rank * columns, columns)
    return param
