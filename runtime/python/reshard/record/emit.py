# SPDX-License-Identifier: Apache-2.0
"""Writes recordings as a layout.

In: one Recording per rank of the mesh. Out: the text of a .layout file for the inference side: a value per buffer, one for
all ranks where they agree or hold the parts of an even, shared or padded cut, else one per rank.

A buffer's pieces are boxes in the mixed radix of its strides and theirs. Boxes are cut apart into cat and stack, down to one
piece each, and a piece is the tensor viewed, sliced, permuted.
"""

from .nest import Contents, Piece, Tangled, digits, radix, row_major, tidy
from .text import Loops, indent, quote
from .tree import Node, merge, render

WIDER = {
    "f16": ("f32", "f64"),
    "bf16": ("f32", "f64"),
    "f32": ("f64",),
    "f8e4m3": ("f16", "bf16", "f32", "f64"),
    "f8e5m2": ("f16", "bf16", "f32", "f64"),
}
FLOATS = ("f16", "bf16", "f32")
UNROLLED = 4096  # parts of a value that are written one by one


class Unwritable(Exception):
    """What was recorded is clear, and the language has no words for it; the text names the buffer."""


# ---- one buffer on one rank: a tree


def _leaf(piece_shape, src, steps, tensor):
    """The elements src + sum(i_k * steps[k]) of a tensor as a value of this shape."""
    for k, (n, t) in enumerate(zip(piece_shape, steps)):
        if t == 0 and n > 1:  # the same elements n times
            inner = _leaf(piece_shape[:k] + (1,) + piece_shape[k + 1 :], src, steps, tensor)
            return Node.cat(k, [inner] * n)
    try:
        return _view(piece_shape, src, steps, tensor)
    except Tangled:  # steps that do not divide: one by one along the largest
        k = max(range(len(steps)), key=lambda k: steps[k] * (piece_shape[k] > 1))
        if not 1 < piece_shape[k] <= UNROLLED:
            raise
        one = piece_shape[:k] + (1,) + piece_shape[k + 1 :]
        return Node.cat(k, [_leaf(one, src + i * steps[k], steps, tensor) for i in range(piece_shape[k])])


