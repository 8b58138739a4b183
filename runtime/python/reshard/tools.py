# SPDX-License-Identifier: Apache-2.0
"""Finds and runs the tools, reshardc and reshard.

In: RESHARD_BIN (a directory), the build directories, PATH. Out: a finished process.
"""

import os
import pathlib
import shutil
import subprocess

from ._library import built


def tool(name):
    told = os.environ.get("RESHARD_BIN")
    found = [pathlib.Path(told) / name] if told else built(f"bin/{name}")
    for path in found:
        if path.exists():
            return str(path)
    on_path = None if told else shutil.which(name)
    if on_path is None:
        raise FileNotFoundError(
            f"{name} is not found{' in ' + told if told else ''}: build it, put it on PATH, or set RESHARD_BIN "
            "to its directory"
        )
    return on_path


def run(name, *arguments):
    """Runs a tool and returns the finished process, its output as text."""
    return subprocess.run([tool(name), *map(str, arguments)], capture_output=True, text=True)


def compile(train, infer, output, *options):
    """reshardc TRAIN INFER -o OUTPUT; RuntimeError with its messages if it refuses."""
    done = run("reshardc", train, infer, "-o", output, *options)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return output
