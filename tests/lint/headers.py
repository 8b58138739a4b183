#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every header compiles alone, as C11 and as C++17. In: the root, two compilers, where MPI's headers are, or nothing:
then those that include mpi.h are left out. Out: messages; exit 0 or 1."""
import concurrent.futures
import os
import pathlib
import subprocess
import sys

import tree


def main(root, c_compiler, cxx_compiler, *mpi):
    # Without MPI's own C++ binding, which is not ours to judge.
    system = [word for folder in mpi for word in ("-isystem", folder)] + ["-DMPICH_SKIP_MPICXX", "-DOMPI_SKIP_MPICXX"]
    names = [n for n in tree.files(root, ".h") if mpi or "<mpi.h>" not in (pathlib.Path(root) / n).read_text()]
    ways = [[c_compiler, "-std=c11", "-x", "c"], [cxx_compiler, "-std=c++17", "-x", "c++"]]
    jobs = [(way, name) for name in names for way in ways]

    def compile_alone(job):
        way, name = job
        done = subprocess.run(way + ["-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-I", root, *system,
                                    "-fsyntax-only", "-"],
                              input=f'#include "{name}"\n', capture_output=True, text=True)
        return f"{name} with {' '.join(way)}:\n{done.stderr}" if done.returncode else None

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        tree.finish("headers", [fault for fault in pool.map(compile_alone, jobs) if fault])


if __name__ == "__main__":
    main(*sys.argv[1:])
