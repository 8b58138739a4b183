# SPDX-License-Identifier: Apache-2.0
"""Affine pieces: which element of which source lies at which element of a destination.

A piece is a nest of loops (count, destination stride, source stride) from a first element at either end. Here pieces are
followed through views (join), overwritten (subtract) and found in tables of indices (fold). Nothing here knows torch.

In: pieces. Out: pieces. Nests meet as boxes of digits: each address is written in a mixed radix whose places are the
strides of both nests. Strides that do not divide one another are met element by element, up to LIMIT.
"""

import dataclasses
from typing import Tuple

LIMIT = 1 << 20


class Tangled(Exception):
    """Two nests that do not line up, and are too large to be met element by element."""


@dataclasses.dataclass(frozen=True)
class Piece:
    dst: int
    loops: Tuple[Tuple[int, int, int], ...]  # count, destination stride, source stride; the outermost first
    source: Tuple  # ("tensor", name), ("fill", value), ("const",), ("opaque", why)
    src: int = 0
    via: Tuple = ()  # what was done to the value: ("to", dtype), ("exp",), ("neg",), ("add", c)

    @property
    def end(self):
        return self.dst + sum((n - 1) * d for n, d, _ in self.loops) + 1

    @property
    def count(self):
        total = 1
        for n, _, _ in self.loops:
            total *= n
        return total


def tidy(loops):
    """Without loops of one; sorted by destination stride; loops that run on into one another joined. None if empty."""
    if any(n == 0 for n, _, _ in loops):
        return None
    out = []
    for n, d, s in sorted((l for l in loops if l[0] != 1), key=lambda l: -l[1]):
        if out and out[-1][1] == n * d and out[-1][2] == n * s:
            out[-1] = (out[-1][0] * n, d, s)
        else:
            out.append((n, d, s))
    return tuple(out)


def row_major(shape):
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def radix(strides):
    """The strides as places of a mixed radix, the smallest first, or None if one does not divide the next."""
    places = sorted(set(strides)) or [1]
    return places if all(b % a == 0 for a, b in zip(places, places[1:])) else None


def digits(first, loops, places, value):
    """The nest as boxes: lists of (lowest digit, count, stride of `value`) for each place, and the value at its corner.
    `loops` are (count, stride, stride of value), no stride twice."""
    top, boxes = len(places), []

    def go(i, first, loops, value, done):
        if i == top:
            boxes.append((done, value))
            return
        place, room = places[i], places[i + 1] // places[i] if i + 1 < top else None
        low = first // place if room is None else first // place % room
        n, t = loops.get(place, (1, 0))
        if room is None or low + n <= room:
            go(i + 1, first, loops, value, done + [(low, n, t)])
            return
        head = room - low if low else 0
        if head:  # up to the next full round
            go(i + 1, first, loops, value, done + [(low, head, t)])
        rounds, tail = divmod(n - head, room)
        first, value = first + head * place, value + head * t
        if rounds and (rounds == 1 or places[i + 1] not in loops):
            more = loops if rounds == 1 else {**loops, places[i + 1]: (rounds, room * t)}
            go(i + 1, first, more, value, done + [(0, room, t)])
        else:
            for k in range(rounds):
                go(i + 1, first + k * room * place, loops, value + k * room * t, done + [(0, room, t)])
        if tail:
            go(i + 1, first + rounds * room * place, loops, value + rounds * room * t, done + [(0, tail, t)])

    table = {}
    for n, x, t in loops:
        if x in table:
            raise Tangled("a view meets the same element twice")
        table[x] = (n, t)
    go(0, first, table, value, [])
    return boxes


def elements(first, loops, value):
    """Every (address, value) of a nest."""
    total = 1
    for n, _, _ in loops:
        total *= n
    if total > LIMIT:
        raise Tangled(f"strides that do not divide one another, over {total} elements")
    out = [(first, value)]
    for n, x, t in loops:
        out = [(a + i * x, v + i * t) for a, v in out for i in range(n)]
    return out


def fold(pairs):
    """(destination, source) elements as nests: (dst, src, loops). The destinations are distinct."""
    nests = [(d, s, ()) for d, s in sorted(pairs)]
    while True:
        out, i = [], 0
        while i < len(nests):
            d, s, loops = nests[i]
            j, step = i + 1, None
            while j < len(nests) and nests[j][2] == loops:
                now = (nests[j][0] - nests[j - 1][0], nests[j][1] - nests[j - 1][1])
                if step is None:
                    if now[1] < 0:
                        break
                    step = now
                if now != step:
                    break
                j += 1
            # Two that happen to be apart by something are no loop, unless nothing better can be had.
            if j - i > 2 or (j - i == 2 and (step[0] == 1 or j == len(nests))):
                out.append((d, s, ((j - i,) + step,) + loops))
                i = j
            else:
                out.append(nests[i])
                i += 1
        if len(out) == len(nests):
            return out
        nests = out


