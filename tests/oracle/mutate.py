# SPDX-License-Identifier: Apache-2.0
"""One deliberate fault in a case.  The oracle still decides whether the result is refused."""
import re
from syntax import Lexer, Refuse, is_node, parse


def source(case):
    return [f for f in case.files if f.endswith(('.layout', '.inc'))]


def spans(tree, kinds, out):
    if isinstance(tree, (list, tuple)):
        if is_node(tree) and tree[0] in kinds:
            out.append(tree)
        for x in tree:
            spans(x, kinds, out)
    return out


class Mutator:
    """Texts are handled as latin-1, in which the parser's spans count."""

    def __init__(self, case, rng):
        self.case, self.rng = case.copy(), rng

    def text(self, f):
        return self.case.files[f].encode('utf-8').decode('latin-1')

    def put(self, f, text):
        self.case.files[f] = text.encode('latin-1').decode('utf-8', 'replace')

    def edit(self, f, span, new):
        t = self.text(f)
        self.put(f, t[:span[0]] + new + t[span[1]:])

    def pick(self, kinds, files=None):
        found = [(f, n) for f in files or source(self.case)
                 for n in spans(parse(self.text(f).encode('latin-1')), kinds, [])]
        return self.rng.choice(found) if found else (None, None)

    def make(self):
        kinds = ['drop', 'twice', 'number', 'number', 'number', 'skip', 'cut', 'dtype', 'word', 'name', 'token', 'token',
                 'axis', 'again', 'inner', 'define', 'yaml', 'rule', 'swap']
        for _ in range(8):
            kind = self.rng.choice(kinds)
            if getattr(self, 'm_' + kind)():
                self.case.note = f'mutation: {kind}'
                return self.case
        return self.case

    def m_drop(self):
        """A statement disappears: supply, demand, a definition."""
        f, n = self.pick({'buffer', 'tensor', 'let', 'param', 'mesh', 'skip', 'def', 'include', 'model', 'on', 'for'})
        if f:
            self.edit(f, n[1], '')
        return f

    def m_skip(self):
        f, n = self.pick({'skip'})
        if f:
            self.edit(f, n[1], self.rng.choice(['', 'skip "nothing*";', 'skip "?";']))
        return f

    def m_twice(self):
        """A buffer once more, under the same or another name."""
        f, n = self.pick({'buffer'})
        if not f or n[5] is None:
            return None
        text = self.text(f)[n[1][0]:n[1][1]]
        other = text if self.rng.random() < 0.3 else re.sub(r'^buffer "', 'buffer "again.', text)
        self.edit(f, n[1], text + ' ' + other)
        return f

    def m_again(self):
        f, n = self.pick({'tensor', 'let', 'param', 'mesh', 'def', 'include', 'world', 'skip', 'on'})
        if f:
            text = self.text(f)[n[1][0]:n[1][1]]
            self.edit(f, n[1], text + ' ' + text)
        return f

    def m_number(self):
        f, n = self.pick({'int'})
        if f:
            self.edit(f, n[1], str(self.rng.choice([n[2] + 1, max(0, n[2] - 1), 2 * n[2], 0, n[2] + 2, 2**63 - 1])))
        return f

    def m_cut(self):
        """A rule goes, or another comes."""
        cuts = []
        for f in source(self.case):
            cuts += [(f, m.span()) for m in re.finditer(r'@\w+(:(chunk|balanced|cyclic|padded)\b)', self.text(f))]
        if not cuts:
            return None
        f, (a, b) = self.rng.choice(cuts)
        word = self.text(f)[a:b].split(':')[0]
        self.edit(f, (a, b), word + self.rng.choice(['', '', ':balanced', ':chunk', ':share(2)', ':[1, 1]']))
        return f

    def m_rule(self):
        found = [(f, m.span()) for f in source(self.case) for m in re.finditer(r' @\w+', self.text(f))]
        if not found:
            return None
        f, (a, b) = self.rng.choice(found)
        word = self.text(f)[a:b]
        self.edit(f, (a, b), self.rng.choice(['', word + word, word + ' @tp', ' @nope']))
        return f

    def m_dtype(self):
        f, n = self.pick({'tensor'})
        if f:
            text = self.text(f)[n[1][0]:n[1][1]]
            self.edit(f, n[1], re.sub(rf' {n[3]} ', self.rng.choice([' f32 ', ' u8 ', ' bf16 ']), text))
        return f

    def m_word(self):
        """replica, cast and others go, or come where they may not be."""
        f = self.rng.choice(source(self.case))
        t = self.text(f)
        found = [m.span() for m in re.finditer(r'\b(replica|cast|neg_exp) ?', t)]
        if found and self.rng.random() < 0.6:
            self.edit(f, self.rng.choice(found), '')
            return f
        f, n = self.pick({'buffer'})
        if not f or n[5] is None:
            return None
        a, b = n[5][1]
        new = self.rng.choice(['replica ({})', 'cast({})', 'neg_exp({})', 'add({}, 1)', 'slice({}, 0, 0, 1)', 'permute({}, 0)',
                               'stack(zz in 0..0, {})', '({})[_]', '({})[_, _]', '({})[..]', 'cat(0, {})', 'cat(7, {})'])
        self.edit(f, (a, b), new.format(self.text(f)[a:b]))
        return f

    def m_name(self):
        f, n = self.pick({'id', 'str'})
        if not f:
            return None
        g, m = self.pick({n[0]})
        other = 'nothing_9' if n[0] == 'id' else '""'
        self.edit(f, n[1], self.text(g)[m[1][0]:m[1][1]] if self.rng.random() < 0.8 else other)
        return f

    def m_axis(self):
        f, n = self.pick({'mesh', 'on'})
        if not f:
            return None
        t = self.text(f)
        words = [m.span() for m in re.finditer(r'\b(tp|pp|dp|ep|cp|x|node_2)\b', t[n[1][0]:n[1][1]])]
        if not words:
            return None
        a, b = self.rng.choice(words)
        self.edit(f, (n[1][0] + a, n[1][0] + b), self.rng.choice(['tp', 'pp', 'dp', 'x']))
        return f

    def m_inner(self):
        """An expression gives way to a part of itself."""
        f, n = self.pick({'sub', 'call', 'cat', 'stack', 'bin', 'cond', 'un'})
        if not f:
            return None
        parts = spans(n[2:], {'int', 'str', 'id', 'sub', 'call', 'cat', 'bin', 'paren'}, [])
        if not parts:
            return None
        p = self.rng.choice(parts)
        self.edit(f, n[1], self.text(f)[p[1][0]:p[1][1]])
        return f

    def m_swap(self):
        f = self.rng.choice(source(self.case))
        found = spans(parse(self.text(f).encode('latin-1')), {'int'}, [])
        if len(found) < 2:
            return None
        i = self.rng.randrange(len(found) - 1)
        a, b = found[i], found[i + 1]
        t = self.text(f)
        if a[1][1] > b[1][0]:
            return None
        self.put(f, t[:a[1][0]] + str(b[2]) + t[a[1][1]:b[1][0]] + str(a[2]) + t[b[1][1]:])
        return f

    def m_token(self):
        """A token goes, comes twice, or changes places with the next."""
        f = self.rng.choice(source(self.case))
        t = self.text(f)
        toks = [x for x in Lexer(t).out if x[0] != 'end']
        if len(toks) < 2:
            return None
        i = self.rng.randrange(len(toks) - 1)
        (_, _, a, b), (_, _, c, d) = toks[i], toks[i + 1]
        new = self.rng.choice([t[c:d], t[a:b] + ' ' + t[a:b] + ' ' + t[c:d], t[c:d] + ' ' + t[a:b]])
        self.put(f, t[:a] + new + t[d:])
        return f

    def m_define(self):
        c = self.case
        roll = self.rng.random()
        if roll < 0.3 or not c.defines:
            c.defines.append((self.rng.choice(['no_such', 'train.no', 'infer.T1']), '1'))
        elif roll < 0.6:
            c.defines.pop(self.rng.randrange(len(c.defines)))
        else:
            i = self.rng.randrange(len(c.defines))
            c.defines[i] = (c.defines[i][0], self.rng.choice(['0', '17', '[1, 2]', 'x', '"s"']))
        return True

    def m_yaml(self):
        c = self.case
        if 'cat.yaml' not in c.files:
            return None
        t = c.files['cat.yaml']
        c.files['cat.yaml'] = self.rng.choice([
            lambda: re.sub(r'dtype: \w+}', 'dtype: u8}', t, 1), lambda: t.replace('shape: [', 'shape: [2, ', 1),
            lambda: t.replace('name: "', 'name: "z', 1), lambda: t.replace('tensors:', 'tenors:'),
            lambda: t.replace('reshard-model: 1', 'reshard-model: 2'), lambda: t.replace('{k}', 'k', 1),
            lambda: t.replace('0..', '1..', 1)])()
        return c.files['cat.yaml'] != t


def mutate(case, rng):
    m = Mutator(case, rng)
    try:
        return m.make()
    except (Refuse, UnicodeError):
        return case
