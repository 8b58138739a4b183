# SPDX-License-Identifier: Apache-2.0
"""One random side: meshes, buffers, the statements around them."""
from grow import Grower, Scope
from oracle import Side
from sugar import Sugar
from syntax import Refuse, parse

EXTENTS = [1, 2, 3, 4, 4, 5, 6, 6, 7, 8, 8, 9, 10, 12, 12, 15, 16]
AXES = ['tp', 'pp', 'dp', 'ep', 'cp', 'x', 'node_2', 'data', 'model', 'len', 'in']
WORDS = ['mlp', 'attn', 'norm', 'up_proj', 'gate', 'emb', 'layers', 'w1', 'bias', 'conv.d', 'k v', 'A-log', 'q\\"t', 'n{{b}}',
         '\u00e4', 'x/y', 'star*']


class Family:
    """Tensors of one shape under prefix.0, prefix.1, ...; count None: a single tensor."""

    def __init__(self, prefix, count, dtype, shape):
        self.prefix, self.count, self.dtype, self.shape = prefix, count, dtype, shape
        self.suffix, self.inner = '', None

    def names(self):
        if self.count is None:
            return [self.prefix]
        inner = [''] if self.inner is None else [f'.{j}' for j in range(self.inner)]
        return [f'{self.prefix}.{i}{j}{self.suffix}' for i in range(self.count) for j in inner]

    def text(self, idx, j=0):
        return f'"{self.prefix}.{idx}{"" if self.inner is None else f".{j}"}{self.suffix}"'


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
        self.meshes, self.count, self.budget, self.plain = [], 0, {}, False

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
            return self.member(f, '{' + loop[0] + '}', self.rng.randrange(f.inner or 1))
        return self.member(f, self.n_in_string(self.rng.randrange(f.count)), self.rng.randrange(f.inner or 1))

    def member(self, f, idx, j=0):
        """The name of a member, sometimes by a function of its numbers."""
        if self.rng.random() > 0.08:
            return f.text(idx, j)
        name = self.sugar.fresh('h')
        args = '(i_, j_)' if f.inner else '(i_)'
        if not self.try_pre(f'def {name}{args} = {f.text("{i_}", "{j_}")};'):
            return f.text(idx, j)
        given = [str(x).strip('{}') for x in ((idx, j) if f.inner else (idx,))]
        return f'{name}({", ".join(given)})'

    def n_in_string(self, i):
        return str(i) if self.rng.random() < 0.7 else '{' + self.sugar.n(i) + '}'

    def spend(self, f):
        self.budget[f.prefix] = self.budget.get(f.prefix, 0) + 1

    def fits(self, f, sc):
        if f.dtype != sc.dtype and not self.castable(f.dtype, sc.dtype):
            return False
        if f.dtype != sc.dtype and (self.plain or self.rng.random() < 0.7):
            return False
        if self.plain and (self.budget.get(f.prefix) or f.count or sc.binds):
            return False
        if self.which == 'infer' or not self.budget.get(f.prefix):
            return True
        return self.rng.random() < 0.1

    def castable(self, tensor, buffer):
        src, dst = (tensor, buffer) if self.which == 'infer' else (buffer, tensor)
        floats = ('f16', 'bf16', 'f32', 'f64')
        return dst in floats and (src in floats or src.startswith('f8'))

    def pick_family(self, sc):
        fams = [f for f in self.g.fams if f.count and f.inner is None and f.dtype == sc.dtype and
                (self.which == 'infer' and not self.plain or not self.budget.get(f.prefix) or
                 not self.plain and self.rng.random() < 0.1)]
        if not fams:
            return None
        f = self.rng.choice(fams)
        self.spend(f)
        return f

    # -- meshes
    def make_meshes(self):
        n = self.rng.choice([1, 2, 2, 3, 4, 4, 6, 8])
        if self.rng.random() < 0.03:
            n = self.rng.choice([12, 15, 16, 24, 30])
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
        if fam and not self.plain and self.rng.random() < 0.15:
            near = [d for d in ('f16', 'bf16', 'f32', 'f64', 'f8e4m3', 'f8e5m2') if self.castable(fam.dtype, d)]
            dtype = self.rng.choice(near) if near else dtype
        if fam and fam.count and (self.rng.random() < 0.55 or fam.inner):
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
        if fam.inner is None and self.rng.random() < 0.12:
            return self.name_loop(fam, mesh, pins, dtype, var, name)
        free = [(a, k) for a, k in mesh.axes if a not in dict(pins)]
        loops, binds, local, extra, sub = [(var, n)], {var: 0}, '{' + var + '}', [], 0
        if free and self.rng.random() < 0.4:
            a, k = free.pop(self.rng.randrange(len(free)))
            where, local = self.spread(var, n, k, local)
            extra = [(a, where)]
        if fam.inner and self.rng.random() < 0.4:
            sub = self.sugar.fresh('l')
            loops, binds[sub] = loops + [(sub, fam.inner)], 0
            where, inner_local = f'0', '{' + sub + '}'
            if free and self.rng.random() < 0.6:
                a, k = free.pop(self.rng.randrange(len(free)))
                where, inner_local = self.spread(sub, fam.inner, k, inner_local)
                extra.append((a, where))
            local = f'{local}.{inner_local}'
        sc = Scope(self, mesh, pins + [(a, 0) for a, _ in extra], binds, dtype)
        sc.loop_count = n
        gr = Grower(self.g, sc)
        self.spend(fam)
        sc.used.add(fam.prefix)
        if fam.inner and not sub:
            v = gr.members(fam, '{' + var + '}')
        else:
            v = sc.make(self.member(fam, '{' + var + '}', '{' + str(sub) + '}'), '\0')
            if v and fam.dtype != dtype:
                v = gr.wrap(v, 'cast(\2)')
                sc.stated = True
        if not v:
            return
        for _ in range(self.rng.choice([0, 1, 1, 1, 2, 2, 3, 3, 6])):
            v = gr.step(v) or v
        if self.rng.random() < 0.3 and v.shapes[0] and not self.plain:
            k = self.rng.randrange(len(v.shapes[0]))
            w = gr.mate(v, k)
            v = (w and sc.make(f'cat({k}, {v.text}, {w})')) or v
        self.emit(sc, v, f'{name}.{local}', pins, loops, extra)

    def spread(self, var, n, k, local):
        """Which coordinate of an axis of size k holds member var, and its number there."""
        st = self.sugar.table(Grower.parts(self, n, k), named=True)
        roll = self.rng.random()
        if roll < 0.3:
            return f'{var} % {self.sugar.n(k, True)}', local
        if roll < 0.7:
            local = f'{{{var} - start({st}, bucket({st}, {var}))}}'
        return f'bucket({st}, {var})', local

    def name_loop(self, fam, mesh, pins, dtype, var, name):
        """for n in tensors("glob"): the names themselves are the loop."""
        sc = Scope(self, mesh, pins, {var: unescape(fam.names()[0])}, dtype)
        gr = Grower(self.g, sc)
        v = sc.make(var, '\0')
        if v and fam.dtype != dtype:
            v = gr.wrap(v, 'cast(\2)')
            sc.stated = True
        if not v:
            return
        self.spend(fam)
        sc.used.add(fam.prefix)
        for _ in range(self.rng.choice([0, 1, 1, 2])):
            v = gr.step(v) or v
        glob = self.rng.choice([fam.prefix + '.*', fam.prefix + '.?' + fam.suffix,
                                fam.prefix + '.[0123456789]*'])
        over = f'tensors("{glob}")'
        if self.rng.random() < 0.3:
            t = self.sugar.fresh('T')
            over = f'[{t} for {t} in {over} if len({t}) > 0]'
        self.emit(sc, v, f'{name}.{{{var}}}', pins, [(var, over)])

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
        if stmt.endswith(' = \1;') and v.tmpl and v.tmpl.startswith('\0') and self.rng.random() < 0.08:
            z = self.sugar.fresh('z')
            leaf = v.text[:len(v.text) - len(v.tmpl) + 1]
            if leaf.startswith('"'):
                stmt, v.text = f'let {z} = {leaf}; {stmt}', z + v.tmpl[1:]
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
        text = f'{head} {{ {stmt} }}'
        inside = loops and not extra and r < 0.5
        if inside:
            text = stmt
        for var, n in loops[::-1]:
            over = n if isinstance(n, str) else f'{self.sugar.n(0)}..{self.sugar.n(n)}'
            if not isinstance(n, str) and self.rng.random() < 0.3:
                over = self.sugar.table(self.rng.sample(range(n), n))
            text = f'for {var} in {over} {{ {text} }}'
        if inside:
            text = f'{head} {{ {text} }}'
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


def unescape(s):
    """Source form of a name -> its bytes as latin-1."""
    return s.replace('\\"', '"').replace('{{', '{').replace('}}', '}').encode('utf-8').decode('latin-1')


def escape(s):
    return s.encode('latin-1').decode('utf-8').replace('"', '\\"').replace('{', '{{').replace('}', '}}')


def yaml_name(f):
    return f.prefix if f.count is None else f'{f.prefix}.{{k}}{"" if f.inner is None else ".{j}"}{f.suffix}'
