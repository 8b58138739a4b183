# SPDX-License-Identifier: Apache-2.0
"""What a layout means.  In: layout files; out: per rank and buffer an array of codes, or Refuse.

A code is mention << 40 | element of the tensor mentioned, or PAD, or GAP.  A mention record says which tensor, how it
is cut on its way to the buffer, and what is done to it; (buffer, ordinal, cuts) names its place.
"""
import os
import numpy as np
from syntax import DTYPES, INT_MAX, INT_MIN, Refuse, parse, parse_expr
from catalogue import read_catalogue

PAD, GAP = -1, -2
SHIFT = 40
ELEM = (1 << SHIFT) - 1
FLOATS = {'f16', 'bf16', 'f32', 'f64'}
OP_TYPES = {'f16', 'bf16', 'f32'}


class Dec(float):
    pass


class Val:
    """arr: codes.  ments: every mention below, also those that left no element here."""

    def __init__(self, arr, ments):
        self.arr, self.ments = arr, ments


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
        self.ments, self.count = [], 0

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
    """* any characters, ? one, [abc] a set; the whole name."""
    items, i = [], 0
    while i < len(pat):
        if pat[i] == '[' and ']' in pat[i + 1:]:
            e = pat.index(']', i + 1)
            items.append(('set', pat[i + 1:e]))
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


def integer(x, what='integer'):
    if isinstance(x, bool) or not isinstance(x, int):
        raise Refuse('type', f'{what} wanted, {type(x).__name__} found')
    return x


def checked(x):
    if not INT_MIN <= x <= INT_MAX:
        raise Refuse('overflow', str(x))
    return x


