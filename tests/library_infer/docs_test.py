#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each layout of the inference side, and each of its parameters, is told of in docs/frameworks.

In: the library, the documents. Out: exit 0 or 1.
"""
import argparse
import pathlib
import re


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", type=pathlib.Path, required=True)
    parser.add_argument("--docs", type=pathlib.Path, required=True)
    args = parser.parse_args()
    faults = set()
    for kind in ("vllm", "sglang"):
        words = set(re.findall(r"`([^`]*)`", (args.docs / f"{kind}.md").read_text()))
        for file in [*(args.library / kind).glob("*.layout"), args.library / kind / "grid.inc"]:
            wanted = {file.stem, *re.findall(r"param (\w+) =", file.read_text())} - {"grid"}
            faults |= {f"{kind}.md does not tell of {w} of {file.name}" for w in wanted - words}
    print("\n".join(sorted(faults)) or "ok")
    raise SystemExit(bool(faults))


if __name__ == "__main__":
    main()
