# SPDX-License-Identifier: Apache-2.0
"""Two sides -> verdict, contents of the training files, and what every inference byte may be."""
import numpy as np
from convert import apply, bits_type, same
from constants import ELEM, SHIFT, glob_match
from oracle import Side
from syntax import DTYPES, Refuse

OP_BITS = (-4.0, 4.0)


class Held:
    """One buffer on one rank, flattened.  real: which elements are tensor elements; at: their place in the pair's list
    of all elements; ment: the mention of each."""

    def __init__(self, pair, rank, name, buf, dtype, codes, ments):
        self.rank, self.name, self.buf, self.dtype, self.shape, self.ments = rank, name, buf, dtype, codes.shape, ments
        flat = np.ascontiguousarray(codes).reshape(-1)
        self.codes, self.real = flat, flat >= 0
        real = flat[self.real]
        self.ment = real >> SHIFT
        base = np.array([pair.base.get(m['tensor'], 0) for m in ments] or [0], dtype=np.int64)
        self.at = base[self.ment] + (real & ELEM)


class Pair:
    def __init__(self, train, infer):
        """Raises Refuse where one of the sides, or the pair of them, breaks a rule."""
        self.train, self.infer = train, infer
        parts = {s.which: s.evaluate() for s in (train, infer)}
        self.base, self.tensors, n = {}, {}, 0
        for s in (train, infer):
            for name, what in s.tensors.items():
                if self.tensors.setdefault(name, what) != what:
                    raise Refuse('differ', name)
        self.tensor_of = []
        for name, (_, shape) in self.tensors.items():
            self.base[name] = n
            n += int(np.prod(shape, dtype=object)) if shape else 1
        self.count = n
        self.owner = np.zeros(n, dtype=np.int64)
        for i, name in enumerate(self.base):
            self.owner[self.base[name]:] = i
        self.names = list(self.base)
        self.held = {w: [Held(self, r, nm, *x) for r in sorted(p) for nm, x in p[r].items()] for w, p in parts.items()}
        self.places()
        self.cover()

    # -- coverage
    def places(self):
        """(element, place) pairs of the training side: how many places, and how many without the word replica."""
        number, rows = {}, []
        self.place_info = []
        for h in self.held['train']:
            ids = np.zeros(max(1, len(h.ments)), dtype=np.int64)
            for i in np.unique(h.ment):
                m = h.ments[i]
                key = (h.buf.id, m['ordinal'], tuple(sorted(m['cuts'])))
                if key not in number:
                    number[key] = len(number)
                    self.place_info.append((m, h.dtype))
                ids[i] = number[key]
            h.place = ids[h.ment]
            rows.append(np.stack([h.at, h.place], 1))
        self.pairs = np.unique(np.concatenate(rows), axis=0) if rows else np.zeros((0, 2), dtype=np.int64)
        strict = np.array([not m['replica'] for m, _ in self.place_info] or [False])
        self.nplaces = np.bincount(self.pairs[:, 0], minlength=self.count)
        self.nstrict = np.bincount(self.pairs[:, 0], weights=strict[self.pairs[:, 1]], minlength=self.count)

    def matches(self, side):
        return np.array([any(glob_match(p, n) for p in side.skips) for n in self.names] or [False])

    def cover(self):
        self.wanted = np.zeros(self.count, dtype=bool)
        for h in self.held['infer']:
            self.wanted[h.at] = True
        self.supplied = self.nplaces > 0
        self.double = (self.nplaces > 1) & (self.nstrict > 1)
        self.missing = self.wanted & ~self.supplied & ~self.matches(self.train)[self.owner]
        self.unwanted = self.supplied & ~self.wanted & ~self.matches(self.infer)[self.owner]

    def judge(self):
        for kind in ('double', 'missing', 'unwanted'):
            bad = np.nonzero(getattr(self, kind))[0]
            if len(bad):
                raise Refuse(kind, f'{self.where(bad[0])} and {len(bad) - 1} more')
        if not (self.wanted & self.supplied).any():
            raise Refuse('nothing', 'no element is delivered')

    def where(self, at):
        name = self.names[self.owner[at]]
        return f'{name}[{at - self.base[name]}]'

    # -- bytes
    def fill(self, seed):
        """Chooses contents: self.source[(rank, name)] bits of training buffers, self.options[k] the values of the k-th
        possible supplier of each element, as bits of the tensor's dtype in 64."""
        rng = np.random.default_rng(seed)
        noise = rng.integers(0, 2**64, self.count, dtype=np.uint64, endpoint=False) if self.count else \
            np.zeros(0, dtype=np.uint64)
        small = rng.uniform(*OP_BITS, self.count)
        self.op_tensors = {m['tensor'] for w in self.held.values() for h in w for m in h.ments if m['op']}
        self.source = {}
        many = int(self.nplaces.max(initial=0))
        self.options = np.zeros((max(1, many), self.count), dtype=np.uint64)
        order = np.zeros(len(self.pairs), dtype=np.int64)
        if len(self.pairs):
            first = np.r_[True, self.pairs[1:, 0] != self.pairs[:-1, 0]]
            start = np.nonzero(first)[0]
            order = np.arange(len(self.pairs)) - np.repeat(start, np.diff(np.r_[start, len(self.pairs)]))
        slot = {(int(a), int(p)): int(o) for (a, p), o in zip(self.pairs, order)} if many > 1 else None
        for h in self.held['train']:
            bt = bits_type(h.dtype)
            out = rng.integers(0, 256, len(h.codes) * DTYPES[h.dtype], dtype=np.uint8).view(bt).copy()
            real = np.zeros(len(h.at), dtype=bt)
            for i, m in enumerate(h.ments):
                here = h.ment == i
                if not here.any():
                    continue
                at = h.at[here]
                b, x = self.content(m, h.dtype, at, noise, small)
                real[here] = b
                k = np.zeros(len(at), dtype=np.int64) if slot is None else \
                    np.array([slot[(int(a), int(p))] for a, p in zip(at, h.place[here])], dtype=np.int64)
                self.options[k, at] = x.astype(np.uint64)
            out[h.real] = real
            self.source[(h.rank, h.name)] = out
        for k in range(1, len(self.options)):
            lone = self.nplaces <= k
            self.options[k][lone] = self.options[0][lone]

    def content(self, m, dtype, at, noise, small):
        """Buffer bits, and the element's bits that a reader of this place sees."""
        tt, bt = bits_type(m['dtype']), bits_type(dtype)
        plain = m['dtype'] == dtype and not m['op']
        shared = self.nplaces[at] > 1
        if plain and m['tensor'] not in self.op_tensors:
            b = noise[at].astype(tt)
            return b, b
        if m['tensor'] in self.op_tensors:
            x0 = np.where(noise[at] % 16 == 0, noise[at].astype(tt), self.near(small[at], m['dtype']))
        else:
            x0 = noise[at].astype(tt)
        x0 = x0.astype(tt)
        if plain:
            return x0, x0
        if m['op']:
            b = apply(x0, m['dtype'], dtype, m['op'])[0]
        elif dtype in ('f8e4m3', 'f8e5m2'):
            b = noise[at].astype(bt)
        else:
            b = apply(x0, m['dtype'], dtype, None)[0]
        b = b.astype(bt)
        if not m['op']:
            b = np.where(shared, b, noise[at].astype(bt)).astype(bt)
        return b, apply(b, dtype, m['dtype'], m['op'], True)[0]

    def near(self, x, dtype):
        from convert import from_f64
        if dtype in ('f16', 'bf16', 'f32', 'f64'):
            return from_f64(x, dtype)
        return np.zeros(len(x), dtype=bits_type(dtype))

    def wrong(self, h, got):
        """Indices of the inference buffer h at which got (bits) is not what it must be."""
        bad = np.zeros(len(h.codes), dtype=bool)
        bad[~h.real] = got[~h.real] != 0
        ok = np.zeros(len(h.at), dtype=bool)
        mine = got[h.real]
        for i, m in enumerate(h.ments):
            here = h.ment == i
            if not here.any():
                continue
            at, g = h.at[here], mine[here]
            held = self.supplied[at]
            good = ~held & (g == 0)  # excused
            loose = m['cast'] or m['op'] or m['tensor'] in self.loose()
            for o in self.options:
                for want in apply(o[at].astype(bits_type(m['dtype'])), m['dtype'], h.dtype, m['op']):
                    want = want.astype(bits_type(h.dtype))
                    good |= held & (same(g, want, h.dtype) if loose else g == want)
            ok[here] = good
        bad[np.nonzero(h.real)[0]] = ~ok
        return np.nonzero(bad)[0]

    def loose(self):
        """Tensors that some training buffer converts: NaN bits are then free."""
        if not hasattr(self, 'loose_set'):
            self.loose_set = {m['tensor'] for h in self.held['train'] for m in h.ments if m['cast'] or m['op']}
        return self.loose_set


def load_pair(train, infer, defines=(), incdirs=(), models=()):
    """defines: (name, text) with an optional 'train.' or 'infer.' before the name."""
    sides, used = [], set()
    for which, path in (('train', train), ('infer', infer)):
        mine = {}
        for name, text in defines:
            text = text.encode('utf-8').decode('latin-1')
            if name.split('.')[0] in ('train', 'infer') and '.' in name:
                if name.startswith(which + '.'):
                    mine[name[6:]] = text
            else:
                mine[name] = text
        s = Side(which, mine, incdirs, models).load(path)
        used |= {(n if n in dict(defines) else None) for n in s.used} | {which + '.' + n for n in s.used}
        sides.append(s)
    for name, _ in defines:
        if name not in used:
            raise Refuse('define', name)
    return Pair(*sides)
