# SPDX-License-Identifier: Apache-2.0
"""Random pairs of layouts.  In: a seed; out: a Case (files, arguments).  Values grow step by step: a step that the
oracle refuses is taken back, so most pairs are valid; what is missing or doubled in the end is repaired or excused."""
import random
import numpy as np
from cases import Case
from oracle import Ctx, Side
from pair import Pair, load_pair
from sugar import Sugar
from syntax import DTYPES, Refuse, parse, parse_expr

LIMIT = 360
EXTENTS = [1, 2, 3, 4, 4, 5, 6, 6, 7, 8, 8, 9, 10, 12, 12, 15, 16]
AXES = ['tp', 'pp', 'dp', 'ep', 'cp', 'x', 'node_2']
WORDS = ['mlp', 'attn', 'norm', 'up_proj', 'gate', 'emb', 'layers', 'w1', 'bias', 'conv.d', 'k v', 'A-log', 'q\\"t', 'n{{b}}',
         '\u00e4', 'x/y', 'star*']


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
                if v.arr.size > LIMIT:
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
        if depth > 0 and roll < 0.22:
            v = self.family(depth)
        if depth > 0 and v is None and roll < 0.55:
            v = self.cat(depth)
        if v is None:
            v = self.leaf()
        if v is None:
            return None
        for _ in range(self.rng.choice([0, 1, 1, 1, 2, 2, 3])):
            v = self.step(v) or v
        return v

    def step(self, v):
        kind = self.rng.choices(['view', 'slice', 'permute', 'op', 'replica', 'gapcat', 'cond', 'def', 'back'],
                                [14, 2, 2, 1.2, 1.2, 1, 0.5, 1.2, 0.4])[0]
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
        if self.sc.dtype not in ('f16', 'bf16', 'f32') or any(m['dtype'] not in ('f16', 'bf16', 'f32') for m in v.ments):
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
        body = v.tmpl.replace('\0', 'w_')
        if not self.sg.try_pre(f'def {name}(w_) = {body};'):
            return None
        i = v.tmpl.index('\0')
        leaf = v.text[i:len(v.text) - (len(v.tmpl) - i - 1)]
        self.sg.defs.append(name)
        return self.sc.make(f'{name}({leaf})', f'{name}(\0)')

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
        return self.wrap(v, f'cat({self.n(k)}, \2, {gap})' if self.rng.random() < 0.6 else f'cat({self.n(k)}, {gap}, \2)')

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
            k = self.rng.choice([1, 1, self.rng.choice([k for k in range(1, n + 1) if n % k == 0])])
            g = n // k
            if left < g:
                break
            m = self.rng.randint(1, min(3, left // g))
            lengths.append(g * m)
            shares.append(k)
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

    def family(self, depth):
        """stack or cat over the members of a family."""
        fam = self.sg.pick_family(self.sc)
        if not fam:
            return None
        var = self.sg.sugar.fresh('e')
        n = fam.count
        rng_text, idx = f'{self.n(0)}..{self.n(n)}', '{' + var + '}'
        order = None
        roll = self.rng.random()
        copies = self.sg.which == 'infer' or self.rng.random() < 0.3
        if roll < 0.45:
            order = [self.rng.randrange(n) for _ in range(self.rng.randint(1, n + 2))] if copies and roll < 0.3 else \
                self.rng.sample(range(n), n)
            t = self.sg.sugar.table(order, named=True)
            if roll < 0.2:
                rng_text, idx = f'{self.n(0)}..len({t})', f'{{{t}[{var}]}}'
            else:
                rng_text = t
        leaf = fam.text(idx, self.sc)
        first = order[0] if order else 0
        if roll >= 0.2 or order is None:
            inner = Scope(self.sg, self.sc.mesh, list(self.sc.pins.items()), {**self.sc.binds, var: first}, self.sc.dtype)
        else:
            inner = Scope(self.sg, self.sc.mesh, list(self.sc.pins.items()), {**self.sc.binds, var: 0}, self.sc.dtype)
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
        rep = order is not None and self.sg.which == 'train' and len(set(order)) != len(order)
        body = f'replica {v.text}' if rep else v.text
        self.sc.used |= {fam.prefix}
        if self.rng.random() < 0.3 and v.shapes[0]:
            k = self.rng.randrange(len(v.shapes[0]))
            return self.sc.make(f'cat({self.n(k)}, {var} in {rng_text}, {body})')
        m = len(order) if order else n
        cuts, ds, free = '', [m] * len(self.sc.coords), self.sc.free(v)
        self.rng.shuffle(free)
        while free and self.rng.random() < 0.6:
            c, ds = self.cut(*free.pop(), ds)
            cuts += c
        return self.sc.make(f'stack({var} in {rng_text}{cuts}, {body})')


class Family:
    """Tensors of one shape under prefix.0, prefix.1, ...; count None: a single tensor."""

    def __init__(self, prefix, count, dtype, shape):
        self.prefix, self.count, self.dtype, self.shape = prefix, count, dtype, shape
        self.suffix = ''

    def names(self):
        return [self.prefix] if self.count is None else [f'{self.prefix}.{i}{self.suffix}' for i in range(self.count)]

    def text(self, idx, sc):
        return f'"{self.prefix}.{idx}{self.suffix}"'


class Item:
    """One buffer statement with what surrounds it; \\1 stands for the value."""

    def __init__(self, text, value, used):
        self.text, self.value, self.used = text, value, used

    def render(self):
        return self.text.replace('\1', self.value)


class SideGen:
    def __init__(self, g, which):
        self.g, self.rng, self.which = g, g.rng, which
        self.defines = {}
        self.side = Side(which, self.defines)
        self.pre, self.items, self.skips, self.defs = [], [], [], []
        self.sugar = Sugar(self)
        self.meshes, self.count, self.budget = [], 0, {}

    def try_pre(self, text):
        try:
            self.side.env = self.side.run(parse(text.encode('utf-8')), self.side.env, None, '.', True)
        except Refuse:
            return False
        self.pre.append(text)
        return True

    # -- which tensors a value may use
    def pick(self, sc):
        fams = [f for f in self.g.fams if self.fits(f, sc)]
        if not fams:
            return None
        f = self.rng.choice(fams)
        sc.used.add(f.prefix)
        if f.count is None:
            self.spend(f)
            return self.sugar.s(f.prefix)
        loop = [b for b, x in sc.binds.items() if b.startswith('l') and sc.loop_count <= f.count] \
            if hasattr(sc, 'loop_count') else []
        if loop:
            self.spend(f)
            return f.text('{' + loop[0] + '}', sc)
        return f.text(self.n_in_string(self.rng.randrange(f.count)), sc)

    def n_in_string(self, i):
        return str(i) if self.rng.random() < 0.7 else '{' + self.sugar.n(i) + '}'

    def spend(self, f):
        self.budget[f.prefix] = self.budget.get(f.prefix, 0) + 1

    def fits(self, f, sc):
        if f.dtype != sc.dtype and not self.castable(f.dtype, sc.dtype):
            return False
        if f.dtype != sc.dtype and self.rng.random() < 0.7:
            return False
        if self.which == 'infer' or not self.budget.get(f.prefix):
            return True
        return self.rng.random() < 0.1

    def castable(self, tensor, buffer):
        src, dst = (tensor, buffer) if self.which == 'infer' else (buffer, tensor)
        floats = ('f16', 'bf16', 'f32', 'f64')
        return dst in floats and (src in floats or src.startswith('f8'))

    def pick_family(self, sc):
        fams = [f for f in self.g.fams if f.count and f.count > 0 and f.dtype == sc.dtype and
                (self.which == 'infer' or not self.budget.get(f.prefix) or self.rng.random() < 0.1)]
        if not fams:
            return None
        f = self.rng.choice(fams)
        self.spend(f)
        return f

    # -- meshes
    def make_meshes(self):
        n = self.rng.choice([1, 2, 2, 3, 4, 4, 6, 8])
        ranks = None
        if self.rng.random() < 0.4:
            lo = self.rng.randint(0, 2)
            ranks = self.rng.sample(range(lo, lo + n + self.rng.randint(0, 2)), n)
            if self.rng.random() < 0.5:
                ranks.sort()
        self.add_mesh(n, ranks)
        all_ranks = ranks or list(range(n))
        for _ in range(self.rng.choice([0, 0, 1, 1, 2])):
            if self.rng.random() < 0.6:
                other = list(all_ranks)
                if self.rng.random() < 0.3:
                    self.rng.shuffle(other)
            else:
                other = self.rng.sample(all_ranks, self.rng.randint(1, n))
            self.add_mesh(len(other), other)
        if self.rng.random() < 0.15:
            w = max(max(m.ranks) for m in self.side.meshes) + 1 + self.rng.randint(0, 2)
            self.try_pre(f'world {self.sugar.n(w)};')

    def add_mesh(self, n, ranks):
        sizes, left = [], n
        while left > 1:
            d = self.rng.choice([d for d in range(2, left + 1) if left % d == 0])
            sizes.append(d)
            left //= d
        if not sizes or self.rng.random() < 0.2:
            sizes.insert(self.rng.randint(0, len(sizes)), 1)
        names = self.rng.sample(AXES, len(sizes))
        axes = ', '.join(f'{a}: {self.sugar.n(s)}' for a, s in zip(names, sizes))
        name = self.sugar.fresh('m')
        text = f'mesh {name} [{axes}]'
        if ranks is not None and (ranks != list(range(n)) or self.rng.random() < 0.3):
            text += ' ranks ' + self.rank_list(ranks)
        assert self.try_pre(text + ';'), text
        self.meshes.append(self.side.meshes[-1])

    def rank_list(self, ranks):
        out, i = [], 0
        while i < len(ranks):
            j = i + 1
            while j < len(ranks) and ranks[j] == ranks[j - 1] + 1:
                j += 1
            if j - i > 1 and self.rng.random() < 0.7:
                out.append(f'{self.sugar.n(ranks[i])}..{self.sugar.n(ranks[j - 1] + 1)}')
                i = j
            elif self.rng.random() < 0.3:
                k = self.rng.randint(i + 1, len(ranks))
                out.append(self.sugar.table(ranks[i:k]))
                i = k
            else:
                out.append(self.sugar.n(ranks[i]))
                i += 1
        return ', '.join(out)

    # -- buffers
    def new_name(self):
        self.count += 1
        w = self.rng.choice(WORDS)
        return f'{w}.b{self.count}' if self.rng.random() < 0.7 else f'b{self.count}'

    def make_buffer(self, fam=None):
        """fam: one that this buffer should hold."""
        mesh = self.rng.choice(self.meshes)
        pins = [(a, self.rng.randrange(n)) for a, n in mesh.axes if self.rng.random() < 0.12]
        dtype = fam.dtype if fam else self.rng.choice(self.g.fams).dtype
        if fam and self.rng.random() < 0.15:
            near = [d for d in ('f16', 'bf16', 'f32', 'f64', 'f8e4m3', 'f8e5m2') if self.castable(fam.dtype, d)]
            dtype = self.rng.choice(near) if near else dtype
        if fam and fam.count and self.rng.random() < 0.55:
            return self.loop_buffer(fam, mesh, pins, dtype)
        sc = Scope(self, mesh, pins, {}, dtype)
        v = Grower(self.g, sc).grow(self.rng.choice([0, 1, 1, 2]))
        if not v:
            return
        self.emit(sc, v, self.new_name(), pins, [])

    def loop_buffer(self, fam, mesh, pins, dtype):
        """One statement per member: for l { on m[...] { buffer "b.{l}" = ...; } }, perhaps spread over an axis."""
        var = self.sugar.fresh('l')
        n, name = fam.count, self.new_name()
        free = [(a, k) for a, k in mesh.axes if a not in dict(pins)]
        spread = free and self.rng.random() < 0.4 and n > 0
        vals = {var: 0}
        local = '{' + var + '}'
        extra = []
        if spread:
            a, k = self.rng.choice(free)
            st = self.sugar.table([1 + (n - 1 if i == 0 else 0) for i in range(1)] if k == 1 else
                                  Grower.parts(self, n, k), named=True)
            where = f'bucket({st}, {var})'
            if self.rng.random() < 0.3:
                where = f'{var} % {self.sugar.n(k, True)}'
            elif self.rng.random() < 0.6:
                local = f'{{{var} - start({st}, bucket({st}, {var}))}}'
            extra = [(a, where)]
        inner = [(a, c) for a, c in pins]
        sc = Scope(self, mesh, inner + [(a, 0) for a, _ in extra], vals, dtype)
        sc.loop_count = n
        gr = Grower(self.g, sc)
        self.spend(fam)
        sc.used.add(fam.prefix)
        v = sc.make(fam.text('{' + var + '}', sc), '\0')
        if not v:
            return
        if fam.dtype != dtype:
            v = gr.wrap(v, 'cast(\2)')
            sc.stated = True
        for _ in range(self.rng.choice([0, 1, 1, 2, 3])):
            v = gr.step(v) or v
        if self.rng.random() < 0.3 and v.shapes[0]:
            k = self.rng.randrange(len(v.shapes[0]))
            w = gr.mate(v, k)
            v = (w and sc.make(f'cat({k}, {v.text}, {w})')) or v
        self.emit(sc, v, f'{name}.{local}', pins, [(var, n)], extra)

    def emit(self, sc, v, name, pins, loops, extra=()):
        dtype = f' {sc.dtype}' if sc.stated or self.rng.random() < 0.15 or not v.ments else ''
        r = self.rng.random()
        stmt = f'buffer "{name}"{dtype} = \1;'
        if not dtype and not loops and v.text.startswith('"') and r < 0.5:
            leaf = v.text[:v.text.index('"', 1) + 1]
            rest = v.text[len(leaf):]
            if v.tmpl and v.tmpl[0] == '\0' and v.tmpl[1:] == rest and rest.count('[') <= 1 + rest.count(':[') and \
                    self.fresh_name(leaf) and '{' not in leaf:
                stmt = f'buffer {leaf}{rest};'
        pin = [f'{a} = {self.sugar.n(c)}' for a, c in pins] + [f'{a} = {w}' for a, w in extra]
        self.rng.shuffle(pin)
        m = sc.mesh.name
        split = self.rng.randint(0, len(pin)) if self.rng.random() < 0.3 else len(pin)
        if split < len(pin):
            stmt = f'on [{", ".join(pin[split:])}] {{ {stmt} }}'
        if self.rng.random() < 0.12:
            stmt = f'if {self.sugar.n(1)} {{ {stmt} }} else {{ buffer "never" = "never"; }}' if r < 0.5 else \
                f'if {self.sugar.n(0)} {{ buffer "never" = "x"; }} else if {self.sugar.n(2)} > 1 {{ {stmt} }}'
        head = f'on {m}[{", ".join(pin[:split])}]' if pin[:split] else f'on {m}'
        if not loops:
            text = f'{head} {{ {stmt} }}'
        else:
            var, n = loops[0]
            over = f'{self.sugar.n(0)}..{self.sugar.n(n)}' if r < 0.7 else \
                self.sugar.table(self.rng.sample(range(n), n))
            text = f'for {var} in {over} {{ {head} {{ {stmt} }} }}'
            if not extra and r < 0.5:
                text = f'{head} {{ for {var} in {over} {{ {stmt} }} }}'
        item = Item(text, v.text, set(sc.used) | {m_['tensor'].rsplit('.', 1)[0] for m_ in v.ments})
        keep = len(self.side.bufs)
        try:
            self.side.run(parse(item.render().encode('utf-8')), self.side.env, None, '.', True)
            for b in self.side.bufs[keep:]:
                for i in range(len(b.mesh.ranks)):
                    c = b.mesh.coords(i)
                    if all(c[a] == k for a, k in b.pins.items()):
                        x, ctx = self.side.value(b, c)
                        self.side.buffer_dtype(b, x, ctx)
        except Refuse:
            del self.side.bufs[keep:]
            return
        self.items.append(item)

    def fresh_name(self, leaf):
        used = getattr(self, 'short', set())
        self.short = used
        if leaf in used:
            return False
        used.add(leaf)
        return True


class Generator:
    def __init__(self, seed):
        self.seed, self.rng = seed, random.Random(seed)
        self.fams = []
        self.sides = {w: SideGen(self, w) for w in ('train', 'infer')}
        self.case = Case(seed)

    def make_tensors(self):
        words = self.rng.sample(WORDS, self.rng.randint(2, 5))
        base = self.rng.choice(list(DTYPES))
        for i, w in enumerate(words):
            dtype = base if self.rng.random() < 0.5 else self.rng.choice(list(DTYPES))
            nd = self.rng.choices([0, 1, 2, 3, 4, 5], [1, 4, 6, 4, 1.5, 0.5])[0]
            while True:
                shape = [self.rng.choice(EXTENTS) for _ in range(nd)]
                if nd and self.rng.random() < 0.05:
                    shape[self.rng.randrange(nd)] = 0
                if np.prod(shape, dtype=int) <= 240:
                    break
            count = self.rng.choice([None, None, 2, 3, 4, 5]) if np.prod(shape, dtype=int) <= 80 else None
            f = Family(f'{w}.t{i}', count, dtype, shape)
            if count and self.rng.random() < 0.4:
                f.suffix = self.rng.choice(['.weight', '.w', '_s'])
            self.fams.append(f)
        for f in self.fams:
            for sg in self.sides.values():
                for name in f.names():
                    sg.side.add_tensor(unescape(name), f.dtype, f.shape)

    def tensor_text(self, f, sg):
        s = sg.sugar
        dims = ', '.join(s.n(d) for d in f.shape)
        if f.count is None:
            return f'tensor {s.literal_string(f.prefix)} {f.dtype} [{dims}];'
        if self.rng.random() < 0.8:
            v = s.fresh('i')
            return f'for {v} in 0..{s.n(f.count)} {{ tensor "{f.prefix}.{{{v}}}{f.suffix}" {f.dtype} [{dims}]; }}'
        return ' '.join(f'tensor "{n}" {f.dtype} [{dims}];' for n in f.names())

    def catalogue(self, fams):
        out = ['reshard-model: 1', 'name: random', f'dtype: {self.rng.choice(["bf16", "f32"])}',
               'constants: {CN: 3, CT: [0, 2, 1], CS: "text"}', 'tensors:']
        for f in fams:
            y = [f'name: "{yaml_name(f)}"', f'shape: [{", ".join(map(str, f.shape))}]', f'dtype: {f.dtype}']
            if f.count:
                over = f'0..{f.count}'
                if f.count == 3:
                    over = self.rng.choice(['0..CN', '[0, 1, 2]', '0..CN + 0'])
                y.insert(1, f'for: {{k: {over}}}')
            out.append('  - {' + ', '.join(y) + '}')
        return '\n'.join(out) + '\n'

    def make(self):
        rng = self.rng
        self.make_tensors()
        listed = [f for f in self.fams if rng.random() < 0.5] if rng.random() < 0.2 else []
        how = rng.choice(['model', 'option']) if listed else None
        if listed:
            self.case.files['cat.yaml'] = self.catalogue(listed)
            for sg in self.sides.values():
                for k, x in (('CN', 3), ('CT', [0, 2, 1]), ('CS', 'text')):
                    sg.side.env = (sg.side.env, k, x)
        for sg in self.sides.values():
            sg.make_meshes()
            todo = list(self.fams)
            rng.shuffle(todo)
            for f in todo:
                for _ in range(3):
                    if sg.budget.get(f.prefix) and rng.random() < 0.9:
                        break
                    sg.make_buffer(f)
            if sg.which == 'infer':
                for _ in range(rng.choice([0, 1, 2])):
                    sg.make_buffer()
        if how == 'option':
            self.case.models = ['cat.yaml']
        self.decls = {}
        for w, sg in self.sides.items():
            mine = [self.tensor_text(f, sg) for f in self.fams if f not in listed]
            self.decls[w] = mine
        self.how, self.repairs = how, 0
        self.order = {w: self.arrange(w) for w in self.sides}
        self.options()
        for _ in range(6):
            self.write()
            try:
                pair = self.case.load()
            except Refuse as e:
                self.case.note = f'{e}'
                return self.case
            if not self.repair(pair):
                break
        return self.case

    def arrange(self, w):
        """A fixed random order of statement groups, and which of them move to an included file."""
        rng = self.rng
        return {'late': rng.random() < 0.3, 'include': rng.random() < 0.25, 'need': rng.random() < 0.5,
                'cut': rng.random(), 'crlf': rng.random() < 0.05, 'dir': rng.random() < 0.3, 'assert': rng.random() < 0.3,
                'shuffle': rng.random() < 0.2, 'salt': rng.random()}

    def write(self):
        for w, sg in self.sides.items():
            o = self.order[w]
            head = ['model "cat.yaml";'] if self.how == 'model' else []
            pre = [p for p in sg.pre]
            uses = [i.render() for i in sg.items]
            if o['shuffle']:
                random.Random(o['salt']).shuffle(uses)
            skips = [f'skip "{s}";' for s in sg.skips]
            decl = self.decls[w]
            stmts = pre + (uses + skips + decl if o['late'] else decl + uses + skips)
            if o['assert']:
                stmts.insert(len(pre), 'assert 1 + 1 == 2, "sum {1 + 1}";')
            if o['include']:
                k = int(o['cut'] * len(stmts))
                inc, stmts = stmts[k:], stmts[:k]
                need = ['need ' + ', '.join(sg.sugar.names[:2]) + ';'] if o['need'] and k >= len(pre) and sg.sugar.names else []
                place = 'inc/' if o['dir'] else ''
                self.case.files[f'{place}{w}.inc'] = '\n'.join(need + inc) + '\n'
                if o['dir']:
                    self.case.incdirs = ['inc']
                stmts.append(f'include "{w}.inc";')
            text = '\n'.join(['# ' + w] + head + stmts) + '\n'
            self.case.files[f'{w}.layout'] = text.replace('\n', '\r\n') if o['crlf'] else text
        both = set(self.sides['train'].sugar.names) & set(self.sides['infer'].sugar.names)
        self.case.defines = [(('' if self.order[w]['salt'] < 0.5 and k not in both else w + '.') + k, v)
                             for w, sg in self.sides.items() for k, v in sg.defines.items()]

    def repair(self, pair):
        """Makes the pair acceptable; False if there was nothing to do."""
        self.repairs += 1
        t, i = self.sides['train'], self.sides['infer']

        def names(mask):
            return [pair.names[k] for k in np.unique(pair.owner[np.nonzero(mask)[0]])]
        bad = names(pair.double)
        for item in t.items:
            if any(u in b or u == b for u in map(unescape, item.used) for b in bad) and '\1' in item.text and \
                    not item.value.startswith('replica ('):
                item.value = f'replica ({item.value})'
        if bad and self.repairs > 2:
            t.items = [x for x in t.items if '\1' in x.text or not any(unescape(u) in b for u in x.used for b in bad)]
        missing = names(pair.missing)
        for nm in missing:
            if self.rng.random() < 0.25:
                t.skips.append(escape(nm) if '*' not in nm else escape(nm).replace('*', '[*]'))
            else:
                m = self.rng.choice(t.meshes)
                t.count += 1
                t.items.append(Item(f'on {m.name} {{ buffer "fix{t.count}" = \1; }}', f'replica "{escape(nm)}"', {nm}))
        extra = names(pair.unwanted)
        for nm in extra:
            if self.rng.random() < 0.5:
                i.skips.append(escape(nm) if '*' not in nm else escape(nm).replace('*', '[*]'))
            else:
                m = self.rng.choice(i.meshes)
                i.count += 1
                i.items.append(Item(f'on {m.name} {{ buffer "fix{i.count}" = \1; }}', f'"{escape(nm)}"', {nm}))
        return bool(bad or missing or extra)

    # -- cluster and options of the compile
    def options(self):
        rng, case = self.rng, self.case
        worlds = {}
        for w, sg in self.sides.items():
            s = sg.side
            worlds[w] = max([1 + max(max(m.ranks) for m in s.meshes)] + ([s.world_stmt] if s.world_stmt else []))
        roll = rng.random()
        if roll < 0.45:
            case.cluster = 'cluster.yaml'
            case.files['cluster.yaml'] = self.cluster(worlds, 'same' if roll < 0.25 else 'apart' if roll < 0.35 else 'mixed')
        if rng.random() < 0.4:
            case.args += ['--staging', rng.choice(['4KiB', '16KiB', '64KiB'])]
        if rng.random() < 0.2:
            case.args += ['--max-ops', str(rng.choice([64, 128]))]

    def cluster(self, worlds, how):
        gpus = self.rng.choice([1, 2, 3, 4, 8])
        head = ['reshard-cluster: 1', 'links:', '  nvlink: {bandwidth: 450e9, latency: 2e-6}',
                '  network: {bandwidth: 50e9, latency: 5e-6}', '  memory: {bandwidth: 3.3e12}', 'hosts:']
        rack = ', domain: "rack[0-1]"' if how == 'apart' and self.rng.random() < 0.3 else ''

        def hosts(prefix, n, g):
            return f'  - {{names: "{prefix}[00-{n - 1:02d}]", gpus: {g}, nics: {self.rng.choice([1, g])}}}'
        if how == 'same':
            n = -(-max(worlds.values()) // gpus)
            return '\n'.join(head + [hosts('h', n, gpus), f'train: "h[00-{n - 1:02d}]"', f'infer: "h[00-{n - 1:02d}]"']) + '\n'
        a, b = (-(-worlds[w] // gpus) for w in ('train', 'infer'))
        if how == 'apart':
            return '\n'.join(head + [hosts('t', a, gpus), hosts('i', b, gpus), f'train: "t[00-{a - 1:02d}]"',
                                     f'infer: "i[00-{b - 1:02d}]"']) + '\n'
        total = worlds['train'] + worlds['infer']
        n = -(-total // gpus)
        all_gpus = [f'h{k // gpus:02d}:{k % gpus}' for k in range(n * gpus)]
        pick = {w: self.rng.sample(all_gpus, worlds[w]) for w in worlds}
        return '\n'.join(head + [hosts('h', n, gpus)] + [f'{w}: "{",".join(p)}"' for w, p in pick.items()]) + '\n'


def unescape(s):
    """Source form of a name -> its bytes as latin-1."""
    return s.replace('\\"', '"').replace('{{', '{').replace('}}', '}').encode('utf-8').decode('latin-1')


def escape(s):
    return s.encode('latin-1').decode('utf-8').replace('"', '\\"').replace('{', '{{').replace('}', '}}')


def yaml_name(f):
    return f.prefix if f.count is None else f'{f.prefix}.{{k}}{f.suffix}'


def generate(seed):
    return Generator(seed).make()
