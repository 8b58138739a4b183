# SPDX-License-Identifier: Apache-2.0
"""What a value holds on one rank.  In: expression trees, names, a Ctx (coordinates); out: Val, or Refuse.

A code is mention << 40 | element of the tensor mentioned, or PAD, or GAP.  A mention record says which tensor, how it
is cut on its way to the buffer, and what is done to it; (buffer, ordinal, cuts) names its place.
"""
import numpy as np
from constants import Constants, Dec, Val, GAP, PAD, integer
from syntax import Refuse, bounded


class Eval(Constants):
    # -- values
    def e_sub(self, env, ctx, base, dims):
        x = self.ev(base, env, ctx)
        if isinstance(x, list):
            if len(dims) != 1 or dims[0][0] != 'expr' or dims[0][2] is not None or dims[0][3]:
                raise Refuse('type', 'an index wanted')
            i = integer(self.ev(dims[0][1], env, ctx))
            if not 0 <= i < len(x):
                raise Refuse('index', f'{i} of {len(x)}')
            return x[i]
        return self.view(self.as_value(x, ctx), dims, env, ctx)

    def view(self, v, dims, env, ctx):
        shape, dims = v.arr.shape, list(dims)
        rest = bool(dims) and dims[-1][0] == 'rest'
        if rest:
            dims.pop()
            if len(dims) > len(shape):
                raise Refuse('view', 'more dimensions than there are before ..')
            dims += [('as_is', None, None, [])] * (len(shape) - len(dims))
        if len(dims) > 8:
            raise Refuse('ndim')
        same = rest or len(dims) == len(shape)
        real = [integer(self.ev(e, env, ctx)) if what == 'expr' else shape[i] if same else None
                for i, (what, e, _, _) in enumerate(dims)]
        if any(d is not None and d < 0 for d in real):
            raise Refuse('extent')
        left = [i for i, d in enumerate(real) if d is None]
        if left:
            others = int(np.prod([d for d in real if d is not None], dtype=object))
            if len(left) > 1 or others == 0 or v.arr.size % others:
                raise Refuse('view', f'_ of {shape} in {real}')
            real[left[0]] = v.arr.size // others
        if int(np.prod(real, dtype=object)) != v.arr.size:
            raise Refuse('view', f'{shape} as {real}')
        bounded(max(real, default=0))
        self.note_view(ctx, shape, real, rest, same, left, dims)
        tags = v.tags if tuple(real) == shape else v.tags | {('reshape', shape, tuple(real))}
        v = Val(v.arr.reshape(real), v.ments, tags)
        for i, (what, _, n, cuts) in enumerate(dims):
            if n is not None:
                ctx.note('pad(_)' if what == 'as_is' else 'pad')
                v = self.pad(v, i, integer(self.ev(n, env, ctx)))
            v = self.cut_all(v, i, cuts, env, ctx)
        return v

    def note_view(self, ctx, shape, real, rest, same, left, dims):
        ctx.note('view', *(['..'] if rest else []), *(['what is left'] if left and not same else []),
                 *(['0-dim'] if not real else []), *(['two axes'] if any(len(d[3]) > 1 for d in dims) else []))
        if tuple(real) != shape:
            ctx.note('merge' if len(real) < len(shape) else 'split' if len(real) > len(shape) else 'regroup')

    def pad(self, v, k, n):
        d = v.arr.shape[k]
        if n < d:
            raise Refuse('pad', f'{d} to {n}')
        bounded(v.arr.size // max(1, d) * n if d else n)
        width = [(0, 0)] * v.arr.ndim
        width[k] = (0, n - d)
        return Val(np.pad(v.arr, width, constant_values=PAD), v.ments, v.tags | ({'pad'} if n > d else set()))

    def cut_all(self, v, k, cuts, env, ctx):
        for axis, rule, _ in cuts:
            v = self.cut(v, k, axis, rule, env, ctx)
        return v

    def cut(self, v, k, axis, rule, env, ctx):
        if ctx is None or axis not in ctx.coords:
            raise Refuse('axis', f'no axis {axis}')
        if axis in ctx.pins:
            raise Refuse('axis', f'{axis} is pinned')
        if any(axis in dict(ctx.ments[m]['cuts']) for m in v.ments):
            raise Refuse('axis', f'{axis} cuts twice')
        n, c = dict(ctx.mesh.axes)[axis], int(ctx.coords[axis])
        kind, args = ('even', []) if rule is None else (rule[1] or 'sizes', [self.ev(a, env, ctx) for a in rule[2]])
        if kind == 'padded':
            m = integer(args[0]) if args else 1
            if m < 1:
                raise Refuse('cut', 'padded')
            v = self.pad(v, k, -(-v.arr.shape[k] // (m * n)) * m * n)
            kind, args = 'even', []
        parts = CUTS[kind](v.arr.shape[k], n, c, *args)
        self.note_cut(v, k, ctx, rule, args, parts)
        out, ments = [], []
        for index, part in parts:
            w = Val(v.arr.take(index, axis=k), v.ments)
            w = self.change(w, ctx, lambda m: {'cuts': m['cuts'] + ((axis, part),)})
            out.append(w.arr)
            ments += w.ments
        return Val(out[0] if len(out) == 1 else np.concatenate(out, axis=k), ments, v.tags | {'cut'})

    def note_cut(self, v, k, ctx, rule, args, parts):
        word = 'even' if rule is None else rule[1] or 'sizes'
        if word in ('cyclic', 'padded') and rule[2]:
            word += '(n)'
        if word == 'share' and isinstance(args[0], list):
            word = 'share(table)'
        if word == 'each' and len(args) > 1:
            word = 'each(shares)'
        ctx.note(word, *(f'cut of {t}' for t in ('cat', 'stack', 'pad') if t in v.tags))
        if sum(len(i) for i, _ in parts) == 0 and v.arr.shape[k]:
            ctx.note('empty part')
        inner = int(np.prod(v.arr.shape[k + 1:]))
        for t in v.tags:
            if isinstance(t, tuple) and t[2] == v.arr.shape and len(t[1]) > 1:
                row = int(np.prod(t[1][1:]))
                if any(len(i) and int(i[0]) * inner % max(1, row) for i, _ in parts):
                    ctx.note('unaligned')

    def e_stack(self, env, ctx, name, r, cuts, body):
        vs = [self.value(body, self.side.define(env, name, x), ctx) for x in self.loop(r, env, ctx)]
        if not vs:
            raise Refuse('stack', 'empty')
        if len({v.arr.shape for v in vs}) != 1:
            raise Refuse('stack', 'shapes differ')
        if vs[0].arr.ndim >= 8:
            raise Refuse('ndim')
        ctx.note('stack', *(['stack cut'] if cuts else []),
                 *(['stack of cuts'] if any('cut' in v.tags for v in vs) else []))
        ctx.note(*(['stack of a table'] if r[0] != 'range' else []), *(f'stack of {t}' for t in ('cat', 'stack')
                                                                       if any(t in v.tags for v in vs)))
        bounded(len(vs) * vs[0].arr.size)
        v = Val(np.stack([v.arr for v in vs]), [m for v in vs for m in v.ments],
                frozenset({'stack'}).union(*(v.tags for v in vs)))
        return self.cut_all(v, 0, cuts, env, ctx)

    def join(self, k, vs, ctx):
        k = integer(k)
        if not vs or not 0 <= k < vs[0].arr.ndim or len({v.arr.shape[:k] + v.arr.shape[k + 1:] for v in vs}) != 1 \
                or len({v.arr.ndim for v in vs}) != 1:
            raise Refuse('cat', f'{k} of {[v.arr.shape for v in vs]}')
        if any('cut' in v.tags for v in vs):
            ctx.note('cat of cuts')
        return Val(np.concatenate([v.arr for v in vs], axis=k), [m for v in vs for m in v.ments],
                   frozenset({'cat'}).union(*(v.tags for v in vs)))

    def e_cat(self, env, ctx, k, items):
        ctx and ctx.note('cat')
        return self.join(self.ev(k, env, ctx), [self.value(e, env, ctx) for e in items], ctx)

    def e_catloop(self, env, ctx, k, name, r, body):
        vs = [self.value(body, self.side.define(env, name, x), ctx) for x in self.loop(r, env, ctx)]
        ctx and ctx.note('cat in')
        return self.join(self.ev(k, env, ctx), vs, ctx)

    def f_slice(self, env, ctx, e, *a):
        v = self.value(e, env, ctx)
        k, lo, hi = self.ints(a, env, ctx)
        if not 0 <= k < v.arr.ndim or not 0 <= lo <= hi <= v.arr.shape[k]:
            raise Refuse('slice', f'{lo}..{hi} of dimension {k} of {v.arr.shape}')
        ctx.note('slice')
        return Val(v.arr[(slice(None),) * k + (slice(lo, hi),)], v.ments, v.tags)

    def f_permute(self, env, ctx, *args):
        if not args:
            raise Refuse('args', 'permute')
        e, *p = args
        v = self.value(e, env, ctx)
        p = self.ints(p, env, ctx)
        if sorted(p) != list(range(v.arr.ndim)):
            raise Refuse('permute', f'{p} of {v.arr.ndim}')
        ctx.note('permute')
        return Val(v.arr.transpose(p), v.ments, v.tags)

    def f_gap(self, env, ctx, *d):
        d = self.ints(d, env, ctx)
        if ctx is None or any(x < 0 for x in d) or len(d) > 8:
            raise Refuse('gap')
        ctx.note('gap')
        bounded(int(np.prod(d, dtype=object)))
        bounded(max(d, default=0))
        return Val(np.full(d, GAP, dtype=np.int64), [])

    def f_cast(self, env, ctx, e):
        v = self.value(e, env, ctx)
        ctx.note('cast')
        return self.change(v, ctx, lambda m: {'cast': True})

    def op(self, e, env, ctx, op):
        v = self.value(e, env, ctx)
        if any(ctx.ments[m]['op'] for m in v.ments):
            raise Refuse('op', 'two on one element')
        ctx.note(op[0])
        return self.change(v, ctx, lambda m: {'op': op})

    def f_neg_exp(self, env, ctx, e):
        if self.side.which != 'infer':
            raise Refuse('op', 'neg_exp on the training side')
        return self.op(e, env, ctx, ('neg_exp', 0.0))

    def f_add(self, env, ctx, e, c):
        c = self.ev(c, env, ctx)
        if not isinstance(c, (int, Dec)):
            raise Refuse('type', 'add')
        return self.op(e, env, ctx, ('add', float(c)))


# -- cuts: (length, parts, which, arguments) -> [(indices kept, name of the part)]
def span(lo, hi):
    return np.arange(lo, hi)


def even(d, n, c):
    if d % n:
        raise Refuse('uneven', f'{d} over {n}')
    return [(span(d // n * c, d // n * (c + 1)), c)]


def chunk(d, n, c):
    s = -(-d // n)
    return [(span(min(d, s * c), min(d, s * (c + 1))), c)]


def balanced(d, n, c):
    lo = d // n * c + min(c, d % n)
    return [(span(lo, lo + d // n + (c < d % n)), c)]


def sizes(d, n, c, t):
    if not isinstance(t, list) or len(t) != n or any(integer(x) < 0 for x in t) or sum(t) != d:
        raise Refuse('cut', f'sizes {t}: {d} over {n}')
    return [(span(sum(t[:c]), sum(t[:c + 1])), c)]


def cyclic(d, n, c, b=1):
    if integer(b) < 1:
        raise Refuse('cut', 'cyclic')
    i = np.arange(d)
    return [(i[i // b % n == c], c)]


def groups_of(n, k):
    """share's argument -> the group of each coordinate, and their number"""
    if isinstance(k, int):
        if k < 1 or n % k:
            raise Refuse('cut', f'share({k}) of {n}')
        k = [k] * (n // k)
    if not isinstance(k, list) or any(integer(x) < 1 for x in k) or sum(k) != n:
        raise Refuse('cut', f'share({k}) of {n}')
    return [g for g, x in enumerate(k) for _ in range(x)], len(k)


def share(d, n, c, k):
    of, count = groups_of(n, k)
    return even(d, count, of[c])


def each(d, n, c, lengths, shares=None):
    if not isinstance(lengths, list) or any(integer(x) < 0 for x in lengths) or sum(lengths) != d:
        raise Refuse('cut', f'each({lengths}) of {d}')
    if shares is not None and (not isinstance(shares, list) or len(shares) != len(lengths)):
        raise Refuse('cut', 'each: one share per section')
    out, at = [], 0
    for i, s in enumerate(lengths):
        [(index, part)] = share(s, n, c, shares[i] if shares else 1)
        out.append((index + at, (i, part)))
        at += s
    return out or [(span(0, 0), 0)]


CUTS = {'even': even, 'chunk': chunk, 'balanced': balanced, 'sizes': sizes, 'cyclic': cyclic, 'share': share,
        'each': each}
