# SPDX-License-Identifier: Apache-2.0
"""Text of a layout file -> tree of tuples.  In: bytes; out: a list of statements; bad text raises Refuse.

A node is (kind, span, ...fields).  Written from the language description alone; shares nothing with the compiler.
"""
from tokens import (CALLS, DTYPES, INT_MAX, INT_MIN, RESERVED, STATEMENTS, VALUE_CALLS, Lexer, Refuse, TooBig, bounded)

__all__ = ['CALLS', 'DTYPES', 'INT_MAX', 'INT_MIN', 'VALUE_CALLS', 'Lexer', 'Refuse', 'TooBig', 'bounded', 'is_node',
           'parse', 'parse_expr']

BINARY = [('||',), ('&&',), ('==', '!='), ('<', '<=', '>', '>='), ('+', '-'), ('*', '/', '%')]
NO_CHAIN = {2, 3}


class Parser:
    def __init__(self, tokens):
        self.toks, self.at = tokens, 0

    # -- tokens
    def peek(self, *values):
        kind, value = self.toks[self.at][:2]
        return kind in ('op', 'id') and value in values

    def take(self, *values):
        if self.peek(*values):
            self.at += 1
            return self.toks[self.at - 1][1]
        return None

    def need(self, value):
        if not self.take(value):
            self.bad(f'wants {value}')

    def bad(self, text):
        raise Refuse('syntax', f'{text} at {self.toks[self.at][2]}, sees {self.toks[self.at][1]!r}')

    def kind(self):
        return self.toks[self.at][0]

    def begin(self):
        return self.toks[self.at][2]

    def span(self, b):
        return (b, self.toks[self.at - 1][3])

    def name(self):
        kind, value = self.toks[self.at][:2]
        if kind != 'id' or value in RESERVED:
            self.bad('wants a name')
        self.at += 1
        return value

    def axis(self):
        """Any word may be the name of an axis."""
        kind, value = self.toks[self.at][:2]
        if kind != 'id' or value == '_':
            self.bad('wants an axis')
        self.at += 1
        return value

    def string(self):
        kind, value, b, e = self.toks[self.at]
        if kind != 'str':
            self.bad('wants a string')
        self.at += 1
        parts = []
        for p in value:
            if isinstance(p, list):
                inner = Parser(p)
                x = inner.expr()
                if inner.kind() != 'end':
                    inner.bad('wants }')
                parts.append(x)
            else:
                parts.append(p)
        return ('str', (b, e), parts)

    # -- statements
    def file(self):
        out = []
        while self.kind() != 'end':
            out.append(self.statement())
        return out

    def block(self):
        self.need('{')
        out = []
        while not self.peek('}'):
            if self.kind() == 'end':
                self.bad('wants }')
            out.append(self.statement())
        self.need('}')
        return out

    def statement(self):
        b = self.begin()
        word = self.take(*STATEMENTS)
        if not word:
            self.bad('wants a statement')
        body = getattr(self, 'st_' + word)()
        return (word, self.span(b)) + body

    def st_param(self):
        n = self.name()
        self.need('=')
        e = self.expr()
        self.need(';')
        return (n, e)

    st_let = st_param

    def st_def(self):
        n, args = self.name(), []
        self.need('(')
        if not self.peek(')'):
            args.append(self.name())
            while self.take(','):
                args.append(self.name())
        self.need(')')
        self.need('=')
        e = self.expr()
        self.need(';')
        if len(set(args)) != len(args):
            raise Refuse('name', 'argument twice')
        return (n, args, e)

    def st_need(self):
        names = [self.name()]
        while self.take(','):
            names.append(self.name())
        self.need(';')
        return (names,)

    def st_assert(self):
        e = self.expr()
        self.need(',')
        s = self.string()
        self.need(';')
        return (e, s)

    def st_include(self):
        s = self.string()
        self.need(';')
        return (s,)

    st_model = st_include

    def st_tensor(self):
        s, dt, dims = self.string(), self.dtype(), []
        self.need('[')
        if not self.peek(']'):
            dims.append(self.expr())
            while self.take(','):
                dims.append(self.expr())
        self.need(']')
        self.need(';')
        return (s, dt, dims)

    def dtype(self):
        kind, value = self.toks[self.at][:2]
        if kind != 'id' or value not in DTYPES:
            self.bad('wants a dtype')
        self.at += 1
        return value

    def st_mesh(self):
        n, axes, items = self.name(), [], None
        self.need('[')
        while True:
            a = self.axis()
            self.need(':')
            axes.append((a, self.expr()))
            if not self.take(','):
                break
        self.need(']')
        if self.take('ranks'):
            items = [self.range()]
            while self.take(','):
                items.append(self.range())
        self.need(';')
        return (n, axes, items)

    def st_world(self):
        e = self.expr()
        self.need(';')
        return (e,)

    def st_for(self):
        n = self.name()
        self.need('in')
        r = self.range()
        return (n, r, self.block())

    def st_if(self):
        arms = [(self.expr(), self.block())]
        other = []
        while self.take('else'):
            if self.take('if'):
                arms.append((self.expr(), self.block()))
            else:
                other = self.block()
                break
        return (arms, other)

    def st_on(self):
        n = None if self.peek('[') else self.name()
        pins = []
        if self.take('['):
            while True:
                a = self.axis()
                self.need('=')
                pins.append((a, self.expr()))
                if not self.take(','):
                    break
            self.need(']')
        return (n, pins, self.block())

    def st_buffer(self):
        s = self.string()
        dt, dims, value = None, None, None
        if self.take('['):
            dims = self.dims()
        elif not self.peek(';'):
            if self.kind() == 'id' and not self.peek('='):
                dt = self.dtype()
            self.need('=')
            value = self.expr()
        self.need(';')
        return (s, dt, dims, value)

    def st_skip(self):
        s = self.string()
        self.need(';')
        return (s,)

    # -- expressions
    def range(self):
        b, lo = self.begin(), self.expr()
        if self.take('..'):
            hi = self.expr()
            return ('range', self.span(b), lo, hi)
        return lo

    def expr(self):
        b, c = self.begin(), self.binary(0)
        if self.take('?'):
            x = self.expr()
            self.need(':')
            y = self.expr()
            return ('cond', self.span(b), c, x, y)
        return c

    def binary(self, level):
        if level == len(BINARY):
            return self.unary()
        b, x = self.begin(), self.binary(level + 1)
        seen = False
        while self.peek(*BINARY[level]) and self.kind() == 'op':
            if seen and level in NO_CHAIN:
                self.bad('comparisons do not chain')
            op = self.take(*BINARY[level])
            y = self.binary(level + 1)
            x = ('bin', self.span(b), op, x, y)
            seen = True
        return x

    def unary(self):
        b = self.begin()
        op = self.take('-', '!', 'replica')
        if op:
            e = self.unary()
            return ('un', self.span(b), op, e)
        return self.post()

    def post(self):
        b, e = self.begin(), self.primary()
        while self.take('['):
            d = self.dims()
            e = ('sub', self.span(b), e, d)
        return e

    def primary(self):
        kind, value, b, _ = self.toks[self.at]
        if kind == 'str':
            return self.string()
        if kind in ('int', 'dec'):
            self.at += 1
            return (kind, self.span(b), value)
        if self.take('('):
            e = self.expr()
            self.need(')')
            return ('paren', self.span(b), e)
        if self.take('['):
            return self.table(b)
        if kind == 'id' and value in ('stack', 'cat'):
            self.at += 1
            return self.joined(b, value)
        if kind == 'id' and (value in CALLS or value in VALUE_CALLS or value not in RESERVED):
            self.at += 1
            if self.take('('):
                args = self.args()
                return ('call', self.span(b), value, args)
            if value in CALLS or value in VALUE_CALLS:
                self.bad('wants (')
            return ('id', self.span(b), value)
        self.bad('wants an expression')

    def args(self):
        out = []
        if not self.peek(')'):
            out.append(self.expr())
            while self.take(','):
                out.append(self.expr())
        self.need(')')
        return out

    def table(self, b):
        items = []
        if not self.peek(']'):
            items.append(self.expr())
            if self.take('for'):
                n = self.name()
                self.need('in')
                r, c = self.range(), None
                if self.take('if'):
                    c = self.expr()
                self.need(']')
                return ('comp', self.span(b), items[0], n, r, c)
            while self.take(','):
                items.append(self.expr())
        self.need(']')
        return ('table', self.span(b), items)

    def is_loop(self):
        return self.kind() == 'id' and self.toks[self.at + 1][:2] == ('id', 'in')

    def joined(self, b, word):
        self.need('(')
        if word == 'stack':
            n = self.name()
            self.need('in')
            r, cuts = self.range(), self.cuts()
            self.need(',')
            v = self.expr()
            self.need(')')
            return ('stack', self.span(b), n, r, cuts, v)
        k = self.expr()
        self.need(',')
        if self.is_loop():
            n = self.name()
            self.need('in')
            r = self.range()
            self.need(',')
            v = self.expr()
            self.need(')')
            return ('catloop', self.span(b), k, n, r, v)
        items = [self.expr()]
        while self.take(','):
            items.append(self.expr())
        self.need(')')
        return ('cat', self.span(b), k, items)

    def dims(self):
        """After '['.  A dim is (what, expr or None, padded-to or None, cuts); what in as_is expr rest."""
        out = []
        if self.take(']'):
            return out
        while True:
            if self.take('..'):
                out.append(('rest', None, None, []))
                break
            if self.take('_'):
                out.append(('as_is', None, None, self.cuts()))
            elif self.take('pad'):
                self.need('(')
                what, e = ('as_is', None) if self.take('_') else ('expr', self.expr())
                self.need(',')
                n = self.expr()
                self.need(')')
                out.append((what, e, n, self.cuts()))
            else:
                e = self.expr()
                out.append(('expr', e, None, self.cuts()))
            if not self.take(','):
                break
        self.need(']')
        return out

    def cuts(self):
        out = []
        while self.take('@'):
            b, a = self.begin(), self.axis()
            rule = self.rule() if self.take(':') else None
            out.append((a, rule, self.span(b)))
        return out

    def rule(self):
        """chunk, balanced, cyclic, padded, share, each are words only here."""
        kind, value = self.toks[self.at][:2]
        follows = self.toks[self.at + 1][:2]
        if kind == 'id' and value in ('cyclic', 'share', 'padded', 'each') and follows == ('op', '('):
            self.at += 2
            args = self.args()
            if not 1 <= len(args) <= (2 if value == 'each' else 1):
                raise Refuse('args', value)
            return ('rule', value, args)
        if kind == 'id' and value in ('chunk', 'balanced', 'cyclic', 'padded') and follows != ('op', '('):
            self.at += 1
            return ('rule', value, [])
        return ('sizes', None, [self.post()])


def is_node(x):
    """A node, and not another tuple such as an axis with its size."""
    return isinstance(x, tuple) and len(x) > 2 and isinstance(x[0], str) and isinstance(x[1], tuple) and \
        len(x[1]) == 2 and all(isinstance(i, int) for i in x[1])


def parse(data):
    """bytes -> statements"""
    if data.startswith(b'\xef\xbb\xbf'):
        raise Refuse('token', 'byte order mark')
    return Parser(Lexer(data.decode('latin-1')).out).file()


def parse_expr(data):
    p = Parser(Lexer(data.decode('latin-1') if isinstance(data, bytes) else data).out)
    e = p.range()
    if p.kind() != 'end':
        p.bad('text after the expression')
    return e
