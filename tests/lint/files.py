#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What every file holds to: a licence line first, no path of some machine, no generated parser, not too long.

In: the root of the tree. Out: one line per fault, and a report of long files; exit 0 or 1.
"""
import pathlib
import re
import sys

import tree

LICENCE = "SPDX-License-Identifier: Apache-2.0"
# Formats without comments, and files whose bytes are the test.
BARE = (".json", ".golden", ".plan", ".bin", ".png", ".svg", ".gitignore", ".gitattributes", "LICENSE", ".clang-format")
CODE = (".c", ".h", ".y", ".l", ".py", ".cmake", ".txt", ".sh", ".layout", ".inc", ".yaml", ".md", ".def", ".cpp", ".cu")
MACHINE = re.compile(r"(?<![\w.])/(?:work|root|farm|home)/\w|(?<![\w.])/tmp/[a-z]")
GENERATED = re.compile(r"(\.tab\.[ch]|\.yy\.[ch]|(^|/)lex\.\w+\.c|\.output)$")
LONG = 500


def wants_licence(name):
    if name.startswith("tests/") and name.endswith((".yaml", ".layout", ".inc", ".txt")) and not name.endswith("CMakeLists.txt"):
        return False  # inputs: a line more is another test
    if "/corpus/" in name or "/corpora/" in name:
        return False
    return not name.endswith(BARE) and (name.endswith(CODE) or "." not in pathlib.Path(name).name)


def faults_of(name, text):
    head = text.split("\n", 3)
    if wants_licence(name) and LICENCE not in head[0] and not (head[0].startswith("#!") and LICENCE in head[1]):
        yield f"{name}: the first line is not '{LICENCE}'"
    if GENERATED.search(name):
        yield f"{name}: generated files stay out of git"
    for number, line in enumerate(text.split("\n"), 1):
        if MACHINE.search(line) and not name.startswith("tests/lint/"):
            yield f"{name}:{number}: a path of some machine: {line.strip()[:80]}"


def main(root):
    root = pathlib.Path(root)
    faults, long_files = [], []
    for name in tree.files(root):
        try:
            text = (root / name).read_text()
        except UnicodeDecodeError:
            continue
        faults += faults_of(name, text)
        lines = text.count("\n")
        if lines > LONG and name.endswith((".c", ".h", ".y", ".l", ".py", ".cu")):
            long_files.append((lines, name))
    for lines, name in sorted(long_files, reverse=True):
        print(f"files: {name} has {lines} lines, more than {LONG}")
    tree.finish("files", faults)


if __name__ == "__main__":
    main(sys.argv[1])
