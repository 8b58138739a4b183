#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No device kernel spills, uses a stack, or takes more registers than leave its warps room.

In: what ptxas said (kernels/nvcc.sh). Out: a table; exit 0, 1, or 77 (skipped) without a compiler for devices.
"""
import re
import sys

CARDS = ("sm_80", "sm_90", "sm_100")
# Registers of a thread: 65536 of them for 4 blocks of 256 threads, and for 2 where elements are converted.
KERNELS = {"rsk_batch_kernel": 64, "rsk_batch_convert_kernel": 128, "rsk_batch_hash_kernel": 64}
ENTRY = re.compile(
    r"Compiling entry function '(?P<kernel>\w+)' for '(?P<card>\w+)'.*?"
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads.*?"
    r"Used (?P<registers>\d+) registers", re.S)


def faults_of(text):
    found = {}
    for match in ENTRY.finditer(text):
        kernel, card = match["kernel"], match["card"]
        numbers = {key: int(match[key]) for key in ("stack", "stores", "loads", "registers")}
        found[kernel, card] = numbers
        if numbers["stack"] or numbers["stores"] or numbers["loads"]:
            yield f"{kernel} for {card} spills: {numbers}"
        if numbers["registers"] > KERNELS.get(kernel, 0):
            yield f"{kernel} for {card} takes {numbers['registers']} registers, not {KERNELS.get(kernel)} at most"
    for kernel in KERNELS:
        for card in CARDS:
            if (kernel, card) not in found:
                yield f"{kernel} for {card} is not there"


def self_test(text):
    """A report that was changed must not pass."""
    for old, new in (("0 bytes spill stores", "8 bytes spill stores"), ("0 bytes stack", "16 bytes stack"),
                     ("sm_90", "sm_89"), ("rsk_batch_hash_kernel", "other")):
        assert list(faults_of(text.replace(old, new, 1))), f"{new} passes"
    assert list(faults_of(re.sub(r"Used \d+", "Used 129", text))), "129 registers pass"


def main(path):
    if not path:
        print("resources: no nvcc 12.8+, device kernels skipped")
        return 77
    with open(path, encoding="utf-8") as file:
        text = file.read()
    faults = list(faults_of(text))
    print(*faults, sep="\n")
    if faults:
        return 1
    self_test(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