class Side:
    def __init__(self, which, defines=(), incdirs=(), models=()):
        self.which, self.incdirs = which, list(incdirs)
        self.defines, self.used = dict(defines), set()
        self.tensors, self.names = {}, []
        self.meshes, self.bufs, self.skips, self.world_stmt = [], [], [], None
        self.files, self.env, self.ev = set(), None, Eval(self)
        for m in models:
            self.env = self.load_model(m, self.env)

    # -- statements
    def load(self, path):
        self.env = self.load_file(path, self.env)
        self.finish()
        return self

    def load_file(self, path, env):
        real = os.path.realpath(path)
        if real in self.files:
            raise Refuse('include', f'{path} twice')
        self.files.add(real)
        with open(path, 'rb') as f:
            return self.run(parse(f.read()), env, None, os.path.dirname(path), True)

    def find(self, name, here):
        for d in [here] + self.incdirs:
            p = os.path.join(d, name.encode('latin-1').decode('utf-8', 'surrogateescape'))
            if os.path.exists(p):
                return p
        raise Refuse('include', f'no file {name}')

    def load_model(self, path, env):
        constants, tensors = read_catalogue(path)
        for name, value in constants:
            env = self.define(env, name, value)
        for name, dtype, shape in tensors:
            self.add_tensor(name, dtype, shape)
        return env

    def finish(self):
        if not self.meshes:
            raise Refuse('mesh', 'a side without a mesh')
        n = 1 + max(max(m.ranks) for m in self.meshes)
        if self.world_stmt is not None and self.world_stmt < n:
            raise Refuse('world', f'{self.world_stmt} is less than {n}')
        self.world = self.world_stmt if self.world_stmt is not None else n

    def define(self, env, name, value):
        if lookup(env, name):
            raise Refuse('name', f'{name} again')
        return (env, name, value)

    def add_tensor(self, name, dtype, shape):
        if name in self.tensors:
            raise Refuse('tensor', f'{name} twice')
        if len(shape) > 8:
            raise Refuse('ndim', name)
        n = 1
        for d in shape:
            if integer(d) < 0:
                raise Refuse('extent', name)
            n = checked(n * d)
        self.tensors[name] = (dtype, tuple(shape))
        self.names.append(name)

    def run(self, stmts, env, on, here, top=False):
        for s in stmts:
            if s[0] in ('param', 'include', 'model', 'world') and not top:
                raise Refuse('top', s[0])
            env = getattr(self, 'do_' + s[0])(env, on, here, *s[2:]) or env
        return env

    def do_param(self, env, on, here, name, e):
        default = self.ev.const(e, env)
        if name in self.defines:
            self.used.add(name)
            text = self.defines[name]
            if isinstance(default, str):
                default = text
            else:
                v = self.ev.const(parse_expr(text), None)
                if type(v) is not type(default):
                    raise Refuse('type', f'-D {name}')
                default = v
        return self.define(env, name, default)

    def do_let(self, env, on, here, name, e):
        return self.define(env, name, self.ev.const(e, env))

    def do_def(self, env, on, here, name, args, body):
        for a in args:
            if lookup(env, a):
                raise Refuse('name', f'{a} again')
        return self.define(env, name, Fn(args, body, env))

    def do_need(self, env, on, here, names):
        if any(not lookup(env, n) for n in names):
            raise Refuse('need')

    def do_assert(self, env, on, here, e, text):
        if not integer(self.ev.const(e, env)):
            raise Refuse('assert', self.ev.string(text, env, None))

    def do_include(self, env, on, here, name):
        return self.load_file(self.find(name, here), env)

    def do_model(self, env, on, here, name):
        return self.load_model(self.find(name, here), env)

    def do_tensor(self, env, on, here, name, dtype, dims):
        self.add_tensor(self.ev.string(name, env, None), dtype, [self.ev.const(d, env) for d in dims])

    def do_mesh(self, env, on, here, name, axes, items):
        axes = [(a, integer(self.ev.const(e, env))) for a, e in axes]
        if any(n < 1 for _, n in axes) or len({a for a, _ in axes}) != len(axes):
            raise Refuse('mesh', name)
        n = 1
        for _, k in axes:
            n = checked(n * k)
        ranks = list(range(n)) if items is None else []
        for i in items or []:
            r = self.ev.range(i, env, None)
            ranks += [integer(x) for x in r]
        if len(ranks) != n or len(set(ranks)) != n or min(ranks) < 0:
            raise Refuse('mesh', f'{name}: {n} coordinates, ranks {ranks}')
        m = Mesh(name, axes, ranks)
        self.meshes.append(m)
        return self.define(env, name, m)

    def do_world(self, env, on, here, e):
        if self.world_stmt is not None:
            raise Refuse('world', 'twice')
        self.world_stmt = integer(self.ev.const(e, env))

    def do_for(self, env, on, here, name, r, body):
        for x in self.ev.range(r, env, None):
            self.run(body, self.define(env, name, x), on, here)

    def do_if(self, env, on, here, arms, other):
        for e, body in arms:
            if integer(self.ev.const(e, env)):
                self.run(body, env, on, here)
                return
        self.run(other, env, on, here)

    def do_on(self, env, on, here, name, pins, body):
        if name is None:
            if on is None:
                raise Refuse('on', 'on [..] outside on')
            mesh, held = on
        else:
            if on is not None:
                raise Refuse('on', 'on inside on')
            found = lookup(env, name)
            if not found or not isinstance(found[2], Mesh):
                raise Refuse('name', f'no mesh {name}')
            mesh, held = found[2], {}
        held = dict(held)
        for a, e in pins:
            c = integer(self.ev.const(e, env))
            size = dict(mesh.axes).get(a)
            if size is None or a in held or not 0 <= c < size:
                raise Refuse('pin', f'{a} = {c}')
            held[a] = c
        self.run(body, env, (mesh, held), here)

    def do_buffer(self, env, on, here, name, dtype, dims, value):
        if on is None:
            raise Refuse('on', 'buffer outside on')
        if value is None:
            value = name if dims is None else ('sub', name[1], name, dims)
        self.bufs.append(Buf(name=self.ev.string(name, env, None), dtype=dtype, value=value, env=env, mesh=on[0],
                             pins=on[1], ntensors=len(self.names), id=len(self.bufs)))

    def do_skip(self, env, on, here, pattern):
        self.skips.append(self.ev.string(pattern, env, None))

    # -- values
    def evaluate(self):
        """rank -> name -> (Buf, dtype, codes, mentions), in the order of the statements."""
        held = {}
        for b in self.bufs:
            for i, rank in enumerate(b.mesh.ranks):
                c = b.mesh.coords(i)
                if any(c[a] != k for a, k in b.pins.items()):
                    continue
                mine = held.setdefault(rank, {})
                if b.name in mine:
                    raise Refuse('buffer', f'{b.name} twice on rank {rank}')
                v, ctx = self.value(b, c)
                mine[b.name] = (b, self.buffer_dtype(b, v, ctx), v.arr, ctx.ments)
        return held

    def value(self, b, coords):
        ctx = Ctx(self, b.mesh, b.pins, coords, b.ntensors)
        return self.ev.value(b.value, b.env, ctx), ctx

    def buffer_dtype(self, b, v, ctx):
        ms = [ctx.ments[m] for m in v.ments]
        plain = {m['dtype'] for m in ms if not m['cast']}
        dt = b.dtype
        if dt is None:
            if len(ms) == 0 or len(plain) != 1 or any(m['cast'] for m in ms):
                raise Refuse('dtype', f'{b.name}: state it')
            dt = plain.pop()
        for m in ms:
            if not m['cast'] and m['dtype'] != dt:
                raise Refuse('dtype', f'{b.name}: {m["dtype"]} in {dt} without cast')
            if m['cast']:
                src, dst = (m['dtype'], dt) if self.which == 'infer' else (dt, m['dtype'])
                if dst not in FLOATS or (src not in FLOATS and not src.startswith('f8')):
                    raise Refuse('cast', f'{src} to {dst}')
            if m['op'] and not {m['dtype'], dt} <= OP_TYPES:
                raise Refuse('op', f'{m["op"]} on {m["dtype"]} in {dt}')
        return dt


