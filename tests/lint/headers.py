#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every header compiles alone, as C11 and as C++17. In: the root and two compilers. Out: messages; exit 0 or 1."""
import concurrent.futures
import os
import subprocess
import sys

import tree


def main(root, c_compiler, cxx_compiler):
    ways = [[c_compiler, "-std=c11", "-x", "c"], [cxx_compiler, "-std=c++17", "-x", "c++"]]
    jobs = [(way, name) for name in tree.files(root, ".h") for way in ways]

    def compile_alone(job):
        way, name = job
        done = subprocess.run(way + ["-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-I", root, "-fsyntax-only", "-"],
                              input=f'#include "{name}"\n', capture_output=True, text=True)
        return f"{name} with {' '.join(way)}:\n{done.stderr}" if done.returncode else None

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        tree.finish("headers", [fault for fault in pool.map(compile_alone, jobs) if fault])


if __name__ == "__main__":
    main(*sys.argv[1:])
