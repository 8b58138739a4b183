# SPDX-License-Identifier: Apache-2.0
"""Random pairs of layouts.  In: a seed; out: a Case (files, arguments).  Values grow step by step: a step that the
oracle refuses is taken back, so most pairs are valid; what is missing or doubled in the end is repaired or excused."""
import random
import numpy as np
from cases import Case
from sides import EXTENTS, WORDS, Family, Item, SideGen, escape, unescape, yaml_name
from syntax import DTYPES, Refuse


class Generator:
    def __init__(self, seed):
        self.seed, self.rng = seed, random.Random(seed)
        self.fams, self.limit = [], 360
        self.huge = self.rng.random() < 0.007  # one matrix of a megabyte or so: long runs, tiles
        self.sides = {w: SideGen(self, w) for w in ('train', 'infer')}
        self.case = Case(seed)

    def make_tensors(self):
        big = self.rng.random() < 0.05
        extents, most, members = (EXTENTS + [24, 32, 36, 40, 48, 64], 3000, 1000) if big else (EXTENTS, 240, 80)
        self.limit = 6000 if big else 360
        if self.huge:
            self.limit = 2_000_000
        words = self.rng.sample(WORDS, 1 if self.huge else self.rng.randint(2, 5))
        base = self.rng.choice(list(DTYPES))
        for i, w in enumerate(words):
            dtype = base if self.rng.random() < 0.5 else self.rng.choice(list(DTYPES))
            nd = self.rng.choices([0, 1, 2, 3, 4, 5], [1, 4, 6, 4, 1.5, 0.5])[0]
            while True:
                shape = [self.rng.choice(extents) for _ in range(nd)]
                if nd and self.rng.random() < 0.05:
                    shape[self.rng.randrange(nd)] = 0
                if np.prod(shape, dtype=int) <= most:
                    break
            if self.huge:
                shape = [self.rng.randint(200, 900), self.rng.randint(200, 900)]
            count = self.rng.choice([None, None, 2, 3, 4, 5]) if np.prod(shape, dtype=int) <= members else None
            f = Family(f'{w}.t{i}', count, dtype, shape)
            if count and np.prod(shape, dtype=int) <= members // 2 and self.rng.random() < 0.4:
                f.count, f.inner = self.rng.choice([2, 3]), self.rng.choice([2, 3, 4])
            if count and np.prod(shape, dtype=int) <= 8 and self.rng.random() < 0.2:
                f.count, f.inner = self.rng.choice([8, 12, 17]), self.rng.choice([None, None, 5, 8])
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
        if f.inner:
            v, w = s.fresh('i'), s.fresh('i')
            name = f'{f.prefix}.{{{v}}}.{{{w}}}{f.suffix}'
            one = f'tensor "{name}" {f.dtype} [{dims}];'
            return f'for {v} in 0..{s.n(f.count)} {{ for {w} in 0..{s.n(f.inner)} {{ {one} }} }}'
        if self.rng.random() < 0.8:
            v = s.fresh('i')
            return f'for {v} in 0..{s.n(f.count)} {{ tensor "{f.prefix}.{{{v}}}{f.suffix}" {f.dtype} [{dims}]; }}'
        return ' '.join(f'tensor "{n}" {f.dtype} [{dims}];' for n in f.names())

    def catalogue(self, fams, constants='CN: 3, CT: [0, 2, 1], CS: "text"'):
        out = ['reshard-model: 1', 'name: random', f'dtype: {self.rng.choice(["bf16", "f32"])}',
               f'constants: {{{constants}}}', 'tensors:' if fams else 'tensors: []']
        for f in fams:
            y = [f'name: "{yaml_name(f)}"', f'shape: [{", ".join(map(str, f.shape))}]', f'dtype: {f.dtype}']
            if f.count:
                over = f'0..{f.count}'
                if f.count == 3:
                    over = self.rng.choice([f'0..{constants[:2]}', '[0, 1, 2]', f'0..{constants[:2]} + 0'])
                if '{k}' in y[0] and self.rng.random() < 0.15 and over.startswith('0..') and f.count != 3:
                    y[0], over = y[0].replace('{k}', '{k - 1}'), f'1..{f.count + 1}'
                y.insert(1, f'for: {{k: {over}}}' if f.inner is None else f'for: {{k: {over}, j: 0..{f.inner}}}')
            out.append('  - {' + ', '.join(y) + '}')
        return '\n'.join(out) + '\n'

    def make(self):
        rng = self.rng
        self.make_tensors()
        listed = [f for f in self.fams if rng.random() < 0.5] if rng.random() < 0.2 else []
        how = rng.choice(['model', 'option', 'both']) if listed else None
        if listed:
            k = rng.randint(1, len(listed)) if how == 'both' else len(listed)
            self.case.files['cat.yaml'] = self.catalogue(listed[:k])
            if how == 'both':
                self.case.files['cat2.yaml'] = self.catalogue(listed[k:], 'CM: 3')
            for sg in self.sides.values():
                for k, x in (('CM', 3), ('CN', 3), ('CT', [0, 2, 1]), ('CS', 'text')):
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
        if listed and how != 'model':
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
        if self.rng.random() < 0.15:
            self.forget()
        return self.case

    def arrange(self, w):
        """A fixed random order of statement groups, and which of them move to an included file."""
        rng = self.rng
        return {'late': rng.random() < 0.3, 'include': rng.random() < 0.25, 'need': rng.random() < 0.5,
                'cut': rng.random(), 'crlf': rng.random() < 0.05, 'dir': rng.random() < 0.3,
                'assert': rng.random() < 0.3,
                'comments': rng.random() < 0.1, 'shuffle': rng.random() < 0.2, 'salt': rng.random()}

    def write(self):
        for w, sg in self.sides.items():
            o = self.order[w]
            head = {'model': ['model "cat.yaml";'], 'both': ['model "cat2.yaml";']}.get(self.how, [])
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
                need = ['need ' + ', '.join(sg.sugar.names[:2]) + ';'] if sg.sugar.names else []
                need = need if o['need'] and k >= len(pre) else []
                place = 'inc/' if o['dir'] else ''
                self.case.files[f'{place}{w}.inc'] = '\n'.join(need + inc) + '\n'
                if o['dir']:
                    self.case.incdirs = ['inc']
                stmts.append(f'include "{w}.inc";')
            text = '\n'.join(['# ' + w] + head + stmts) + '\n'
            if o['comments']:
                text = text.replace('{ buffer ', '{ # a "comment" { } é\n\tbuffer ').replace('; }', ';# x\n}')
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
                t.skips.append(self.pattern(nm))
            else:
                m = self.rng.choice(t.meshes)
                t.count += 1
                t.items.append(Item(f'on {m.name} {{ buffer "fix{t.count}" = \1; }}', f'replica "{escape(nm)}"', {nm}))
        extra = names(pair.unwanted)
        for nm in extra:
            if self.rng.random() < 0.5:
                i.skips.append(self.pattern(nm))
            else:
                m = self.rng.choice(i.meshes)
                i.count += 1
                i.items.append(Item(f'on {m.name} {{ buffer "fix{i.count}" = \1; }}', f'"{escape(nm)}"', {nm}))
        return bool(bad or missing or extra)

    def pattern(self, name):
        """A glob that matches the name, and perhaps others."""
        out = []
        for ch in name:
            c = escape(ch) if ord(ch) < 128 else None
            if ch == '*':
                out.append('[*]')
            elif c is None or self.rng.random() < 0.06:
                out.append('?')
            elif len(c) == 1 and self.rng.random() < 0.06:
                out.append(self.rng.choice([f'[{c}]', f'[{c}@]', '[!~]', f'[{c}-{c}]' if c.isalnum() else f'[{c}]']))
            else:
                out.append(c)
        if self.rng.random() < 0.2:
            k = self.rng.randint(0, len(out))
            out[k:self.rng.randint(k, len(out))] = ['*']
        return ''.join(out)

    def forget(self):
        """A side need not declare what it does not name."""
        for w in self.sides:
            for d in list(self.decls[w]):
                if self.rng.random() < 0.15:
                    keep = list(self.decls[w])
                    self.decls[w].remove(d)
                    self.write()
                    try:
                        self.case.load().judge()
                    except Refuse:
                        self.decls[w] = keep
        self.write()

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
            how = 'same' if roll < 0.25 else 'apart' if roll < 0.35 else 'mixed'
            case.files['cluster.yaml'] = self.cluster(worlds, how)
        if self.huge:
            case.args += rng.choice([[], ['--chunk', '256KiB'], ['--staging', '1MiB']])
            return
        if rng.random() < 0.4:
            case.args += ['--staging', rng.choice(['4KiB', '16KiB', '64KiB'])]
        if rng.random() < 0.2:
            case.args += ['--max-ops', str(rng.choice([3, 4, 16, 64, 256]))]
        if rng.random() < 0.4:
            case.args += ['--chunk', rng.choice(['64', '256', '256', '1KiB', '4KiB', 'AUTO'])]

    def cluster(self, worlds, how):
        gpus = self.rng.choice([1, 2, 3, 4, 8])
        head = ['reshard-cluster: 1', 'links:', '  nvlink: {bandwidth: 450e9, latency: 2e-6}',
                '  network: {bandwidth: 50e9, latency: 5e-6}', '  memory: {bandwidth: 3.3e12}', 'hosts:']
        def hosts(prefix, n, g):
            return f'  - {{names: "{prefix}[00-{n - 1:02d}]", gpus: {g}, nics: {self.rng.choice([1, g])}}}'

        def racks(side, n):
            return f'  - {{names: "{side}[0-1]n[00-{n - 1:02d}]", gpus: {gpus}, nics: {gpus}, domain: "{side}[0-1]"}}'
        if how == 'apart' and self.rng.random() < 0.4:
            a, b = (-(-worlds[w] // (2 * gpus)) for w in ('train', 'infer'))
            return '\n'.join(head + [racks('t', a), racks('i', b), f'train: "t[0-1]n[00-{a - 1:02d}]"',
                                     f'infer: "i[0-1]n[00-{b - 1:02d}]"']) + '\n'
        if how == 'same':
            n = -(-max(worlds.values()) // gpus)
            ends = [f'{w}: "h[00-{n - 1:02d}]"' for w in worlds]
            return '\n'.join(head + [hosts('h', n, gpus)] + ends) + '\n'
        a, b = (-(-worlds[w] // gpus) for w in ('train', 'infer'))
        if how == 'apart':
            return '\n'.join(head + [hosts('t', a, gpus), hosts('i', b, gpus), f'train: "t[00-{a - 1:02d}]"',
                                     f'infer: "i[00-{b - 1:02d}]"']) + '\n'
        total = worlds['train'] + worlds['infer']
        n = -(-total // gpus)
        all_gpus = [f'h{k // gpus:02d}:{k % gpus}' for k in range(n * gpus)]
        pick = {w: self.rng.sample(all_gpus, worlds[w]) for w in worlds}
        return '\n'.join(head + [hosts('h', n, gpus)] + [f'{w}: "{",".join(p)}"' for w, p in pick.items()]) + '\n'


class Plain(Generator):
    """Both sides hold every element in exactly one place and convert nothing: each can be either side."""

    def make(self):
        self.make_tensors()
        for sg in self.sides.values():
            sg.plain = True
            sg.make_meshes()
            for f in self.rng.sample(self.fams, len(self.fams)):
                if not sg.budget.get(f.prefix):
                    sg.make_buffer(f)
        self.decls = {w: [self.tensor_text(f, sg) for f in self.fams] for w, sg in self.sides.items()}
        self.how, self.repairs = None, 0
        self.order = {w: {**self.arrange(w), 'include': False} for w in self.sides}
        for w in self.sides:
            for _ in range(4):
                if not self.complete(w):
                    break
        self.write()
        self.case.cluster = 'cluster.yaml'
        worlds = {w: sg.side.world for w, sg in self.sides.items()}
        self.case.files['cluster.yaml'] = self.cluster(worlds, 'same')
        return self.case

    def complete(self, w):
        """Leaves out what is held twice, adds what is not held; False if nothing was to be done."""
        self.write()
        c = self.case.copy()
        c.infer = c.train = f'{w}.layout'
        c.defines = [(k.split('.')[-1], v) for k, v in self.case.defines if '.' not in k or k.startswith(w)]
        c.defines = [(k, v) for k, v in c.defines if k in self.sides[w].defines]
        pair, sg = c.load(), self.sides[w]
        sg.side.world = pair.train.world
        held = [pair.names[k] for k in np.unique(pair.owner[np.nonzero(pair.double)[0]])]
        if held:
            sg.items = [x for x in sg.items if not any(unescape(u) in b for u in x.used for b in held)]
            return True
        count = np.bincount(pair.owner[np.nonzero(pair.supplied)[0]], minlength=len(pair.names))
        size = [int(np.prod(shape, dtype=int)) for _, shape in pair.tensors.values()]
        again = False
        for name, have, want in zip(pair.names, count, size):
            if have == want:
                continue
            again = True
            if have:
                sg.items = [x for x in sg.items if not any(unescape(u) in name for u in x.used)]
            else:
                sg.count += 1
                sg.items.append(Item(f'on {self.rng.choice(sg.meshes).name} {{ buffer "fix{sg.count}" = \1; }}',
                                     f'"{escape(name)}"', {name}))
        return again


def generate(seed):
    return Generator(seed).make()
