# SPDX-License-Identifier: Apache-2.0
"""Integers, strings, tables and functions of the layout language; names; where they meet values."""
import numpy as np
from syntax import INT_MAX, INT_MIN, Refuse, bounded

PAD, GAP = -1, -2
SHIFT = 40
ELEM = (1 << SHIFT) - 1
FLOATS = {'f16', 'bf16', 'f32', 'f64'}
OP_TYPES = {'f16', 'bf16', 'f32'}


class Dec(float):
    pass


class Val:
    """arr: codes.  ments: every mention below, also those that left no element here.  tags: only for notes."""

    def __init__(self, arr, ments, tags=frozenset()):
        self.arr, self.ments, self.tags = arr, ments, tags


class Fn:
    def __init__(self, args, body, env):
        self.args, self.body, self.env = args, body, env


class Mesh:
    def __init__(self, name, axes, ranks):
        self.name, self.axes, self.ranks = name, axes, ranks
        self.shape = [n for _, n in axes]

    def coords(self, i):
        return dict(zip((a for a, _ in self.axes), np.unravel_index(i, self.shape)))


class Buf:
    """One executed buffer statement."""

    def __init__(self, **kw):
        self.__dict__.update(kw)


class Ctx:
    """Where a value is evaluated: the coordinates of one rank, and the mentions made so far."""

    def __init__(self, side, mesh, pins, coords, ntensors):
        self.side, self.mesh, self.pins, self.coords, self.ntensors = side, mesh, pins, coords, ntensors
        self.ments, self.count, self.notes = [], 0, set()

    def note(self, *words):
        """Which features this value used; for the generator's tables, not for the meaning."""
        self.notes.update(words)

    def mention(self, **kw):
        self.ments.append(kw)
        return len(self.ments) - 1


def lookup(env, name):
    while env is not None:
        if env[1] == name:
            return env
        env = env[0]
    return None


def glob_match(pat, s):
    """* any characters, ? one, [abc] a set; the whole name.  A character is one of UTF-8, or a byte that is none."""
    pat, s = (x.encode('latin-1').decode('utf-8', 'surrogateescape') for x in (pat, s))
    items, i = [], 0
    while i < len(pat):
        if pat[i] == '[' and ']' in pat[i + 1:]:
            e = pat.index(']', i + 1)
            items.append(('set', char_set(pat[i + 1:e])))
            i = e + 1
        else:
            items.append((pat[i], None))
            i += 1
    reach = {0}
    for kind, arg in items:
        if kind == '*':
            reach = set(range(min(reach), len(s) + 1)) if reach else reach
        elif kind == '?':
            reach = {r + 1 for r in reach if r < len(s)}
        elif kind == 'set':
            reach = {r + 1 for r in reach if r < len(s) and s[r] in arg}
        else:
            reach = {r + 1 for r in reach if r < len(s) and s[r] == kind}
    return len(s) in reach


class Without(set):
    """[!abc]"""

    def __contains__(self, c):
        return not super().__contains__(c)


def char_set(s):
    """[abc], [a-z], [!abc] -> the bytes that match."""
    no, s, out, i = s[:1] == '!', s[s[:1] == '!':], set(), 0
    while i < len(s):
        if s[i + 1:i + 2] == '-' and i + 2 < len(s):
            out |= {chr(c) for c in range(ord(s[i]), ord(s[i + 2]) + 1)}
            i += 3
        else:
            out.add(s[i])
            i += 1
    return Without(out) if no else out


def integer(x, what='integer'):
    if isinstance(x, bool) or not isinstance(x, int):
        raise Refuse('type', f'{what} wanted, {type(x).__name__} found')
    return x


def checked(x):
    if not INT_MIN <= x <= INT_MAX:
        raise Refuse('overflow', str(x))
    return x


ARITY = {'len': 1, 'sum': 1, 'ceildiv': 2, 'char': 2, 'tensors': 1, 'bucket': 2, 'start': 2, 'cast': 1, 'neg_exp': 1,
         'add': 2, 'slice': 4}


