# SPDX-License-Identifier: Apache-2.0
"""Grows random values.  In: a Scope (mesh, pins, tensors); out: texts that the oracle accepts there."""
import re
import numpy as np
from oracle import Ctx
from syntax import Refuse, parse_expr


class V:
    """text: the expression; tmpl: the same with \\0 for its only leaf, or None; shapes: one per coordinate."""

    def __init__(self, text, tmpl, arrs, ments, axes):
        self.text, self.tmpl, self.axes = text, tmpl, axes
        self.shapes = [a.shape for a in arrs]
        self.size = max(a.size for a in arrs)
        self.ments = ments

    def uniform(self):
        return len(set(self.shapes)) == 1


class Scope:
    """Where a value is grown: mesh, pins, loop variables, and what was used so far."""

    def __init__(self, sg, mesh, pins, binds, dtype):
        self.sg, self.mesh, self.pins, self.dtype = sg, mesh, dict(pins), dtype
        self.binds, self.used = binds, set()
        self.coords = [c for c in (mesh.coords(i) for i in range(len(mesh.ranks)))
                       if all(c[a] == k for a, k in pins)]
        self.stated = False

    def free(self, v=None):
        return [(a, n) for a, n in self.mesh.axes if a not in self.pins and (v is None or a not in v.axes)]

    def eval(self, text, binds=None):
        side = self.sg.side
        env = side.env
        for k, x in (self.binds if binds is None else binds).items():
            env = (env, k, x)
        out = []
        try:
            e = parse_expr(text.encode('utf-8'))
            for c in self.coords:
                ctx = Ctx(side, self.mesh, self.pins, c, len(side.names))
                v = side.ev.value(e, env, ctx)
                if v.arr.size > self.sg.g.limit:
                    return None
                out.append((v, ctx))
        except Refuse:
            return None
        return out

    def make(self, text, tmpl=None):
        out = self.eval(text)
        if not out:
            return None
        ments = [ctx.ments[m] for v, ctx in out[:1] for m in v.ments]
        axes = {a for m in ments for a, _ in m['cuts']}
        return V(text, tmpl, [v.arr for v, _ in out], ments, axes)


