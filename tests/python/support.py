# SPDX-License-Identifier: Apache-2.0
"""What the tests of the Python package share: finding it, skipping, running.

In: the repository. Out: exit status 0, 1, or 77 with the reason for a test that cannot run here.
"""
import importlib
import pathlib
import sys
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "runtime" / "python"))
sys.dont_write_bytecode = True


class Skip(Exception):
    """A part of a test that cannot run here, and why."""


def need(name):
    """The module, or the end of this test."""
    try:
        return importlib.import_module(name)
    except Exception as error:  # not there, or not for this machine
        print(f"skipped: {name}: {error}")
        sys.exit(77)


def main(names):
    """Runs every test_... function, or those named on the command line."""
    failed = 0
    for name, test in list(names.items()):
        if not name.startswith("test_") or (sys.argv[1:] and name not in sys.argv[1:]):
            continue
        try:
            test()
            print(f"ok   {name}", flush=True)
        except Skip as why:
            print(f"skip {name}: {why}", flush=True)
        except Exception:
            failed += 1
            print(f"FAIL {name}", flush=True)
            traceback.print_exc()
    return 1 if failed else 0
