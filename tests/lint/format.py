#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-format decides layout. In: the root, clang-format. Out: the files it would change.

Exit 0 or 1; 77 (skipped) without clang-format 14, whose taste is the one that counts.
"""
import collections
import re
import subprocess
import sys

import tree


def main(root, tool=None, *_):
    version = subprocess.run([tool, "--version"], capture_output=True, text=True).stdout if tool else ""
    if "version 14." not in version:
        print("format: clang-format 14 is not here: skipped")
        sys.exit(77)
    names = tree.files(root, ".c", ".h", ".cpp", ".cu")
    done = subprocess.run([tool, "--dry-run", *names], cwd=root, capture_output=True, text=True)
    places = collections.Counter(re.findall(r"^(\S+?):\d+:\d+: warning:", done.stderr, re.M))
    faults = [f"{name}: {count} places; clang-format -i {name}" for name, count in sorted(places.items())]
    tree.finish("format", faults)


if __name__ == "__main__":
    main(*sys.argv[1:])
