# SPDX-License-Identifier: Apache-2.0
"""Other ways to write an integer, a string or a table in the layout language, with the statements they need."""
from syntax import Refuse, parse_expr


class Sugar:
    def __init__(self, sg):
        self.sg, self.rng, self.k, self.names = sg, sg.rng, 0, []
        self.known = {}

    def fresh(self, prefix):
        self.k += 1
        return f'{prefix}{self.k}'

    def const(self, prefix, text, value):
        """A name for text, by let or param."""
        name = self.fresh(prefix)
        roll = self.rng.random()
        if roll < 0.55:
            ok = self.sg.try_pre(f'let {name} = {text};')
        elif roll < 0.8 or isinstance(value, list):
            ok = self.sg.try_pre(f'param {name} = {text};')
        else:
            self.sg.defines[name] = self.literal(value)
            self.sg.side.defines[name] = self.literal(value).encode('utf-8').decode('latin-1')
            other = '"other"' if isinstance(value, str) else str(self.rng.randint(0, 9))
            ok = self.sg.try_pre(f'param {name} = {other};')
        assert ok, text
        self.names.append(name)
        return name

    def literal(self, value):
        return value if isinstance(value, str) else str(value)

    # -- integers
    def n(self, v, atom=False):
        """Text of an expression with the value v; atom: one that needs no brackets."""
        if self.rng.random() < 0.86:
            return str(v)
        text = getattr(self, 'n_' + self.rng.choice(
            ['let', 'let', 'let', 'mul', 'add', 'sub', 'div', 'mod', 'ceildiv', 'max', 'min', 'len', 'sum', 'index', 'cond',
             'start', 'bucket', 'wild', 'wild', 'comp', 'fn', 'char', 'neg', 'lenstr', 'word', 'tensors']))(int(v))
        if text is None:
            return str(v)
        try:
            got = self.sg.side.ev.const(parse_expr(text.encode('utf-8')), self.sg.side.env)
        except Refuse:
            return str(v)
        assert got == v, (text, got, v)
        return f'({text})' if atom or self.rng.random() < 0.4 else text

    def n_let(self, v):
        if v in self.known and self.rng.random() < 0.6:
            return self.known[v]
        self.known[v] = self.const('N', str(v), v)
        return self.known[v]

    def n_mul(self, v):
        ds = [d for d in range(1, v + 1) if v % d == 0] or [1]
        d = self.rng.choice(ds)
        return f'{d}*{v // d}'

    def n_add(self, v):
        a = self.rng.randint(-3, 9)
        return f'{a} + {v - a}' if v >= a else f'{a} + -{a - v}'

    def n_sub(self, v):
        a = self.rng.randint(0, 9)
        return f'{v + a} - {a}'

    def n_div(self, v):
        k = self.rng.randint(1, 5)
        if self.rng.random() < 0.2:
            return f'-({-v * k + 0}) / {k}' if v == 0 else f'{-v * k - self.rng.randint(0, k - 1)} / -{k}' \
                if False else f'({v * k + self.rng.randint(0, k - 1)}) / {k}'
        return f'{v * k + self.rng.randint(0, k - 1)} / {k}'

    def n_mod(self, v):
        m = v + self.rng.randint(1, 5)
        return f'{v - m * self.rng.randint(0, 2)} % {m}'

    def n_ceildiv(self, v):
        k = self.rng.randint(1, 5)
        return f'ceildiv({max(0, v * k - self.rng.randint(0, k - 1))}, {k})' if v > 0 else 'ceildiv(0, 3)'

    def n_max(self, v):
        return f'max({v}, {v - self.rng.randint(0, 3)})'

    def n_min(self, v):
        return f'min({v + self.rng.randint(0, 3)}, {v}, {v + 1})'

    def n_len(self, v):
        return f'len([{", ".join(["7"] * v)}])' if v <= 6 else None

    def n_lenstr(self, v):
        return f'len("{"a" * v}")' if v != 2 else 'len("\u00e4")'

    def n_sum(self, v):
        a = self.rng.randint(0, v)
        return f'sum([{a}, {v - a}])'

    def n_index(self, v):
        t = [self.rng.randint(0, 9) for _ in range(3)]
        k = self.rng.randrange(3)
        t[k] = v
        if self.rng.random() < 0.2:
            return f'[[1, 2], {t}][1][{k}]'
        return f'{self.table(t, named=True)}[{k}]'

    def n_cond(self, v):
        return f'{self.rng.choice(["1", "2 > 1", "!0", "1 && 1"])} ? {v} : 1 / 0' if self.rng.random() < 0.5 else \
            f'3 <= 2 || 0 ? 1 / 0 : {v}'

    def n_start(self, v):
        a = self.rng.randint(0, v)
        return f'start([{a}, {v - a}, 4], 2)'

    def n_bucket(self, v):
        return f'bucket([{", ".join(["2"] * (v + 1))}], {2 * v + 1})' if v <= 5 else None

    def n_comp(self, v):
        if v > 12:
            return None
        x = self.fresh('c')
        if self.rng.random() < 0.5:
            return f'len([{x} for {x} in 0..{v}])'
        return f'len([{x} * 2 for {x} in 0..{2 * v} if {x} % 2 == {self.rng.randint(0, 1)}])'

    def n_fn(self, v):
        f, x = self.fresh('g'), self.fresh('a')
        k = self.rng.randint(0, 5)
        if not self.sg.try_pre(f'def {f}({x}) = {x} + {k};'):
            return None
        return f'{f}({v - k})'

    def n_char(self, v):
        return f'char("xyz", 1) == "y" ? {v} : 0' if self.rng.random() < 0.5 else f'"a" != "b" ? {v} : 0'

    def n_neg(self, v):
        return f'-(-{v})' if self.rng.random() < 0.5 else f'- -{v}'

    def n_word(self, v):
        """Rule words and dtypes are names elsewhere."""
        w = self.rng.choice(['chunk', 'balanced', 'cyclic', 'f32', 'bf16', 'u8', 'share', 'each', 'padded'])
        if w in self.names or not self.sg.try_pre(f'let {w} = {v};'):
            return None
        self.names.append(w)
        return w

    def n_tensors(self, v):
        return f'len(tensors("no such*")) + {v}'

    def n_wild(self, v):
        """A random expression, and the difference."""
        text = self.wild(3)
        try:
            x = self.sg.side.ev.const(parse_expr(text.encode('utf-8')), self.sg.side.env)
        except Refuse:
            return None
        if not isinstance(x, int) or abs(x) > 10**6:
            return None
        d = v - x
        return f'({text}) + {d}' if d >= 0 else f'({text}) - {-d}'

    def wild(self, depth):
        if depth == 0 or self.rng.random() < 0.2:
            return str(self.rng.randint(0, 20))
        op = self.rng.choice(['+', '-', '*', '/', '%', '<', '<=', '>', '>=', '==', '!=', '&&', '||', '?', 'u', 'p'])
        if op == '?':
            return f'{self.wild(depth - 1)} ? {self.wild(depth - 1)} : {self.wild(depth - 1)}'
        if op == 'u':
            return self.rng.choice('-!') + f'{self.wild(0)}'
        if op == 'p':
            return f'({self.wild(depth - 1)})'
        return f'{self.wild(depth - 1)} {op} {self.wild(depth - 1)}'

    # -- strings and tables
    def s(self, name):
        """name is in source form, without interpolation."""
        roll = self.rng.random()
        if roll < 0.8 or '{' in name or '\\' in name:
            return f'"{name}"'
        if roll < 0.9:
            k = self.rng.randint(0, len(name))
            return f'"{{{self.const("S", chr(34) + name[:k] + chr(34), name[:k])}}}{name[k:]}"'
        if roll < 0.95:
            k = self.rng.randint(0, len(name))
            return f'"{name[:k]}{{"{name[k:]}"}}"'
        return self.const('S', f'"{name}"', name)

    def literal_string(self, name):
        t = self.s(name)
        return t if t.startswith('"') else f'"{{{t}}}"'

    def table(self, xs, named=False):
        text = '[' + ', '.join(str(x) for x in xs) + ']'
        if len(xs) >= 1 and xs == list(range(len(xs))) and self.rng.random() < 0.3:
            x = self.fresh('c')
            text = f'[{x} for {x} in 0..{len(xs)}]'
        roll = self.rng.random()
        if roll < 0.05:
            k = self.rng.randrange(2)
            t = [[self.rng.randint(0, 9)], text] if k else [text, '"s"']
            return f'{self.const("T", "[" + ", ".join(map(str, t)) + "]", [0])}[{k}]'
        if roll < 0.1 and xs:
            f, k = self.fresh('t'), self.rng.randrange(len(xs))
            if self.sg.try_pre(f'def {f}(a_) = [{", ".join("a_" if i == k else str(x) for i, x in enumerate(xs))}];'):
                return f'{f}({xs[k]})'
        if named or roll < 0.3:
            return self.const('T', text, list(xs))
        return text