class Eval:
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
        n = int(np.prod(shape, dtype=object)) if shape else 1
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
        return Val(arr, out)

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
            return self.change(self.as_value(x, ctx), ctx, lambda m: {'replica': True})
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
            return f(env, ctx, *args)
        found = lookup(env, name)
        if not found or not isinstance(found[2], Fn):
            raise Refuse('name', f'no function {name}')
        fn = found[2]
        if len(fn.args) != len(args):
            raise Refuse('args', name)
        inner = fn.env
        for a, e in zip(fn.args, args):
            inner = (inner, a, self.ev(e, env, ctx))
        return self.ev(fn.body, inner, ctx)

    def f_min(self, env, ctx, *a):
        return min(self.ints(a, env, ctx))

    def f_max(self, env, ctx, *a):
        return max(self.ints(a, env, ctx))

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
            at += integer(n)
            if 0 <= i < at:
                return k
        raise Refuse('index', 'bucket')

    def f_start(self, env, ctx, t, k):
        t, k = self.table(t, env, ctx), integer(self.ev(k, env, ctx))
        if not 0 <= k <= len(t):
            raise Refuse('index', 'start')
        return checked(sum(integer(x) for x in t[:k]))

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
        v = Val(v.arr.reshape(real), v.ments)
        for i, (_, _, n, cuts) in enumerate(dims):
            if n is not None:
                v = self.pad(v, i, integer(self.ev(n, env, ctx)))
            v = self.cut_all(v, i, cuts, env, ctx)
        return v

    def pad(self, v, k, n):
        d = v.arr.shape[k]
        if n < d:
            raise Refuse('pad', f'{d} to {n}')
        width = [(0, 0)] * v.arr.ndim
        width[k] = (0, n - d)
        return Val(np.pad(v.arr, width, constant_values=PAD), v.ments)

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
        out, ments = [], []
        for index, part in parts:
            w = Val(v.arr.take(index, axis=k), v.ments)
            w = self.change(w, ctx, lambda m: {'cuts': m['cuts'] + ((axis, part),)})
            out.append(w.arr)
            ments += w.ments
        return Val(out[0] if len(out) == 1 else np.concatenate(out, axis=k), ments)

    def e_stack(self, env, ctx, name, r, cuts, body):
        vs = [self.value(body, self.side.define(env, name, x), ctx) for x in self.loop(r, env, ctx)]
        if not vs:
            raise Refuse('stack', 'empty')
        if len({v.arr.shape for v in vs}) != 1:
            raise Refuse('stack', 'shapes differ')
        if vs[0].arr.ndim >= 8:
            raise Refuse('ndim')
        v = Val(np.stack([v.arr for v in vs]), [m for v in vs for m in v.ments])
        return self.cut_all(v, 0, cuts, env, ctx)

    def join(self, k, vs):
        k = integer(k)
        if not vs or not 0 <= k < vs[0].arr.ndim or len({v.arr.shape[:k] + v.arr.shape[k + 1:] for v in vs}) != 1 \
                or len({v.arr.ndim for v in vs}) != 1:
            raise Refuse('cat', f'{k} of {[v.arr.shape for v in vs]}')
        return Val(np.concatenate([v.arr for v in vs], axis=k), [m for v in vs for m in v.ments])

    def e_cat(self, env, ctx, k, items):
        return self.join(self.ev(k, env, ctx), [self.value(e, env, ctx) for e in items])

    def e_catloop(self, env, ctx, k, name, r, body):
        vs = [self.value(body, self.side.define(env, name, x), ctx) for x in self.loop(r, env, ctx)]
        return self.join(self.ev(k, env, ctx), vs)

    def f_slice(self, env, ctx, e, *a):
        v = self.value(e, env, ctx)
        k, lo, hi = self.ints(a, env, ctx)
        if not 0 <= k < v.arr.ndim or not 0 <= lo <= hi <= v.arr.shape[k]:
            raise Refuse('slice', f'{lo}..{hi} of dimension {k} of {v.arr.shape}')
        return Val(v.arr[(slice(None),) * k + (slice(lo, hi),)], v.ments)

    def f_permute(self, env, ctx, e, *p):
        v = self.value(e, env, ctx)
        p = self.ints(p, env, ctx)
        if sorted(p) != list(range(v.arr.ndim)):
            raise Refuse('permute', f'{p} of {v.arr.ndim}')
        return Val(v.arr.transpose(p), v.ments)

    def f_gap(self, env, ctx, *d):
        d = self.ints(d, env, ctx)
        if ctx is None or any(x < 0 for x in d) or len(d) > 8:
            raise Refuse('gap')
        return Val(np.full(d, GAP, dtype=np.int64), [])

    def f_cast(self, env, ctx, e):
        return self.change(self.value(e, env, ctx), ctx, lambda m: {'cast': True})

    def op(self, e, env, ctx, op):
        v = self.value(e, env, ctx)
        if any(ctx.ments[m]['op'] for m in v.ments):
            raise Refuse('op', 'two on one element')
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