def _view(piece_shape, src, steps, tensor):
    name, shape = tensor
    loops = [(n, t, k) for k, (n, t) in enumerate(zip(piece_shape, steps)) if n > 1]
    places = _places(shape, src, loops)
    view = tuple(b // a for a, b in zip(places, places[1:])) + (_size(shape) // places[-1],)
    ranges, owner = _ranges(places, view, src, loops)
    value = Node.tensor(name, shape).view(tuple(reversed(view)))
    for i, (lo, n) in enumerate(reversed(ranges)):
        value = value.slice(i, lo, lo + n)
    order = sorted(range(len(places)), key=lambda i: (owner.get(i, len(piece_shape)), -i))
    return value.permute(tuple(len(places) - 1 - i for i in order)).view(piece_shape)


def _size(shape):
    total = 1
    for n in shape:
        total *= n
    return total


def _places(shape, src, loops):
    """The places in which the tensor is viewed: its strides and the loops', but for strides that a run crosses."""
    wanted = {t for _, t, _ in loops} | {1}
    own = {s for n, s in zip(shape, row_major(shape)) if n > 1}
    while True:
        places = radix(wanted | own)
        if places is not None and _size(shape) % places[-1] == 0:
            crossed = _crossed(places, src, loops) & (own - wanted)
            if not crossed:
                return places
            own -= crossed
        elif own - wanted:
            own.discard(min(own - wanted))
        else:
            raise Tangled(f"steps {sorted(wanted)} through a tensor of shape {list(shape)}")


def _crossed(places, src, loops):
    """Places that a loop would run across without filling the place before."""
    out = set()
    for n, t, _ in loops:
        i = places.index(t)
        while i + 1 < len(places):
            room, low = places[i + 1] // places[i], src // places[i] % (places[i + 1] // places[i])
            if low + n <= room:
                break
            if low or n % room:
                out.add(places[i + 1])
                break
            n, i = n // room, i + 1
    return out


def _ranges(places, view, src, loops):
    """For each place (lowest digit, count), and which dimension of the value runs over it."""
    ranges, owner = [[src // p % v, 1] for p, v in zip(places, view)], {}
    for n, t, k in loops:
        i = places.index(t)
        while n > 1:
            take = min(n, view[i])
            if i in owner or ranges[i][0] + take > view[i] or n % take:
                raise Tangled("a run across places")
            ranges[i][1], owner[i] = take, k
            n, i = n // take, i + 1
    return ranges, owner


class _Builder:
    """Cuts the boxes of a buffer apart."""

    def __init__(self, recording, buffer):
        self.tensors = recording.tensors
        self.name, self.dtype, self.shape, self.pieces = buffer

    def tree(self):
        total = _size(self.shape)
        places = self._buffer_places()
        while places is None or total % places[-1]:
            self._unroll()
            places = self._buffer_places()
        view = [b // a for a, b in zip(places, places[1:])] + [total // places[-1]]
        items = []
        for p in self.pieces:
            for sides, src in digits(p.dst, p.loops, places, p.src):
                items.append(
                    (
                        [s[0] for s in reversed(sides)],
                        [s[0] + s[1] for s in reversed(sides)],
                        [s[2] for s in reversed(sides)],
                        src,
                        p,
                    )
                )
        view.reverse()
        return self._build([0] * len(view), view, list(range(len(view))), items).view(self.shape)

    def _buffer_places(self):
        strides = {d for p in self.pieces for _, d, _ in p.loops} | {1}
        own = {s for n, s in zip(self.shape, row_major(self.shape)) if n > 1}
        crossing = {s for s in own if any(p.dst % s and p.count > 1 and self._crosses(p, s) for p in self.pieces)}
        for candidate in (strides | own, strides | (own - crossing), strides):
            places = radix(candidate)
            if places is not None:
                return places
        return None

    def _unroll(self):
        """The loops with the largest stride as pieces of their own: the others may divide one another."""
        top = max(d for p in self.pieces for _, d, _ in p.loops)
        out = []
        for p in self.pieces:
            n, d, s = p.loops[0] if p.loops else (1, 0, 0)
            out += (
                [Piece(p.dst + i * d, p.loops[1:], p.source, p.src + i * s, p.via) for i in range(n)]
                if d == top
                else [p]
            )
        if len(out) > UNROLLED:
            raise Unwritable(
                f"buffer '{self.name}' of shape {list(self.shape)}: pieces at stride {top} do not line up with others"
            )
        self.pieces = out

    @staticmethod
    def _crosses(p, stride):
        return p.dst // stride != (p.end - 1) // stride and all(d < stride for _, d, _ in p.loops)

    def _build(self, lo, hi, dims, items):
        if not items:
            return Node.gap(tuple(hi[d] - lo[d] for d in dims))
        if len(items) == 1 and items[0][0] == lo and items[0][1] == hi:
            return self._piece(items[0], lo, hi, dims)
        for d in dims:
            edges = sorted({e for it in items for e in (it[0][d], it[1][d]) if lo[d] < e < hi[d]})
            cuts = [e for e in edges if not any(it[0][d] < e < it[1][d] for it in items)]
            if cuts:
                return self._cut(lo, hi, dims, items, d, cuts)
        for d in dims:  # interlocked: cut a piece in two
            edges = sorted({e for it in items for e in (it[0][d], it[1][d]) if lo[d] < e < hi[d]})
            if edges:
                return self._cut(lo, hi, dims, items, d, edges[:1])
        raise AssertionError("boxes of a buffer overlap")

    def _cut(self, lo, hi, dims, items, d, cuts):
        bounds = [lo[d]] + cuts + [hi[d]]
        first = dims[0] == d and len(cuts) + 1 == hi[d] - lo[d] and len(dims) > 1  # parts of one: a stack
        parts = []
        for a, b in zip(bounds, bounds[1:]):
            inside = [self._clip(it, d, a, b) for it in items if it[0][d] < b and it[1][d] > a]
            part_lo, part_hi = lo[:d] + [a] + lo[d + 1 :], hi[:d] + [b] + hi[d + 1 :]
            parts.append(self._build(part_lo, part_hi, dims[1:] if first else dims, inside))
        return Node.stack(parts) if first else Node.cat(dims.index(d), parts)

    @staticmethod
    def _clip(item, d, a, b):
        lo, hi, steps, src, p = item
        start, end = max(a, lo[d]), min(b, hi[d])
        return lo[:d] + [start] + lo[d + 1 :], hi[:d] + [end] + hi[d + 1 :], steps, src + (start - lo[d]) * steps[d], p

    def _piece(self, item, lo, hi, dims):
        _, _, steps, src, p = item
        shape = tuple(hi[d] - lo[d] for d in dims)
        if p.source[0] == "fill" and p.source[1] == 0:
            return Node.zeros(shape)
        if p.source[0] != "tensor":
            return Node.gap(shape)
        dtype, tensor_shape = self.tensors[p.source[1]]
        try:
            value = _leaf(shape, src, [steps[d] for d in dims], (p.source[1], tensor_shape))
        except Tangled as error:
            raise Unwritable(f"buffer '{self.name}': tensor '{p.source[1]}': {error}") from None
        return self._converted(value, p, dtype)

    def _converted(self, value, p, dtype):
        """cast, neg_exp, add: if that is what was done, rounded once."""

        def refuse(why):
            raise Unwritable(
                f"buffer '{self.name}': tensor '{p.source[1]}' {why}; the language says cast, neg_exp and add, "
                "computed in f32, rounded once"
            )

        at, rounded, kinds = dtype, False, []
        for step in _without_detours(dtype, p.via):
            if step[0] == "bits":
                refuse(f"is read as {step[1]}, without conversion")
            elif step[0] == "to":
                exact = (
                    step[1] in WIDER.get(at, ()) or not kinds and (step[1] == dtype or step[1] in WIDER.get(dtype, ()))
                )
                if step[1] != at and not exact or rounded:
                    rounded = True
                    if step[1] != self.dtype or at not in FLOATS + ("f64",):
                        refuse(f"is rounded to {step[1] if at == dtype or kinds else at} on its way to {self.dtype}")
                at = step[1]
            else:
                if rounded or at not in ("f32", self.dtype) or at not in FLOATS:
                    refuse(f"is computed in {at}")
                kinds.append(step)
        if self.dtype not in FLOATS + ("f64",) and self.dtype != dtype:
            refuse(f"is converted to {self.dtype}")
        if [k[0] for k in kinds] == ["exp", "neg"]:
            value = Node("neg_exp", value.shape, (), (value,))
        elif [k[0] for k in kinds] == ["add"]:
            value = Node("add", value.shape, (_decimal(kinds[0][1]),), (value,))
        elif kinds:
            refuse("goes through " + ", ".join(k[0] for k in kinds))
        return value if dtype == self.dtype else Node("cast", value.shape, (), (value,))


def _without_detours(dtype, via):
    """The steps, but for bits that are read as another dtype and back."""
    out, dtypes = [], [dtype]
    for step in via:
        if step[0] == "bits" and out and out[-1][0] == "bits" and step[1] == dtypes[-2]:
            out.pop()
            dtypes.pop()
            continue
        out.append(step)
        if step[0] in ("to", "bits"):
            dtypes.append(step[1])
    return out


def _decimal(value):
    text = f"{value:.20f}".rstrip("0")
    if float(text if text[-1] != "." else text + "0") != value:
        raise Unwritable(f"the constant {value!r} has no short decimal")
    return text + "0" if text.endswith(".") else text


# ---- all ranks


def _trees(recordings):
    """{buffer: {rank: (dtype, tree)}} in the order of the recordings."""
    out = {}
    for r in recordings:
        for buffer in r.buffers:
            out.setdefault(buffer[0], {})[r.rank] = (buffer[1], _Builder(r, buffer).tree())
    return out


def _checked(recordings):
    recordings = sorted(recordings, key=lambda r: r.rank)
    world = len(recordings)
    if [r.rank for r in recordings] != list(range(world)):
        raise Unwritable(
            f"recordings of the ranks {[r.rank for r in recordings]}: there must be one for each of 0 to {world - 1}"
        )
    for r in recordings:
        if r.world != world:
            raise Unwritable(f"the recording of rank {r.rank} is of {r.world} ranks, {world} are given")
        if r.tensors != recordings[0].tensors:
            raise Unwritable(f"ranks 0 and {r.rank} were recorded with different checkpoints")
    return recordings


def read_elements(recordings):
    """{tensor: how many of its elements land somewhere}."""
    held = {}
    for r in recordings:
        for _, _, _, pieces in r.buffers:
            for p in pieces:
                if p.source[0] == "tensor":
                    loops = tidy([(n, s, 0) for n, _, s in p.loops if s])
                    store = held.setdefault(p.source[1], Contents())
                    if not any(q.dst == p.src and q.loops == loops for q in store.pieces):
                        store.write(p.src, [(n, d) for n, d, _ in loops], [Piece(p.src, loops, ("fill", 0))])
    return {name: sum(p.count for p in store.pieces) for name, store in held.items()}


def _buffer(name, dtype, tree, needs_dtype, pad_tensor):
    head = f"buffer {quote(name)}" + (f" {dtype}" if needs_dtype else "")
    if tree.kind == "tensor" and tree.args[0] == name:
        return head + ";"
    return f"{head} = {render(tree, pad_tensor)};"


def layout(recordings, axis="tp", title=None):
    """The layout of all ranks as text. The mesh is m, with one axis."""
    recordings = _checked(recordings)
    world, tensors = len(recordings), recordings[0].tensors
    used = read_elements(recordings)
    shared, single = [], {}
    for name, by_rank in _trees(recordings).items():
        dtypes = {d for d, _ in by_rank.values()}
        trees = [by_rank[r][1] for r in range(world)] if len(by_rank) == world and len(dtypes) == 1 else None
        one = merge(trees, axis) if trees else None
        read = [n for _, tree in by_rank.values() for n in tree.tensors()]
        if not read:
            continue
        pad_tensor = (read[0], tensors[read[0]][1])
        for rank, (dtype, tree) in ([(None, (dtypes.pop(), one))] if one else by_rank.items()):
            sources = {tensors[n][0] for n in tree.tensors() or read[:1]}
            text = _buffer(name, dtype, tree, sources != {dtype}, pad_tensor)
            (shared if one else single.setdefault(rank, [])).append((name, text))
    lines = [
        "# SPDX-License-Identifier: Apache-2.0" if title is None else f"# {title}",
        f"# Recorded from the loader of an inference engine, {world} rank{'s' if world > 1 else ''}.",
    ]
    declared = [(n, f"tensor {quote(n)} {d} [{', '.join(map(str, s))}];") for n, (d, s) in tensors.items() if n in used]
    lines += Loops().fold(declared)
    lines += [f"mesh m [{axis}: {world}];"]
    lines += ["on m {"] + indent(Loops().fold(shared)) + ["}"] if shared else []
    lines += _per_rank(single, axis, world)
    lines += _skips(tensors, used)
    written = {name for name, _ in shared} | {name for rows in single.values() for name, _ in rows}
    unloaded = {name: why for r in recordings for name, why in r.unloaded if name not in written}
    lines += [f"# not here: {quote(name)}: {why}" for name, why in unloaded.items()]
    return "\n".join(lines) + "\n"


def _per_rank(single, axis, world):
    if not single:
        return []
    blocks = {r: Loops().fold(single[r]) for r in sorted(single)}
    bodies = {r: "\n".join(indent(b)) for r, b in blocks.items()}
    if sorted(bodies) == list(range(world)) and world > 1:
        folded = Loops().one([bodies[r] for r in range(world)], "r")
        if folded:
            var, low, high, body = folded
            if low == 0:
                return [f"for {var} in 0..{high} {{ on m[{axis} = {var}] {{"] + body.split("\n") + ["} }"]
    out = []
    for r, body in bodies.items():
        out += [f"on m[{axis} = {r}] {{"] + body.split("\n") + ["}"]
    return out


def _skips(tensors, used):
    unread = [(n, f"skip {quote(n, glob=True)};") for n in tensors if n not in used]
    partly = [(n, f"skip {quote(n, glob=True)};") for n, (_, s) in tensors.items() if n in used and used[n] < _size(s)]
    lines = ["# No rank reads these."] + Loops().fold(unread) if unread else []
    return lines + (["# Read in part."] + Loops().fold(partly) if partly else [])