class Grower:
    """Values."""

    def __init__(self, g, scope):
        self.g, self.rng, self.sc, self.sg, self.n = g, g.rng, scope, scope.sg, scope.sg.sugar.n

    def leaf(self):
        t = self.sg.pick(self.sc)
        if t is None:
            return None
        v = self.sc.make(t, '\0')
        if v and self.sc.dtype not in {m['dtype'] for m in v.ments}:
            v = self.wrap(v, 'cast(\2)')
            self.sc.stated = True
        return v

    def wrap(self, v, fmt):
        return v and self.sc.make(fmt.replace('\2', v.text), v.tmpl and fmt.replace('\2', v.tmpl))

    def grow(self, depth):
        v = None
        roll = self.rng.random()
        if depth > 0 and roll < 0.33:
            v = self.family(depth)
        if depth > 0 and v is None and roll < 0.55:
            v = self.cat(depth)
        if v is None:
            v = self.leaf()
        if v is None:
            return None
        for _ in range(self.rng.choice([0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 6])):
            v = self.step(v) or v
        return v

    def step(self, v):
        if self.sg.plain:
            kind = self.rng.choice(['view', 'view', 'view', 'permute', 'gapcat', 'def', 'back'])
            return getattr(self, 'step_' + kind)(v)
        kinds = {'view': 14, 'slice': 2, 'permute': 2, 'op': 1.8, 'replica': 1.2, 'gapcat': 1.4, 'cond': 0.5, 'def': 1.2,
                 'back': 0.4, 'use': 0.7, 'twice': 0.3}
        kind = self.rng.choices(list(kinds), list(kinds.values()))[0]
        return getattr(self, 'step_' + kind)(v)

    def step_view(self, v):
        d = self.dims(v)
        if d is None:
            return None
        base = v.text if not v.text.startswith('replica') else f'({v.text})'
        tm = v.tmpl and (v.tmpl if not v.tmpl.startswith('replica') else f'({v.tmpl})')
        return self.sc.make(f'{base}[{d}]', tm and f'{tm}[{d}]')

    def step_slice(self, v):
        k = [i for i in range(len(v.shapes[0])) if min(s[i] for s in v.shapes) >= 1]
        if not k:
            return None
        k = self.rng.choice(k)
        m = min(s[k] for s in v.shapes)
        lo = self.rng.randint(0, m - 1)
        hi = self.rng.randint(lo + (self.rng.random() < 0.95), m)
        if self.sg.which == 'train' and self.rng.random() < 0.5:
            lo, hi = 0, m
        return self.wrap(v, f'slice(\2, {self.n(k)}, {self.n(lo)}, {self.n(hi)})')

    def step_permute(self, v):
        p = list(range(len(v.shapes[0])))
        self.rng.shuffle(p)
        return self.wrap(v, 'permute(\2' + ''.join(', ' + self.n(x) for x in p) + ')') if p else None

    def step_op(self, v):
        if not {self.sc.dtype, *(m['dtype'] for m in v.ments)} <= {'f16', 'bf16', 'f32'}:
            return None
        if self.sg.which == 'infer' and self.rng.random() < 0.5:
            return self.wrap(v, 'neg_exp(\2)')
        return self.wrap(v, f'add(\2, {self.rng.choice(["1", "0.5", "-0.25", "3", "0.1", "-1", "1_0.125"])})')

    def step_replica(self, v):
        return self.wrap(v, 'replica \2') if self.sg.which == 'train' else None

    def step_cond(self, v):
        other = self.leaf()
        c = self.rng.randint(0, 1)
        if not other:
            return None
        a, b = ('\2', other.text) if c else (other.text, '\2')
        return self.wrap(v, f'({self.n(c)} ? {a} : {b})')

    def step_def(self, v):
        """The chain becomes a function of its leaf, under a new name."""
        if not v.tmpl or v.tmpl == '\0' or any(b in v.tmpl for b in self.sc.binds):
            return None
        name = self.sg.sugar.fresh('f')
        body, more, given = v.tmpl.replace('\0', 'w_'), '', ''
        numbers = [m for m in re.finditer(r'(?<![\w.])\d+(?![\w.])', body)] if '"' not in body else []
        if numbers and self.rng.random() < 0.4:
            m = self.rng.choice(numbers)
            body, more, given = body[:m.start()] + 'k_' + body[m.end():], ', k_', ', ' + m.group()
        if not self.sg.try_pre(f'def {name}(w_{more}) = {body};'):
            return None
        i = v.tmpl.index('\0')
        leaf = v.text[i:len(v.text) - (len(v.tmpl) - i - 1)]
        self.sg.defs.append(name)
        return self.sc.make(f'{name}({leaf}{given})', f'{name}(\0{given})')

    def step_use(self, v):
        """A function made before, of a value."""
        return self.sc.make(f'{self.rng.choice(self.sg.defs)}({v.text})') if self.sg.defs else None

    def step_twice(self, v):
        """A function that uses its argument twice: two mentions."""
        if not v.shapes[0]:
            return None
        name, k = self.sg.sugar.fresh('d'), self.rng.randrange(len(v.shapes[0]))
        other = 'w_' if self.sg.which == 'infer' else 'replica w_'
        if not self.sg.try_pre(f'def {name}(w_) = cat({k}, w_, {other});'):
            return None
        return self.sc.make(f'{name}({v.text})')

    def step_back(self, v):
        return self.wrap(v, '\2[..]')

    def step_gapcat(self, v):
        if not v.uniform() or not v.shapes[0]:
            return None
        s = list(v.shapes[0])
        k = self.rng.randrange(len(s))
        s[k] = self.rng.randint(1, 3)
        gap = f'gap({", ".join(map(self.n, s))})'
        v.tmpl = None
        parts = ['\2', gap] if self.rng.random() < 0.6 else [gap, '\2']
        return self.wrap(v, f'cat({self.n(k)}, {", ".join(parts)})')

    # -- views
    def dims(self, v):
        shape = v.shapes[0]
        nd = len(shape)
        roll = self.rng.random()
        if roll < 0.45 or not v.uniform():
            if nd == 0:
                return self.rng.choice(['', '1'])
            if not v.uniform() and roll < 0.2:
                return self.finish([('_', [int(np.prod(s)) for s in v.shapes])], v, False)
            items = [('_', [s[i] for s in v.shapes]) for i in range(nd)]
            if roll > 0.1 and v.uniform():
                items = [(self.n(shape[i]) if self.rng.random() < 0.3 else '_', x) for i, (_, x) in enumerate(items)]
            keep = self.rng.randint(1, nd)
            rest = keep < nd and self.rng.random() < 0.5 or self.rng.random() < 0.1
            return self.finish(items[:keep] if rest else items, v, rest)
        total = int(np.prod(shape)) if nd else 1
        new = self.factor(total, shape)
        items = [(self.n(d), [d] * len(v.shapes)) for d in new]
        if items and total and len(new) != nd and self.rng.random() < 0.4:
            k = self.rng.randrange(len(items))
            items[k] = ('_', items[k][1])
        return self.finish(items, v, False)

    def factor(self, total, shape):
        """New extents: splits of one dimension, a merge of neighbours, or a random factorisation."""
        shape = list(shape)
        roll = self.rng.random()
        if total == 1 and roll < 0.3:
            return []
        if roll > 0.96:
            more = 8 - len(shape) if self.rng.random() < 0.5 else self.rng.randint(1, 4)
            for _ in range(more):
                shape.insert(self.rng.randint(0, len(shape)), 1)
            return shape
        if roll < 0.4 and shape:
            k = self.rng.randrange(len(shape))
            ds = [d for d in range(1, shape[k] + 1) if shape[k] % d == 0]
            if ds:
                a = self.rng.choice(ds)
                return shape[:k] + [a, shape[k] // a] + shape[k + 1:]
        if roll < 0.8 and len(shape) >= 2:
            k = self.rng.randrange(len(shape) - 1)
            return shape[:k] + [shape[k] * shape[k + 1]] + shape[k + 2:]
        if total == 0:
            return [0]
        out, left = [], total
        for _ in range(self.rng.randint(1, 3)):
            d = self.rng.choice([d for d in range(1, left + 1) if left % d == 0])
            out.append(d)
            left //= d
        if left > 1:
            out.append(left)
        return out

    def finish(self, items, v, rest):
        free, out = self.sc.free(v), []
        self.rng.shuffle(free)
        for text, ds in items:
            ds = list(ds)
            if self.rng.random() < 0.08:
                to = max(ds) + self.rng.randint(0, 4)
                text, ds = f'pad({text}, {self.n(to)})', [to] * len(ds)
            while free and self.rng.random() < (0.45 if '@' not in text else 0.3):
                a, n = free.pop()
                cut, ds = self.cut(a, n, ds)
                text += cut
            out.append(text)
        if rest:
            out.append('..')
        return ', '.join(out)

    # -- cuts
    def cut(self, axis, n, ds):
        kinds = ['chunk', 'balanced', 'cyclic', 'cyclicb', 'padded', 'paddedm', 'each']
        if all(d % n == 0 for d in ds):
            kinds += ['even'] * 5
        if len(set(ds)) == 1:
            kinds += ['sizes', 'sizes']
        ks = [k for k in range(1, n + 1) if n % k == 0 and all(d % (n // k) == 0 for d in ds)]
        if ks:
            kinds += ['share', 'share']
        gs = [k for k in range(1, n + 1) if all(d % k == 0 for d in ds)]
        if gs:
            kinds += ['sharelist']
        kind = self.rng.choice(kinds)
        text = getattr(self, 'cut_' + kind)(n, ds, ks, gs)
        if text is None:
            kind, text = 'balanced', ':balanced'
        new = []
        for d, c in zip(ds, self.sc.coords):
            new.append(self.length(axis, text, d, c))
        return f' @{axis}{text}', new

    def length(self, axis, text, d, coords):
        side = self.sg.side
        ctx = Ctx(side, self.sc.mesh, self.sc.pins, coords, 0)
        env = side.env
        for k, x in self.sc.binds.items():
            env = (env, k, x)
        try:
            return side.ev.value(parse_expr(f'gap({d})[_ @{axis}{text}]'), env, ctx).arr.shape[0]
        except Refuse:
            return d

    def cut_even(self, n, ds, ks, gs):
        return ''

    def cut_chunk(self, n, ds, ks, gs):
        return ':chunk'

    def cut_balanced(self, n, ds, ks, gs):
        return ':balanced'

    def cut_cyclic(self, n, ds, ks, gs):
        return ':cyclic'

    def cut_cyclicb(self, n, ds, ks, gs):
        return f':cyclic({self.n(self.rng.randint(1, 4))})'

    def cut_padded(self, n, ds, ks, gs):
        return ':padded'

    def cut_paddedm(self, n, ds, ks, gs):
        return f':padded({self.n(self.rng.randint(1, 4))})'

    def parts(self, total, n, least=0):
        """n numbers of at least `least` that add up to total, or None."""
        if total < least * n:
            return None
        marks = sorted(self.rng.randint(0, total - least * n) for _ in range(n - 1))
        return [b - a + least for a, b in zip([0] + marks, marks + [total - least * n])]

    def cut_sizes(self, n, ds, ks, gs):
        return ':' + self.sg.sugar.table(self.parts(ds[0], n))

    def cut_share(self, n, ds, ks, gs):
        return f':share({self.n(self.rng.choice(ks))})'

    def cut_sharelist(self, n, ds, ks, gs):
        return f':share({self.sg.sugar.table(self.parts(n, self.rng.choice(gs), 1))})'

    def cut_each(self, n, ds, ks, gs):
        """Sections whose lengths suit their shares; the last one is whole on every rank if nothing else fits."""
        if len(set(ds)) != 1:
            return None
        left, lengths, shares = ds[0], [], []
        for _ in range(self.rng.randint(1, 3)):
            g = self.rng.choice([n, n, self.rng.choice([g for g in range(1, n + 1) if n % g == 0]), self.rng.randint(1, n)])
            if left < g:
                break
            m = self.rng.randint(1, min(3, left // g))
            lengths.append(g * m)
            shares.append(n // g if n % g == 0 and self.rng.random() < 0.8 else self.parts(n, g, 1))
            left -= g * m
        if left and left % n == 0:
            lengths, shares, left = lengths + [left], shares + [1], 0
        if left:
            lengths, shares = lengths + [left], shares + [n]
        if not lengths:
            return None
        a = self.sg.sugar.table(lengths)
        if all(k == 1 for k in shares) and self.rng.random() < 0.8:
            return f':each({a})'
        return f':each({a}, {self.sg.sugar.table(shares)})'

    # -- cat, stack
    def cat(self, depth):
        v = self.grow(depth - 1)
        if not v or not v.shapes[0]:
            return v
        k = self.rng.randrange(len(v.shapes[0]))
        texts = [v.text]
        for _ in range(self.rng.choice([1, 1, 2])):
            for _ in range(4):
                w = self.mate(v, k)
                if w and self.sc.make(f'cat({k}, {", ".join(texts + [w])})'):
                    texts.append(w)
                    break
        if len(texts) > 1 and self.rng.random() < 0.5:
            self.rng.shuffle(texts)
        return self.sc.make(f'cat({self.n(k)}, {", ".join(texts)})') or v

    def mate(self, v, k):
        """Another value that fits v on every dimension but k."""
        if v.tmpl and '\0' in v.tmpl and self.rng.random() < 0.6:
            leaf = self.sg.pick(self.sc)
            return leaf and v.tmpl.replace('\0', leaf)
        w = self.leaf() if self.rng.random() < 0.7 else self.grow(1)
        if not w:
            return None
        if not v.uniform() or not w.uniform():
            return w.text
        dims = [self.n(d) for d in v.shapes[0]]
        dims[k] = '_' if self.rng.random() < 0.5 and len(dims) != len(w.shapes[0]) else \
            self.n(w.size // max(1, int(np.prod([d for i, d in enumerate(v.shapes[0]) if i != k]))))
        return f'{w.text}[{", ".join(dims)}]'

    def members(self, fam, idx):
        """All inner members of one member of a family of families."""
        var = self.sg.sugar.fresh('e')
        inner = Scope(self.sg, self.sc.mesh, list(self.sc.pins.items()), {**self.sc.binds, var: 0}, self.sc.dtype)
        gr = Grower(self.g, inner)
        v = inner.make(fam.text(idx, '{' + var + '}'), '\0')
        if v and fam.dtype != self.sc.dtype:
            v = gr.wrap(v, 'cast(\2)')
            self.sc.stated = True
        for _ in range(self.rng.choice([0, 1, 1, 2])):
            w = v and gr.step(v)
            v = w if w and w.tmpl else v
        if not v:
            return None
        over = f'0..{self.n(fam.inner)}' if self.rng.random() < 0.6 else \
            self.sg.sugar.table(self.rng.sample(range(fam.inner), fam.inner))
        if self.rng.random() < 0.3 and v.shapes[0]:
            return self.sc.make(f'cat({self.rng.randrange(len(v.shapes[0]))}, {var} in {over}, {v.text})')
        cuts, ds, free = '', [fam.inner] * len(self.sc.coords), self.sc.free(v)
        self.rng.shuffle(free)
        while free and self.rng.random() < 0.6:
            c, ds = self.cut(*free.pop(), ds)
            cuts += c
        return self.sc.make(f'stack({var} in {over}{cuts}, {v.text})')

    def joined(self, gr, v, fam, idx, least):
        """v beside the same of another family, under one loop: [gate; up] of each expert."""
        fams = [f for f in self.g.fams if f is not fam and f.inner is None and (f.count or 0) >= least and
                f.dtype == fam.dtype and not (self.sg.plain and self.sg.budget.get(f.prefix))]
        if not fams or not v.tmpl or not v.shapes[0]:
            return None
        other = self.rng.choice(fams)
        w = v.tmpl.replace('\0', self.sg.member(other, idx))
        if self.sg.which == 'train' and self.sg.budget.get(other.prefix):
            w = f'replica {w}'
        self.sg.spend(other)
        self.sc.used.add(other.prefix)
        return gr.sc.make(f'cat({self.rng.randrange(len(v.shapes[0]))}, {v.text}, {w})')

    def nested(self):
        """stack over the members of a family of families."""
        fams = [f for f in self.g.fams if f.inner and self.sg.fits(f, self.sc)]
        if not fams or self.sg.plain and self.sc.binds:
            return None
        fam, var = self.rng.choice(fams), self.sg.sugar.fresh('e')
        self.sg.spend(fam)
        self.sc.used.add(fam.prefix)
        inner = Scope(self.sg, self.sc.mesh, list(self.sc.pins.items()), {**self.sc.binds, var: 0}, self.sc.dtype)
        v = Grower(self.g, inner).members(fam, '{' + var + '}')
        self.sc.stated |= inner.stated
        if not v:
            return None
        cuts, ds, free = '', [fam.count] * len(self.sc.coords), self.sc.free(v)
        self.rng.shuffle(free)
        while free and self.rng.random() < 0.6:
            c, ds = self.cut(*free.pop(), ds)
            cuts += c
        return self.sc.make(f'stack({var} in 0..{self.n(fam.count)}{cuts}, {v.text})')

    def family(self, depth):
        """stack or cat over the members of a family."""
        if self.rng.random() < 0.3:
            return self.nested()
        fam = self.sg.pick_family(self.sc)
        if not fam:
            return None
        var = self.sg.sugar.fresh('e')
        n = fam.count
        rng_text, idx = f'{self.n(0)}..{self.n(n)}', '{' + var + '}'
        order = None
        roll = self.rng.random()
        copies = (self.sg.which == 'infer' or self.rng.random() < 0.3) and not self.sg.plain
        if roll < 0.45:
            order = [self.rng.randrange(n) for _ in range(self.rng.randint(1, n + 2))] if copies and roll < 0.3 else \
                self.rng.sample(range(n), n)
            t = self.sg.sugar.table(order, named=True)
            if roll < 0.2:
                rng_text, idx = f'{self.n(0)}..len({t})', f'{{{t}[{var}]}}'
            else:
                rng_text = t
        leaf = self.sg.member(fam, idx)
        first = order[0] if order and roll >= 0.2 else 0
        inner = Scope(self.sg, self.sc.mesh, list(self.sc.pins.items()), {**self.sc.binds, var: first}, self.sc.dtype)
        gr = Grower(self.g, inner)
        v = inner.make(leaf, '\0')
        if v and self.sc.dtype not in {m['dtype'] for m in v.ments}:
            v = gr.wrap(v, 'cast(\2)')
            self.sc.stated = True
        if not v:
            return None
        for _ in range(self.rng.choice([0, 1, 1, 2])):
            w = gr.step(v)
            v = w if w and w.tmpl else v
        pair = self.rng.random() < 0.6 and self.joined(gr, v, fam, idx, max(order) + 1 if order else n)
        v = pair or v
        rep = order is not None and self.sg.which == 'train' and len(set(order)) != len(order)
        body = f'replica {v.text}' if rep else v.text
        self.sc.used |= {fam.prefix}
        if self.rng.random() < 0.4 and v.shapes[0]:
            k = self.rng.randrange(len(v.shapes[0]))
            return self.sc.make(f'cat({self.n(k)}, {var} in {rng_text}, {body})')
        m = len(order) if order else n
        cuts, ds, free = '', [m] * len(self.sc.coords), self.sc.free(v)
        self.rng.shuffle(free)
        while free and self.rng.random() < 0.6:
            c, ds = self.cut(*free.pop(), ds)
            cuts += c
        return self.sc.make(f'stack({var} in {rng_text}{cuts}, {body})')
