# SPDX-License-Identifier: Apache-2.0
"""The files of the tree: those git tracks or, without git, all outside build directories."""
import pathlib
import subprocess
import sys


def files(root, *suffixes):
    root = pathlib.Path(root)
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], capture_output=True, text=True)
    if listed.returncode == 0 and listed.stdout:
        names = listed.stdout.rstrip("\0").split("\0")
    else:
        names = [str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()]
        names = [n for n in names if not n.startswith((".git/", "build/")) and "__pycache__" not in n]
    return [n for n in sorted(names) if (root / n).is_file() and (not suffixes or n.endswith(suffixes))]


def finish(name, faults):
    for fault in faults:
        print(f"{name}: {fault}", file=sys.stderr)
    print(f"{name}: {len(faults)} faults")
    sys.exit(1 if faults else 0)