class Constants:
    """Expressions.  ctx is None where only a constant is allowed."""

    def __init__(self, side):
        self.side = side

    def const(self, e, env):
        x = self.ev(e, env, None)
        if isinstance(x, Dec):
            raise Refuse('type', 'decimal')
        return x

    def value(self, e, env, ctx):
        return self.as_value(self.ev(e, env, ctx), ctx)

    def as_value(self, x, ctx):
        """A string in value position is a whole tensor."""
        if isinstance(x, Val):
            return x
        if ctx is None or not isinstance(x, str):
            raise Refuse('type', 'a value wanted')
        if x not in self.side.tensors:
            raise Refuse('tensor', f'no tensor {x!r}')
        dtype, shape = self.side.tensors[x]
        m = ctx.mention(tensor=x, dtype=dtype, cuts=(), cast=False, op=None, replica=False, ordinal=ctx.count)
        ctx.count += 1
        n = bounded(int(np.prod(shape, dtype=object)) if shape else 1)
        bounded(max(shape, default=0))
        ctx.note(*(['0-dim'] if not shape else []), *(['zero-size'] if n == 0 else []))
        return Val((np.arange(n, dtype=np.int64) | (m << SHIFT)).reshape(shape), [m])

    def change(self, v, ctx, what):
        """Every mention below becomes a new record: what(old) gives the fields that change."""
        out, arr, new = [], v.arr.copy(), {}
        for m in v.ments:
            new[m] = ctx.mention(**{**ctx.ments[m], **what(ctx.ments[m])})
            out.append(new[m])
        for old, m in new.items():
            here = (v.arr >= 0) & (v.arr >> SHIFT == old)
            arr[here] = (v.arr[here] & ELEM) | (m << SHIFT)
        return Val(arr, out, v.tags)

    def fresh(self, v, ctx):
        """Each use of an argument is a mention of its own."""
        base, seen = ctx.count, {}
        for m in v.ments:
            seen.setdefault(ctx.ments[m]['ordinal'], base + len(seen))
        ctx.count += len(seen)
        return self.change(v, ctx, lambda m: {'ordinal': seen[m['ordinal']]})

    def ev(self, e, env, ctx):
        return getattr(self, 'e_' + e[0])(env, ctx, *e[2:])

    def ints(self, es, env, ctx):
        return [integer(self.ev(e, env, ctx)) for e in es]

    def string(self, node, env, ctx):
        return self.e_str(env, ctx, node[2])

    def range(self, node, env, ctx):
        if node[0] == 'range':
            lo, hi = self.ints(node[2:4], env, ctx)
            bounded(hi - lo, 100_000)
            return range(lo, hi)
        r = self.ev(node, env, ctx)
        if isinstance(r, int):
            return [r]
        if not isinstance(r, list):
            raise Refuse('type', 'a table wanted')
        return r

    def loop(self, node, env, ctx):
        if node[0] != 'range' and isinstance(self.ev(node, env, ctx), int):
            raise Refuse('type', 'a range or a table wanted')
        return self.range(node, env, ctx)

    # -- constants
    def e_int(self, env, ctx, n):
        return n

    def e_dec(self, env, ctx, x):
        return Dec(x)

    def e_paren(self, env, ctx, e):
        return self.ev(e, env, ctx)

    def e_str(self, env, ctx, parts):
        out = ''
        for p in parts:
            if not isinstance(p, str):
                p = self.ev(p, env, ctx)
                if isinstance(p, (Val, list, Dec)):
                    raise Refuse('type', 'a string or an integer inside a string')
            out += str(p)
        return out

    def e_table(self, env, ctx, items):
        return [self.ev(e, env, ctx) for e in items]

    def e_comp(self, env, ctx, body, name, r, cond):
        out = []
        for x in self.loop(r, env, ctx):
            inner = self.side.define(env, name, x)
            if cond is None or integer(self.ev(cond, inner, ctx)):
                out.append(self.ev(body, inner, ctx))
        return out

    def e_id(self, env, ctx, name):
        found = lookup(env, name)
        if not found or isinstance(found[2], (Mesh, Fn)):
            raise Refuse('name', f'no constant {name}')
        return self.fresh(found[2], ctx) if isinstance(found[2], Val) else found[2]

    def e_un(self, env, ctx, op, e):
        x = self.ev(e, env, ctx)
        if op == 'replica':
            if self.side.which != 'train':
                raise Refuse('replica')
            x = self.as_value(x, ctx)
            ctx.note('replica')
            return self.change(x, ctx, lambda m: {'replica': True})
        if op == '-' and isinstance(x, Dec):
            return Dec(-x)
        x = integer(x)
        return checked(-x) if op == '-' else int(not x)

    def e_bin(self, env, ctx, op, a, b):
        x = self.ev(a, env, ctx)
        if op in ('&&', '||'):
            x = integer(x)
            if bool(x) == (op == '||'):
                return int(bool(x))
            return int(bool(integer(self.ev(b, env, ctx))))
        y = self.ev(b, env, ctx)
        if op in ('==', '!=') and isinstance(x, str) and isinstance(y, str):
            return int((x == y) == (op == '=='))
        x, y = integer(x), integer(y)
        if op in '/%' and y == 0:
            raise Refuse('zero')
        return checked({'+': lambda: x + y, '-': lambda: x - y, '*': lambda: x * y, '/': lambda: x // y,
                        '%': lambda: x % y, '==': lambda: int(x == y), '!=': lambda: int(x != y),
                        '<': lambda: int(x < y), '<=': lambda: int(x <= y), '>': lambda: int(x > y),
                        '>=': lambda: int(x >= y)}[op]())

    def e_cond(self, env, ctx, c, x, y):
        return self.ev(x if integer(self.ev(c, env, ctx)) else y, env, ctx)

    def e_call(self, env, ctx, name, args):
        f = getattr(self, 'f_' + name, None)
        if f:
            if len(args) != ARITY.get(name, len(args)):
                raise Refuse('args', name)
            return f(env, ctx, *args)
        found = lookup(env, name)
        if not found or not isinstance(found[2], Fn):
            raise Refuse('name', f'no function {name}')
        fn = found[2]
        if len(fn.args) != len(args):
            raise Refuse('args', name)
        inner = fn.env
        if ctx:
            ctx.note('def')
        for a, e in zip(fn.args, args):
            inner = (inner, a, self.ev(e, env, ctx))
        return self.ev(fn.body, inner, ctx)

    def f_min(self, env, ctx, *a):
        return min(self.several(a, env, ctx))

    def f_max(self, env, ctx, *a):
        return max(self.several(a, env, ctx))

    def several(self, a, env, ctx):
        """Integers, or one table of them."""
        xs = [self.ev(e, env, ctx) for e in a]
        xs = xs[0] if len(xs) == 1 and isinstance(xs[0], list) else xs
        if not xs:
            raise Refuse('args', 'min and max of nothing')
        return [integer(x) for x in xs]

    def table(self, e, env, ctx):
        t = self.ev(e, env, ctx)
        if not isinstance(t, list):
            raise Refuse('type', 'a table wanted')
        return t

    def f_len(self, env, ctx, e):
        t = self.ev(e, env, ctx)
        if not isinstance(t, (list, str)):
            raise Refuse('type', 'len')
        return len(t)

    def f_sum(self, env, ctx, e):
        return checked(sum(integer(x) for x in self.table(e, env, ctx)))

    def f_ceildiv(self, env, ctx, a, b):
        a, b = self.ints([a, b], env, ctx)
        if b == 0:
            raise Refuse('zero')
        return checked(-(-a // b))

    def f_char(self, env, ctx, s, i):
        s, i = self.ev(s, env, ctx), integer(self.ev(i, env, ctx))
        if not isinstance(s, str):
            raise Refuse('type', 'char')
        if not 0 <= i < len(s):
            raise Refuse('index', 'char')
        return s[i]

    def f_tensors(self, env, ctx, e):
        pat = self.ev(e, env, ctx)
        n = len(self.side.names) if ctx is None else ctx.ntensors
        return [x for x in self.side.names[:n] if glob_match(pat, x)]

    def f_bucket(self, env, ctx, t, i):
        t, i = self.table(t, env, ctx), integer(self.ev(i, env, ctx))
        at = 0
        for k, n in enumerate(t):
            if integer(n) < 0:
                raise Refuse('index', 'bucket')
            at = checked(at + n)
            if 0 <= i < at:
                return k
        raise Refuse('index', 'bucket')

    def f_start(self, env, ctx, t, k):
        t, k = self.table(t, env, ctx), integer(self.ev(k, env, ctx))
        if not 0 <= k <= len(t):
            raise Refuse('index', 'start')
        if any(integer(x) < 0 for x in t):
            raise Refuse('index', 'start')
        return checked(sum(t[:k]))
