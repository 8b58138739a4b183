# SPDX-License-Identifier: Apache-2.0
"""Which features a pair used, and the tables of pairs of features.  Measured on what was evaluated."""
import itertools
from syntax import Refuse, is_node, parse

CUTS = ['even', 'chunk', 'balanced', 'sizes', 'cyclic', 'cyclic(n)', 'share', 'share(table)', 'padded', 'padded(n)',
        'each', 'each(shares)']
VALUES = CUTS + ['two axes', 'view', 'merge', 'split', 'regroup', 'what is left', '..', '0-dim', 'pad', 'pad(_)',
                 'unaligned', 'cut of cat', 'cut of stack', 'cut of pad', 'cat', 'cat in', 'cat of cuts', 'stack',
                 'stack cut', 'stack of cuts', 'stack of a table', 'stack of cat', 'stack of stack', 'slice',
                 'permute', 'gap', 'cast', 'add', 'neg_exp', 'replica', 'def', 'zero-size', 'empty part', 'copies',
                 'pinned']
DTYPES = ['bool', 'u8', 'i8', 'u16', 'i16', 'u32', 'i32', 'u64', 'i64', 'f16', 'bf16', 'f32', 'f64', 'f8e4m3', 'f8e5m2']
STATEMENTS = ['param', 'let', 'def', 'need', 'assert', 'include', 'model', 'mesh ranks', 'world', 'for range',
              'for table', 'if', 'else if', 'nested on', 'buffer dtype', 'buffer name', 'buffer name view',
              'skip train', 'skip infer', 'comp', 'comp if', 'cond', 'index', 'interpolation', 'min', 'max', 'len',
              'sum', 'ceildiv', 'char', 'tensors', 'bucket', 'start', '-D', '-D side', '-I', '--model', '--cluster',
              'colocated', 'two meshes', 'sub-mesh', 'unordered ranks', 'idle rank', 'late tensor', 'CRLF',
              '--staging', '--max-ops', '--chunk']

# Cells that the language rules out, with the reason.
NEVER = {('train', 'neg_exp'): 'neg_exp on the training side is refused',
         ('infer', 'replica'): 'replica on the inference side is refused'}
NEVER_PAIR = {}


def of_buffer(b):
    return b.notes | ({'copies'} if b.copies else set()) | ({'pinned'} if b.pins else set())


def walk(node, out, held=False):
    """Statement and expression kinds of a parsed file."""
    if isinstance(node, list):
        for n in node:
            walk(n, out, held)
        return
    if not isinstance(node, tuple) or not node:
        return
    kind = node[0]
    if is_node(node):
        if kind == 'for':
            out.add('for range' if node[3][0] == 'range' else 'for table')
        elif kind == 'mesh' and node[4]:
            out.add('mesh ranks')
        elif kind == 'if':
            out.update({'if'} | ({'else if'} if len(node[2]) > 1 else set()))
        elif kind == 'on' and node[2] is None:
            out.add('nested on')
        elif kind == 'buffer':
            out.add('buffer dtype' if node[3] else 'buffer name' if node[4] is None and node[5] is None else
                    'buffer name view' if node[5] is None else 'buffer')
        elif kind == 'comp' and node[5] is not None:
            out.update({'comp', 'comp if'})
        elif kind == 'sub':
            out.add('index')
        elif kind == 'str' and len(node[2]) > 1:
            out.add('interpolation')
        elif kind == 'call':
            out.add(node[2])
        out.add(kind)
    for n in node:
        walk(n, out, held)


def of_case(case, pair):
    out = set()
    for name, text in case.files.items():
        if not name.endswith(('.layout', '.inc')):
            continue
        try:
            tree, mine = parse(text.encode('utf-8')), set()
        except Refuse:  # a file that nothing includes
            continue
        walk(tree, mine)
        if 'skip' in mine:
            out.add('skip ' + ('train' if name.split('/')[-1].startswith('train') else 'infer'))
        kinds = [s[0] for s in tree]
        if 'tensor' in kinds and 'on' in kinds and kinds.index('on') < len(kinds) - 1 - kinds[::-1].index('tensor'):
            out.add('late tensor')
        out |= mine
        if '\r\n' in text:
            out.add('CRLF')
    out |= {'-D side' if '.' in k else '-D' for k, _ in case.defines}
    out |= {w for w, x in (('-I', case.incdirs), ('--model', case.models), ('--cluster', case.cluster)) if x}
    out |= {a for a in case.args if a.startswith('--')}
    if case.cluster:
        c = case.files[case.cluster]
        who = [ln.split(':', 1)[1] for ln in c.split('\n') if ln.startswith(('train:', 'infer:'))]
        gpus = [set(w.strip(' "').split(',')) for w in who]
        if gpus[0] & gpus[1]:
            out.add('colocated')
    for s in (pair.train, pair.infer):
        sets = [set(m.ranks) for m in s.meshes]
        if any(a == b for a, b in itertools.combinations(sets, 2)):
            out.add('two meshes')
        if any(a < b or b < a for a, b in itertools.combinations(sets, 2)):
            out.add('sub-mesh')
        if any(m.ranks != sorted(m.ranks) for m in s.meshes):
            out.add('unordered ranks')
        if set().union(*sets) != set(range(s.world)):
            out.add('idle rank')
    return out


