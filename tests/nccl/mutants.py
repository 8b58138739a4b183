#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The suite against backends of which one line is wrong: for each, the test that is named must fail.

    mutants.py ROOT LIBRARY COMPILER FLAGS BIN
In: the source, the library with its objects as they were built, how objects are compiled. A mutant is one object compiled
again from the changed source, and the library linked anew with it.
"""
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile


def rows(text):
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            yield [field.strip() for field in line.split(" | ")]


def main(root, build, compiler, bindir):
    root, build = pathlib.Path(root), pathlib.Path(build)
    link = (build / "mutants" / "objects.rsp").read_text().split()
    rest = shlex.split((build / "mutants" / "link.txt").read_text())
    flags = shlex.split((build / "mutants" / "flags.txt").read_text())
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name, source, script, test in rows((root / "tests/nccl/mutants.txt").read_text()):
            text = (root / "runtime" / source).read_text()
            changed = subprocess.run(["sed", script], input=text, capture_output=True, text=True, check=True).stdout
            assert changed != text, f"{name}: nothing has changed; is the line still there?"
            home = folder / name
            home.mkdir()
            (home / source).write_text(changed)
            subprocess.run([*shlex.split(compiler), *flags, "-w", f"-I{root}", "-c", str(home / source), "-o", str(home / "mutant.o")],
                           check=True)
            objects = [str(home / "mutant.o") if pathlib.Path(o).name == f"{source}.o" else o for o in link]
            assert objects != link, f"{name}: {source} is not in the library"
            subprocess.run([*shlex.split(compiler), "-shared", "-Wl,-soname,libreshard.so.0", "-o", str(home / "libreshard.so.0"),
                            *objects, *rest], check=True)
            try:
                done = subprocess.run([f"{bindir}/test_nccl_{test}"], capture_output=True, text=True, timeout=100,
                                      env={**os.environ, "LD_LIBRARY_PATH": str(home)})
                why = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[0]
                found = done.returncode != 0
            except subprocess.TimeoutExpired:
                found, why = True, "no end"
            print(f"{name}: {test} {'fails: ' + why[:160] if found else 'PASSES'}")
            failures += not found
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
