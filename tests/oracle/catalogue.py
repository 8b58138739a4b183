# SPDX-License-Identifier: Apache-2.0
"""A model catalogue in YAML -> ([(constant, value)], [(name, dtype, shape)])."""
import itertools
import yaml
from syntax import DTYPES, Lexer, Refuse, parse_expr


def plain(node):
    """YAML nodes -> dict, list, int (plain scalars that look so), str as latin-1 bytes."""
    if isinstance(node, yaml.MappingNode):
        out = {}
        for k, v in node.value:
            if k.value in out:
                raise Refuse('yaml', f'{k.value} twice')
            out[k.value] = plain(v)
        return out
    if isinstance(node, yaml.SequenceNode):
        return [plain(x) for x in node.value]
    s = node.value
    if node.style is None and s.lstrip('-').isdigit():
        return int(s)
    return s.encode('utf-8').decode('latin-1')


def arith(x, names):
    """An integer, or integer arithmetic over constants."""
    if isinstance(x, int):
        return x

    def ev(e):
        if e[0] == 'int':
            return e[2]
        if e[0] == 'paren':
            return ev(e[2])
        if e[0] == 'id' and isinstance(names.get(e[2]), int):
            return names[e[2]]
        if e[0] == 'un' and e[2] == '-':
            return -ev(e[3])
        if e[0] == 'bin' and e[2] in '+-*/%':
            a, b = ev(e[3]), ev(e[4])
            if e[2] in '/%' and b == 0:
                raise Refuse('zero')
            return {'+': a + b, '-': a - b, '*': a * b, '/': a // (b or 1), '%': a % (b or 1)}[e[2]]
        raise Refuse('yaml', f'arithmetic: {x}')

    return ev(parse_expr(x))


def bounds(x, names):
    if isinstance(x, list):
        return x
    e = parse_expr(x) if isinstance(x, str) else None
    if e is not None and e[0] == 'id' and isinstance(names.get(e[2]), list):
        return names[e[2]]
    if not isinstance(x, str) or x.count('..') != 1:
        raise Refuse('yaml', f'for: {x}')
    lo, hi = x.split('..')
    return list(range(arith(lo, names), arith(hi, names)))


def expand(name, values, loops):
    out, i = '', 0
    used = set()
    while i < len(name):
        if name[i:i + 2] in ('{{', '}}'):
            out += name[i]
            i += 2
        elif name[i] == '{':
            e = name.index('}', i)
            used |= {t[1] for t in Lexer(name[i + 1:e]).out if t[0] == 'id' and t[1] in loops}
            x = name[i + 1:e].strip()
            out += values[x] if isinstance(values.get(x), str) else str(arith(x, values))
            i = e + 1
        else:
            out += name[i]
            i += 1
    return out, used


def read_catalogue(path):
    with open(path, 'rb') as f:
        doc = plain(yaml.compose(f.read().decode('utf-8'), Loader=yaml.SafeLoader))
    if set(doc) - {'reshard-model', 'name', 'dtype', 'constants', 'tensors'} or doc.get('reshard-model') != 1:
        raise Refuse('yaml', f'keys {sorted(doc)}')
    names, out = doc.get('constants', {}), []
    for t in doc.get('tensors', []):
        if set(t) - {'name', 'for', 'shape', 'dtype'}:
            raise Refuse('yaml', f'keys {sorted(t)}')
        dtype = t.get('dtype', doc.get('dtype'))
        if dtype not in DTYPES:
            raise Refuse('yaml', f'dtype {dtype}')
        loops = t.get('for', {})
        for xs in itertools.product(*[bounds(b, names) for b in loops.values()]):
            here = {**names, **dict(zip(loops, xs))}
            name, used = expand(t['name'], here, loops)
            if used != set(loops):
                raise Refuse('yaml', 'unused loop variable')
            out.append((name, dtype, [arith(d, here) for d in t['shape']]))
    return list(names.items()), out