class Tables:
    """Cells filled so far.  train, infer: two features within one value; across: one at each end of the same tensor;
    case: two in one pair of files; dtype: a feature on elements of a dtype."""

    def __init__(self):
        self.cells = {'train': {}, 'infer': {}, 'across': {}, 'case': {}, 'dtype': {}}

    def add(self, case, pair):
        self.merge_set(self.cells_of(case, pair))

    def merge_set(self, new):
        for table, cell in new:
            self.cells[table][cell] = self.cells[table].get(cell, 0) + 1

    def cells_of(self, case, pair):
        """Every cell that this case fills."""
        out = []
        ends = {}
        for s in (pair.train, pair.infer):
            for b in s.bufs:
                fs = of_buffer(b) & set(VALUES)
                out += [(s.which, c) for c in itertools.combinations(sorted(fs), 2)]
                for t in b.tensors:
                    ends.setdefault(t, {}).setdefault(s.which, set()).update(fs)
                    out += [('dtype', (s.tensors[t][0], f)) for f in fs]
        for e in ends.values():
            out += [('across', (a, b)) for a in e.get('train', ()) for b in e.get('infer', ())]
        fs = of_case(case, pair) & set(STATEMENTS)
        out += [('case', c) for c in itertools.combinations(sorted(fs), 2)]
        return set(out)

    @staticmethod
    def wanted():
        """table -> cells that must be filled; and those that cannot, with the reason."""
        want, never = {t: [] for t in ('train', 'infer', 'across', 'case', 'dtype')}, []
        for side in ('train', 'infer'):
            for c in itertools.combinations(sorted(VALUES), 2):
                why = [NEVER[(side, f)] for f in c if (side, f) in NEVER]
                why += [NEVER_PAIR[c]] if c in NEVER_PAIR else []
                never.append((side, c, why[0])) if why else want[side].append(c)
        for c in itertools.product(VALUES, VALUES):
            why = [NEVER[k] for k in (('train', c[0]), ('infer', c[1])) if k in NEVER]
            never.append(('across', c, why[0])) if why else want['across'].append(c)
        want['case'] = list(itertools.combinations(sorted(STATEMENTS), 2))
        for d in DTYPES:
            for f in VALUES:
                why = None
                if f in ('add', 'neg_exp') and d not in ('f16', 'bf16', 'f32'):
                    why = 'only f16 bf16 f32'
                elif f == 'cast' and d not in ('f16', 'bf16', 'f32', 'f64', 'f8e4m3', 'f8e5m2'):
                    why = 'casts are between floats'
                never.append(('dtype', (d, f), why)) if why else want['dtype'].append((d, f))
        return want, never

    def empty(self):
        want, _ = self.wanted()
        return [(t, c) for t, cs in want.items() for c in cs if c not in self.cells[t]]

    def report(self, verbose=False):
        want, never = self.wanted()
        lines = []
        for t, cs in want.items():
            full = sum(c in self.cells[t] for c in cs)
            lines.append(f'  {t:7} {full:5} of {len(cs):5} pairs of features seen')
        if verbose:
            lines += [f'  ruled out: {t} {a} x {b}: {why}' for t, (a, b), why in never]
            for t, cs in want.items():
                lines += [f'  {t}: {c[0]} x {c[1]}: {self.cells[t].get(c, 0)}' for c in cs]
        miss = self.empty()
        lines += [f'  empty: {t}: {a} x {b}' for t, (a, b) in miss[:10000 if verbose else 12]]
        if len(miss) > 12 and not verbose:
            lines.append(f'  ... {len(miss)} empty cells in all')
        return '\n'.join(lines)
