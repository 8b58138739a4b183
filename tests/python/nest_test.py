# SPDX-License-Identifier: Apache-2.0
"""Nests of the recorder against tables of elements: writes over writes, reads through views, folds. Random, from seeds.

In: nothing. Out: exit 0 or 1.
"""
import random
import sys

import support
from reshard.record.nest import Contents, Piece, elements, fold, join, row_major, tidy

SEEDS = 1500


def table(pieces):
    out = {}
    for p in pieces:
        for d, s in elements(p.dst, p.loops, p.src):
            assert d not in out, "two pieces hold one element"
            out[d] = s
    return out


def some_shape(rng, size):
    out = []
    while size > 1:
        out.append(rng.choice([d for d in range(2, size + 1) if size % d == 0]))
        size //= out[-1]
    return out


def some_view(rng, size):
    """A slice, with steps, of some shape of this many elements: first element, (count, stride)."""
    first, loops = 0, []
    shape = some_shape(rng, size)
    for n, stride in zip(shape, row_major(shape)):
        lo = rng.randrange(n)
        hi, step = rng.randrange(lo + 1, n + 1), rng.choice([1, 1, 1, 2])
        first += lo * stride
        loops.append(((hi - lo + step - 1) // step, stride * step))
    return first, loops


def one(seed):
    rng = random.Random(seed)
    size = rng.choice([24, 48, 60, 64])
    contents, right = Contents(), {}
    for write in range(3):
        first, loops = some_view(rng, size)
        source, step = [], 1
        for n, stride in sorted(loops, key=lambda _: rng.random()):  # the source has its dimensions in another order, with gaps
            source.append((n, stride, step))
            step *= n + rng.choice([0, 1])
        contents.write(first, loops, [Piece(first, tidy(source), ("tensor", "w"), 100 * write)])
        right.update(dict(elements(first, source, 100 * write)))
        assert table(contents.pieces) == right, f"seed {seed}: write {write}"
    first, loops = some_view(rng, size)
    read, step = [], 1
    for n, stride in reversed(loops):
        read.append((n, stride, step))
        step *= n
    got = table(join((first, 5, read), contents.pieces))
    wanted = {d: right[a] for a, d in elements(first, read, 5) if a in right}
    assert got == wanted, f"seed {seed}: read"
    folded = [Piece(d, loops, ("tensor", "w"), s) for d, s, loops in fold(wanted.items())]
    assert table(folded) == wanted, f"seed {seed}: fold"


def test_random():
    for seed in range(SEEDS):
        one(seed)


def test_few_pieces():
    """What is simple stays simple."""
    w = [Piece(0, tidy([(64 * 32, 1, 1)]), ("tensor", "w"))]
    rows = join((8 * 32, 0, [(16, 32, 32), (32, 1, 1)]), w)
    assert [(p.dst, p.loops, p.src) for p in rows] == [(0, ((512, 1, 1),), 256)], rows
    columns = join((8, 0, [(64, 32, 4), (4, 1, 1)]), w)
    assert [(p.dst, p.loops, p.src) for p in columns] == [(0, ((64, 4, 32), (4, 1, 1)), 8)], columns
    assert fold([(i, 3 * i) for i in range(1000)]) == [(0, 0, ((1000, 1, 3),))]


if __name__ == "__main__":
    sys.exit(support.main(globals()))