def join(copy, pieces):
    """What arrives when a copy reads addresses that hold these pieces. `copy` is (first address read, first address
    written, loops (count, stride read, stride written)). Pieces of the written side."""
    read, written, loops = copy
    loops = [l for l in loops if l[0] != 1]
    if any(n == 0 for n, _, _ in loops):
        return []
    again = [(n, y, 0) for n, x, y in loops if x == 0]  # an expanded view: the same element n times
    moving = tidy([(n, x, y) for n, x, y in loops if x])
    end = read + sum((n - 1) * x for n, x, _ in moving)
    out = []
    for p in pieces:
        if p.dst > end or p.end <= read:
            continue
        for dst, src, inner in _meet(read, moving, written, p):
            fixed = p.source[0] != "tensor"
            ready = tidy([(n, y, 0 if fixed else s) for n, y, s in inner] + again)
            out.append(Piece(dst, ready, p.source, 0 if fixed else src, p.via))
    return out


def _meet(read, loops, written, p):
    places = radix([x for _, x, _ in loops] + [d for _, d, _ in p.loops])
    if places is None:
        there = dict(elements(p.dst, p.loops, p.src))
        pairs = [(y, there[x]) for x, y in elements(read, loops, written) if x in there]
        return fold(pairs)
    if read % places[0] != p.dst % places[0]:
        return []
    out = []
    theirs = digits(p.dst, p.loops, places, p.src)
    for mine, y0 in digits(read, loops, places, written):
        for their, s0 in theirs:
            dst, src, inner = y0, s0, []
            for (la, na, ta), (lb, nb, tb) in zip(mine, their):
                lo, hi = max(la, lb), min(la + na, lb + nb)
                if hi <= lo:
                    break
                dst, src = dst + (lo - la) * ta, src + (lo - lb) * tb
                if hi - lo > 1:
                    inner.append((hi - lo, ta, tb))
            else:
                out.append((dst, src, inner))
    return out


def subtract(p, first, loops):
    """What is left of a piece when the destinations of this nest (count, stride) are overwritten."""
    loops = tidy([(n, x, 0) for n, x in loops])
    if loops is None:
        return [p]
    end = first + sum((n - 1) * x for n, x, _ in loops)
    if p.dst > end or p.end <= first:
        return [p]
    places = radix([x for _, x, _ in loops] + [d for _, d, _ in p.loops])
    if places is None:
        gone = {x for x, _ in elements(first, loops, 0)}
        kept = fold([(d, s) for d, s in elements(p.dst, p.loops, p.src) if d not in gone])
        return [dataclasses.replace(p, dst=d, src=s, loops=tidy(l)) for d, s, l in kept]
    if first % places[0] != p.dst % places[0]:
        return [p]
    left = digits(p.dst, p.loops, places, p.src)
    for hole, _ in digits(first, loops, places, 0):
        left = [rest for box in left for rest in _minus(box, hole)]
    return [_piece(p, box, places) for box in left]


def _minus(box, hole):
    sides, value = box
    if any(max(la, lb) >= min(la + na, lb + nb) for (la, na, _), (lb, nb, _) in zip(sides, hole)):
        return [box]
    out, sides = [], list(sides)
    for i, ((la, na, ta), (lb, nb, _)) in enumerate(zip(sides, hole)):
        if la < lb:
            out.append((sides[:i] + [(la, lb - la, ta)] + sides[i + 1 :], value))
        if la + na > lb + nb:
            low = lb + nb
            out.append((sides[:i] + [(low, la + na - low, ta)] + sides[i + 1 :], value + (low - la) * ta))
        lo, hi = max(la, lb), min(la + na, lb + nb)
        sides[i], value = (lo, hi - lo, ta), value + (lo - la) * ta
    return out


def _piece(p, box, places):
    sides, src = box
    dst = p.dst % places[0] + sum(lo * place for (lo, _, _), place in zip(sides, places))
    loops = tidy([(n, place, t) for (_, n, t), place in zip(sides, places)])
    return dataclasses.replace(p, dst=dst, src=src, loops=loops)


class Contents:
    """What a storage holds: pieces whose destinations do not meet. What no piece covers was never written."""

    def __init__(self, pieces=()):
        self.pieces = list(pieces)

    def write(self, first, loops, pieces):
        """Overwrites the nest (count, stride) with these pieces, which lie inside it."""
        self.pieces = [rest for p in self.pieces for rest in subtract(p, first, loops)] + list(pieces)
