# SPDX-License-Identifier: Apache-2.0
"""Turns texts that differ only in numbers that go up evenly into one text with a loop variable.

In: statements, or expressions, of the layout language. Out: the same meaning, shorter.
"""

import re

_NUMBER = re.compile(r"\d+")


def quote(name, glob=False):
    """A name as a string of the language; as a glob that matches only it."""
    if glob:
        name = re.sub(r"([*?\[])", r"[\1]", name)
    for a, b in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t"), ("{", "{{"), ("}", "}}")):
        name = name.replace(a, b)
    return f'"{name}"'


def indent(lines):
    return ["  " + line for line in lines]


def _scan(text):
    """The text between numbers, and of each number its value and where it stands: code, string, braces in a string."""
    gaps, numbers, last, state, i = [], [], 0, "code", 0
    while i < len(text):
        c, two = text[i], text[i : i + 2]
        if state == "code" and c == '"':
            state = "string"
        elif state == "code" and c == "#":  # our own comments hold no numbers that vary
            i = text.find("\n", i) if "\n" in text[i:] else len(text)
            continue
        elif state == "string" and c == "\\" or state == "string" and two in ("{{", "}}"):
            i += 2
            continue
        elif state == "string" and c == '"':
            state = "code"
        elif state == "string" and c == "{":
            state = "braces"
        elif state == "braces" and c == "}":
            state = "string"
        elif c.isdigit():
            match = _NUMBER.match(text, i)
            word = match.group()
            name = state != "string" and i and (text[i - 1].isalnum() or text[i - 1] == "_")
            # A word's digits, digits with a zero in front, and decimals stay as they are.
            if (
                not name
                and not (len(word) > 1 and word[0] == "0")
                and not re.match(r"\.\d", text[match.end() :] if state == "code" else "")
            ):
                gaps.append(text[last:i])
                numbers.append((int(word), state))
                last = match.end()
            i = match.end()
            continue
        i += 1
    return gaps + [text[last:]], numbers


def _names(text):
    return set(re.findall(r"(?:for |stack\(|cat\(\d+, )(\w+) in ", text))


class Loops:
    def one(self, texts, var):
        """(variable, low, high, body) with `for variable in low..high: body` the same as these texts, or None."""
        scanned = [_scan(t) for t in texts]
        if any(g != scanned[0][0] or len(n) != len(scanned[0][1]) for g, n in scanned):
            return None
        columns = list(zip(*[n for _, n in scanned]))
        lines = []
        for column in columns:
            values = [v for v, _ in column]
            step = values[1] - values[0] if len(values) > 1 else 0
            if any(b - a != step for a, b in zip(values, values[1:])) or (step < 0 and column[0][1] == "string"):
                return None
            lines.append((values[0], step))
        low = next((a for (a, b), c in zip(lines, columns) if b == 1 and c[0][1] == "string"), 0)
        taken = set().union(*map(_names, texts))
        var = next((v for v in (var, "e", "f", "g", "h", "i", "j", "k") if v not in taken), None)
        if var is None or len(texts) < 2:
            return None
        gaps, body = scanned[0][0], scanned[0][0][0]
        for (a, b), column, before, after in zip(lines, columns, gaps, gaps[1:]):
            body += self._number(a - low * b, b, column[0][1], var, before, after) + after
        return var, low, low + len(texts), body

    @staticmethod
    def _number(start, step, state, var, before, after):
        if step == 0:
            return str(start)
        text = var if step == 1 else f"{step} * {var}"
        if start:
            text += f" + {start}" if start > 0 else f" - {-start}"
        if state == "string":
            return "{" + text + "}"
        near = (before.rstrip()[-1:] or " ") in "+-*/" or (after.lstrip()[:1] or " ") in "*/"
        return f"({text})" if near and text != var else text

    def fold(self, statements, depth=0):
        """`statements`: (name, text) in order. Those whose names differ by a number, and whose texts go up with it,
        become a loop; within one number the same, for the next number of the name."""
        out, i = [], 0
        while i < len(statements):
            prefix = self._prefix(statements[i][0], depth)
            if prefix is None:
                out.append(statements[i][1])
                i += 1
                continue
            j = i
            while j < len(statements) and self._prefix(statements[j][0], depth) == prefix:
                j += 1
            out += self._group(statements[i:j], depth)
            i = j
        return out

    @staticmethod
    def _prefix(name, depth):
        numbers = [m for m in re.finditer(r"(?<![A-Za-z0-9_])\d+(?![A-Za-z0-9_])", name)]
        return name[: numbers[depth].start()] if len(numbers) > depth else None

    def _group(self, statements, depth):
        """Statements with the same text before the number at this depth."""
        blocks = {}
        for name, text in statements:
            prefix = self._prefix(name, depth)
            value = int(_NUMBER.match(name, len(prefix)).group())
            blocks.setdefault(value, []).append((name, text))
        texts = [(v, "\n".join(self.fold(blocks[v], depth + 1))) for v in sorted(blocks)]
        out, i = [], 0
        while i < len(texts):
            best, j = None, i + 1
            while j < len(texts) and texts[j][0] == texts[j - 1][0] + 1:
                j += 1
            run = [t for _, t in texts[i:j]]
            best, size = self._longest(run, "le"[depth] if depth < 2 else "f")
            if best is None:
                out += run[0].split("\n")
                i += 1
                continue
            var, low, high, body = best
            lines = body.split("\n")
            out += (
                [f"for {var} in {low}..{high} {{ {lines[0]} }}"]
                if len(lines) == 1
                else [f"for {var} in {low}..{high} {{"] + indent(lines) + ["}"]
            )
            i += size
        return out

    def _longest(self, run, var):
        """The longest beginning of a run that is one loop."""
        skeletons = [_scan(t)[0] for t in run]
        size = 1
        while size < len(run) and skeletons[size] == skeletons[0]:
            size += 1
        while size > 1:
            best = self.one(run[:size], var)
            if best:
                return best, size
            size -= 1
        return None, 1
