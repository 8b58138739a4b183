#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the tests to tests/budgets.txt.

In: `--report LOG PRESET`, what ctest printed: fails if a label took longer in all than its budget.
    `--timeouts BUILD`, a configured build directory: fails if a test has no label of the table, a TIMEOUT above it, or
        another's name.
Out: one line per fault on stderr; exit 0 or 1.
"""
import json
import pathlib
import re
import subprocess
import sys

SANITIZED = 4  # sanitizers cost that much
TABLE = pathlib.Path(__file__).resolve().parent.parent / "budgets.txt"


def budgets():
    rows = [line.split() for line in TABLE.read_text().splitlines() if line and not line.startswith("#")]
    return {label: (float(test), float(total)) for label, test, total in rows}


def report(log, table, preset):
    factor = SANITIZED if preset == "asan" else 1
    # CTest closes with "Label Time Summary:" and rows like "unit    =   0.52 sec*proc (4 tests)".
    for label, seconds in re.findall(r"^(\S+)\s+=\s+([\d.]+) sec\*proc", pathlib.Path(log).read_text(), re.M):
        if label in table and float(seconds) > factor * table[label][1]:
            yield f"label {label}: {seconds} s in all, its budget is {factor * table[label][1]:g} s"


def timeouts(build, table):
    text = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True).stdout
    tests = json.loads(text)["tests"]
    if not tests:
        yield "no tests are configured"
    names = [test["name"] for test in tests]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"test {name}: there are two of that name"
    for test in tests:
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        labels = properties.get("LABELS", [])
        if not labels or labels[0] not in table:
            yield f"test {test['name']}: its first label must be one of {' '.join(table)}, it has {labels}"
        elif properties.get("TIMEOUT", 0) > table[labels[0]][0]:
            yield f"test {test['name']}: TIMEOUT {properties['TIMEOUT']:g} is above {table[labels[0]][0]:g} of {labels[0]}"
        elif "TIMEOUT" not in properties:
            yield f"test {test['name']}: no TIMEOUT"


def main():
    mode, path, *rest = sys.argv[1:]
    faults = list({"--report": report, "--timeouts": timeouts}[mode](path, budgets(), *rest))
    for fault in faults:
        print(f"budgets: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
