#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The layer rule, by a scan of #include lines. In: the root of the tree. Out: one line per fault; exit 0 or 1."""
import pathlib
import re
import sys

import tree

# What a directory may include of ours, besides itself. Nobody includes tests, and only tests include parts of tools.
MAY = {
    "grammar": {"compiler/base"},
    "compiler": {"grammar", "plans"},
    "plans": set(),
    "kernels": {"plans"},
    "runtime": {"plans", "kernels"},
    "tools": {"compiler", "plans", "runtime", "kernels"},
    "tests": {"grammar", "compiler", "plans", "runtime", "kernels", "tools"},
}
# Who may include the headers of a library that is not libc.
LIBRARIES = {
    "xxhash.h": {"plans", "compiler", "tools", "tests"},
    "yaml.h": {"compiler", "tests"},
    "jansson.h": {"tools", "tests"},
    "mpi.h": {"runtime", "tools", "tests"},
}
# plans depends on libc and the hash only.
LIBC = {f"{n}.h" for n in ("assert ctype errno fcntl fenv float inttypes limits locale math stdalign stdarg stdatomic stdbool "
                           "stddef stdint stdio stdlib stdnoreturn string time unistd sys/mman sys/stat sys/types sys/file "
                           "endian").split()}
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.M)


def faults_of(name, text, exists):
    room = name.split("/")[0]
    for match in INCLUDE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        ours, theirs = match.groups()
        if ours and exists(ours):
            allowed = {room} | MAY[room]
            if not any(ours.startswith(a + "/") for a in allowed):
                yield f"{name}:{line}: {room} may not include {ours}"
        elif ours and "/" not in ours and (exists(str(pathlib.Path(name).parent / ours)) or room not in ("grammar", "compiler")):
            yield f"{name}:{line}: include {ours} by its path from the root"
        elif theirs in LIBRARIES and room not in LIBRARIES[theirs]:
            yield f"{name}:{line}: {room} may not include <{theirs}>"
        elif theirs and room == "plans" and theirs not in LIBC | {"xxhash.h"}:
            yield f"{name}:{line}: plans may not include <{theirs}>"


def main(root):
    root = pathlib.Path(root)
    faults = []
    for name in tree.files(root, ".c", ".h", ".y", ".l", ".cu", ".cpp", ".def"):
        if name.split("/")[0] in MAY:
            text = (root / name).read_text()
            faults += faults_of(name, text, lambda path: (root / path).is_file())
    tree.finish("layers", faults)


if __name__ == "__main__":
    main(sys.argv[1])
