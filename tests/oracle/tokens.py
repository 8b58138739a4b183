# SPDX-License-Identifier: Apache-2.0
"""Text -> tokens; the words of the language; Refuse.  Strings hold bytes as latin-1 characters: len() counts bytes."""

INT_MAX, INT_MIN = 2**63 - 1, -(2**63)
DTYPES = {'bool': 1, 'u8': 1, 'i8': 1, 'u16': 2, 'i16': 2, 'u32': 4, 'i32': 4, 'u64': 8, 'i64': 8,
          'f16': 2, 'bf16': 2, 'f32': 4, 'f64': 8, 'f8e4m3': 1, 'f8e5m2': 1}
CALLS = {'min', 'max', 'len', 'sum', 'ceildiv', 'char', 'tensors', 'bucket', 'start'}
VALUE_CALLS = {'cat', 'stack', 'slice', 'permute', 'gap', 'cast', 'neg_exp', 'add'}
STATEMENTS = {'param', 'let', 'def', 'need', 'assert', 'include', 'model', 'tensor', 'mesh', 'world', 'for', 'if',
              'on', 'buffer', 'skip'}
RESERVED = CALLS | VALUE_CALLS | STATEMENTS | {'else', 'in', 'pad', 'replica', '_'}
TWO = {'..', '==', '!=', '<=', '>=', '&&', '||'}


class Refuse(Exception):
    """The layout (or the pair) breaks a rule.  kind is a short word for the rule."""

    def __init__(self, kind, text=''):
        super().__init__(f'{kind}: {text}')
        self.kind = kind


class TooBig(Exception):
    """The oracle counts elements one by one; this layout has too many."""


def bounded(n, limit=2_000_000):
    if n > limit:
        raise TooBig(str(n))
    return n


def is_id0(c):
    return c.isascii() and (c.isalpha() or c == '_')


def is_id(c):
    return c.isascii() and (c.isalnum() or c == '_')


class Lexer:
    """Tokens are (kind, value, begin, end); kind in int dec str id op end."""

    def __init__(self, text):
        self.text, self.pos, self.out = text, 0, []
        self.run(None)
        self.out.append(('end', None, len(text), len(text)))

    def run(self, stop):
        """Collects tokens up to the end, or up to the brace that closes an interpolation."""
        t, depth = self.text, 0
        while self.pos < len(t):
            c, b = t[self.pos], self.pos
            if c in ' \t\r\n':
                self.pos += 1
            elif c == '#':
                while self.pos < len(t) and t[self.pos] != '\n':
                    self.pos += 1
            elif c == '"':
                self.string()
            elif c.isascii() and c.isdigit():
                self.number()
            elif is_id0(c):
                while self.pos < len(t) and is_id(t[self.pos]):
                    self.pos += 1
                self.out.append(('id', t[b:self.pos], b, self.pos))
            else:
                if stop and c == '}' and depth == 0:
                    return
                depth += (c == '{') - (c == '}')
                n = 2 if t[b:b + 2] in TWO else 1
                if n == 1 and c not in '()[]{},;:=<>+-*/%!?@.':
                    raise Refuse('token', f'{c!r} at {b}')
                self.pos += n
                self.out.append(('op', t[b:self.pos], b, self.pos))
        if stop:
            raise Refuse('token', 'open interpolation')

    def number(self):
        t, b = self.text, self.pos
        while self.pos < len(t) and (t[self.pos].isdigit() or t[self.pos] == '_'):
            self.pos += 1
        kind = 'int'
        if t[self.pos:self.pos + 1] == '.' and t[self.pos + 1:self.pos + 2].isdigit():
            kind = 'dec'
            self.pos += 1
            while self.pos < len(t) and t[self.pos].isdigit():
                self.pos += 1
        if self.pos < len(t) and is_id(t[self.pos]):
            raise Refuse('token', f'digit followed by letters at {b}')
        word = t[b:self.pos].replace('_', '')
        if kind == 'int' and int(word) > INT_MAX:
            raise Refuse('overflow', word)
        self.out.append((kind, int(word) if kind == 'int' else float(word), b, self.pos))

    def string(self):
        t, b = self.text, self.pos
        self.pos += 1
        parts, now = [], ''
        while True:
            if self.pos >= len(t) or t[self.pos] == '\n':
                raise Refuse('token', f'string at {b} does not end')
            c = t[self.pos]
            if c == '"':
                break
            if c == '\0':
                raise Refuse('token', 'zero byte')
            if t[self.pos:self.pos + 2] in ('{{', '}}'):
                now += c
                self.pos += 2
            elif c == '{':
                parts.append(now)
                now = ''
                self.pos += 1
                keep, self.out = self.out, []
                self.run('}')
                self.out.append(('end', None, self.pos, self.pos))
                parts.append(self.out)
                self.out = keep
                self.pos += 1
            elif c == '}':
                raise Refuse('token', f'lone brace at {self.pos}')
            elif c == '\\':
                e = t[self.pos + 1:self.pos + 2]
                if e not in ('"', '\\', 'n', 't') or not e:
                    raise Refuse('token', f'escape at {self.pos}')
                now += {'"': '"', '\\': '\\', 'n': '\n', 't': '\t'}[e]
                self.pos += 2
            else:
                now += c
                self.pos += 1
        self.pos += 1
        self.out.append(('str', parts + [now], b, self.pos))
