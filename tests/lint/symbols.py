#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The prefix says the layer: libreshard and its plugins export reshard_* only, each archive defines its own prefix.

In: a build directory. Out: one line per fault; exit 0, 1, or 77 (skipped) when nothing is built there.
"""
import pathlib
import re
import subprocess
import sys

import tree

PREFIXES = {"plans": "rsp[vm]?_", "compiler": "rsc_", "kernels": "rsk_", "runtime": "rsr_|reshard_"}
SANITIZERS = re.compile(r"_*(asan|ubsan|lsan|odr_asan|sanitizer)")


def defined(path, *options):
    done = subprocess.run(["nm", "--defined-only", *options, str(path)], check=True, capture_output=True, text=True)
    for line in done.stdout.splitlines():
        match = re.match(r"^[0-9a-f]+ ([A-Z]) (\S+)$", line)
        if match and match[1] not in "UN" and not SANITIZERS.match(match[2]):
            yield match[2]


def main(build):
    build = pathlib.Path(build)
    shared = [p for p in build.rglob("libreshard*.so*") if not p.is_symlink()]
    archives = [(p, prefix) for room, prefix in PREFIXES.items() for p in (build / room).rglob("*.a")]
    if not shared and not archives:
        print("symbols: nothing is built: skipped")
        sys.exit(77)
    faults = [f"{p.name} exports {s}" for p in shared for s in defined(p, "-D") if not s.startswith("reshard_")]
    for path, prefix in archives:
        faults += [f"{path.relative_to(build)} defines {s}, not {prefix}*"
                   for s in defined(path, "-g") if not re.match(prefix, s)]
    tree.finish("symbols", faults)


if __name__ == "__main__":
    main(sys.argv[1])
