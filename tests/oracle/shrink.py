# SPDX-License-Identifier: Apache-2.0
"""Makes a failing case small: statements go, expressions give way to their parts, numbers fall."""
import time
from mutate import source, spans
from syntax import Refuse, parse

STATEMENT = {'param', 'let', 'def', 'need', 'assert', 'include', 'model', 'tensor', 'mesh', 'world', 'for', 'if', 'on',
             'buffer', 'skip'}
EXPR = {'sub', 'call', 'cat', 'stack', 'catloop', 'bin', 'cond', 'un', 'paren', 'comp', 'table'}


def text_of(case, f):
    return case.files[f].encode('utf-8').decode('latin-1')


def edited(case, f, edits):
    t = text_of(case, f)
    for (a, b), new in sorted(edits, reverse=True):
        t = t[:a] + new + t[b:]
    try:
        c = case.copy()
        c.files[f] = t.encode('latin-1').decode('utf-8')
        return c
    except UnicodeError:
        return None


def tree_of(case, f):
    try:
        return parse(text_of(case, f).encode('latin-1'))
    except Refuse:
        return None


def groups(items):
    """Halves, quarters, ..., singles."""
    n = len(items)
    while n >= 1:
        for i in range(0, len(items), n):
            yield items[i:i + n]
        n //= 2


def candidates(case):
    if case.args:
        for i in range(0, len(case.args), 2):
            c = case.copy()
            del c.args[i:i + 2]
            yield c
    if case.cluster:
        c = case.copy()
        c.files.pop(c.cluster, None)
        c.cluster = None
        yield c
    for f in sorted(source(case)):
        if f.endswith('.inc'):
            yield inlined(case, f)
    for f in source(case):
        tree = tree_of(case, f)
        if tree is None:
            continue
        for g in groups([s for s in tree]):
            yield edited(case, f, [(s[1], '') for s in g])
        for s in spans(tree, STATEMENT, []):
            if s not in tree:
                yield edited(case, f, [(s[1], '')])
            t = text_of(case, f)
            if s[0] in ('if', 'for', 'on'):
                for inner in spans(s[2:], STATEMENT, []):
                    yield edited(case, f, [(s[1], t[inner[1][0]:inner[1][1]])])
        for e in spans(tree, EXPR, []):
            t = text_of(case, f)
            for p in spans(e[2:], EXPR | {'int', 'str', 'id'}, []):
                yield edited(case, f, [(e[1], t[p[1][0]:p[1][1]])])
        for e in spans(tree, {'int'}, []):
            for v in {0, 1, e[2] // 2, e[2] - 1}:
                if 0 <= v < e[2]:
                    yield edited(case, f, [(e[1], str(v))])
        for e in spans(tree, {'cat', 'table', 'mesh', 'tensor'}, []):
            items = e[3] if e[0] in ('cat', 'mesh') else e[4] if e[0] == 'tensor' else e[2]
            if e[0] == 'mesh':
                continue
            for x in items:
                yield without(case, f, x[1])
    yield from drop_tensor(case)
    yield from same_number(case)


def without(case, f, span):
    """An item of a list, with its comma."""
    t = text_of(case, f)
    a, b = span
    if t[b:b + 2] == ', ':
        return edited(case, f, [((a, b + 2), '')])
    if t[a - 2:a] == ', ':
        return edited(case, f, [((a - 2, b), '')])
    return None


def inlined(case, f):
    c = case.copy()
    base = f.split('/')[-1]
    body = c.files.pop(f)
    body = '\n'.join(x for x in body.split('\n') if not x.startswith('need '))
    for g in list(c.files):
        c.files[g] = c.files[g].replace(f'include "{base}";', body)
    c.incdirs = []
    return c


def drop_tensor(case):
    """A statement on both sides that starts alike (a tensor), and all that names it."""
    names = set()
    for f in source(case):
        for s in spans(tree_of(case, f) or [], {'tensor'}, []):
            p = s[2][2][0]
            if isinstance(p, str) and p:
                names.add(p)
    for n in sorted(names):
        c = case
        for f in source(case):
            tree = tree_of(c, f)
            t = text_of(c, f)
            hit = [s for s in spans(tree or [], {'tensor', 'buffer', 'skip'}, []) if n in t[s[1][0]:s[1][1]]]
            c = edited(c, f, [(s[1], '') for s in hit]) or c
        if c is not case:
            yield c


def same_number(case):
    """One number lower everywhere at once, as a dimension that both sides state."""
    numbers = {e[2] for f in source(case) for e in spans(tree_of(case, f) or [], {'int'}, [])}
    for v in sorted(numbers, reverse=True):
        for w in (v // 2, v - 1):
            if not 0 < w < v:
                continue
            c = case
            for f in source(case):
                hits = [e for e in spans(tree_of(c, f) or [], {'int'}, []) if e[2] == v]
                c = edited(c, f, [(e[1], str(w)) for e in hits]) or c
            yield c


def excused(case):
    """Both sides excuse everything: statements can then go one by one."""
    c = case.copy()
    for f in (c.train, c.infer):
        c.files[f] += '\nskip "*";\n'
    return c


def size(case):
    return sum(len(case.files[f].replace(' ', '')) for f in case.files) + 50 * len(case.args) + 50 * len(case.files)


def next_smaller(case, at, fails, end):
    """The first candidate from number `at` on that is smaller and fails, and its number: what was tried before it is
    not tried again in this round."""
    for i, c in enumerate(candidates(case)):
        if time.monotonic() > end:
            break
        if i >= at and c is not None and size(c) < size(case) and fails(c):
            return c, i
    return None, 0


def shrink(case, fails, seconds=60.0):
    """fails(case) -> bool.  Greedy, to a fixed point or the time limit."""
    end = time.monotonic() + seconds
    c = excused(case)
    if fails(c):
        case = c
    again = True
    while again and time.monotonic() < end:
        again, at = False, 0
        while time.monotonic() < end:
            c, at = next_smaller(case, at, fails, end)
            if c is None:
                break
            case, again = c, True
    for f in source(case):
        case.files[f] = '\n'.join(x for x in case.files[f].split('\n') if x.strip())
    return case
