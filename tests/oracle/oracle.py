# SPDX-License-Identifier: Apache-2.0
"""What a layout means.  In: a layout file; out: per rank and buffer an array of codes (see values.py), or Refuse."""
import os
from catalogue import read_catalogue
from constants import Buf, Ctx, Fn, Mesh, FLOATS, OP_TYPES, checked, integer, lookup
from syntax import CALLS, VALUE_CALLS, Refuse, bounded, is_node, parse, parse_expr
from values import Eval

WORDS = CALLS | VALUE_CALLS


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
        if name in self.tensors or not name:
            raise Refuse('tensor', f'{name!r} twice, or empty')
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
        self.bound(body, env, set(args))
        return self.define(env, name, Fn(args, body, env))

    def bound(self, e, env, names):
        """The names in the body of a def are looked up where it stands."""
        if isinstance(e, list):
            for x in e:
                self.bound(x, env, names)
        if not isinstance(e, tuple) or not e:
            return
        if is_node(e):
            if e[0] == 'id' and e[2] not in names or e[0] == 'call' and e[2] not in WORDS:
                if not lookup(env, e[2]):
                    raise Refuse('name', f'no {e[2]}')
            loop = {'comp': 3, 'stack': 2, 'catloop': 3}.get(e[0])
            if loop:
                if e[loop] in names or lookup(env, e[loop]):
                    raise Refuse('name', f'{e[loop]} again')
                self.bound(e[loop + 1], env, names)
                names = names | {e[loop]}
        for x in e:
            self.bound(x, env, names)

    def do_need(self, env, on, here, names):
        if any(not lookup(env, n) for n in names):
            raise Refuse('need')

    def do_assert(self, env, on, here, e, text):
        if not integer(self.ev.const(e, env)):
            raise Refuse('assert', self.ev.string(text, env, None))

    def do_include(self, env, on, here, name):
        return self.load_file(self.find(self.ev.string(name, env, None), here), env)

    def do_model(self, env, on, here, name):
        return self.load_model(self.find(self.ev.string(name, env, None), here), env)

    def do_tensor(self, env, on, here, name, dtype, dims):
        self.add_tensor(self.ev.string(name, env, None), dtype, [self.ev.const(d, env) for d in dims])

    def do_mesh(self, env, on, here, name, axes, items):
        axes = [(a, integer(self.ev.const(e, env))) for a, e in axes]
        if any(n < 1 for _, n in axes) or len({a for a, _ in axes}) != len(axes):
            raise Refuse('mesh', name)
        n = 1
        for _, k in axes:
            n = checked(n * k)
        bounded(n, 100_000)
        ranks = list(range(n)) if items is None else []
        for i in items or []:
            r = self.ev.range(i, env, None)
            ranks += [integer(x) for x in r]
        if len(ranks) != n or len(set(ranks)) != n or min(ranks) < 0:
            raise Refuse('mesh', f'{name}: {n} coordinates, ranks {ranks}')
        bounded(max(ranks), 2**31 - 2)
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
                             pins=on[1], ntensors=len(self.names), id=len(self.bufs), notes=set(), tensors=set(),
                             copies=False))

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
                if b.name in mine or not b.name:
                    raise Refuse('buffer', f'{b.name} twice on rank {rank}')
                v, ctx = self.value(b, c)
                mine[b.name] = (b, self.buffer_dtype(b, v, ctx), v.arr, ctx.ments)
                b.notes |= ctx.notes
                b.tensors |= {ctx.ments[m]['tensor'] for m in v.ments}
                b.copies |= bool(set(c) - set(b.pins) - {a for m in v.ments for a, _ in ctx.ments[m]['cuts']})
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
            if m['cast'] and m['dtype'] != dt:
                src, dst = (m['dtype'], dt) if self.which == 'infer' else (dt, m['dtype'])
                if dst not in FLOATS or (src not in FLOATS and not src.startswith('f8')):
                    raise Refuse('cast', f'{src} to {dst}')
            if m['op'] and not {m['dtype'], dt} <= OP_TYPES:
                raise Refuse('op', f'{m["op"]} on {m["dtype"]} in {dt}')
        return dt
