#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The layouts of plans/library/fsdp on small models of the same structure, against the frameworks' rules in numpy.

In: the tools, the library. Out: exit 0 or 1.
"""
import argparse
import pathlib
import re

import numpy as np

import catalogue
import moves
import sharded

ODD = dict(L=3, H=6, V=13, G=1, Q=3, D=5, I=7)       # nothing divides
LIKE = dict(L=3, H=16, V=70, G=2, Q=4, D=2, I=48)    # the proportions of Qwen3-8B
MOE = dict(L=2, H=6, V=13, G=1, Q=3, D=5, I=7, E=3)

CASES = [  # layout, catalogue, constants, rule, way
    ("qwen3-8b-fsdp2", "qwen3-8b", ODD, sharded.fsdp2, dict(DP=4)),
    ("qwen3-8b-fsdp2", "qwen3-8b", ODD, sharded.fsdp2, dict(DP=8, REPLICAS=2, FP32=1)),
    ("llama-3.1-8b-fsdp2", "llama-3.1-8b", ODD, sharded.fsdp2, dict(DP=3, REPLICAS=2)),
    ("qwen3-30b-a3b-fsdp2", "qwen3-30b-a3b", MOE, sharded.fsdp2, dict(DP=5)),
    ("qwen3-8b-fsdp2-tp", "qwen3-8b", LIKE, sharded.fsdp2_tp, dict(DP=3, TP=2)),
    ("qwen3-8b-fsdp2-tp", "qwen3-8b", ODD, sharded.fsdp2_tp, dict(DP=2, TP=4)),
    ("qwen3-30b-a3b-fsdp2-ep", "qwen3-30b-a3b", MOE | dict(E=6), sharded.fsdp2_ep, dict(DP=6, EP=2)),
    ("qwen3-30b-a3b-fsdp2-ep", "qwen3-30b-a3b", MOE | dict(E=8), sharded.fsdp2_ep, dict(DP=6, EP=2, DIM=0)),
    ("qwen3-8b-zero3", "qwen3-8b", ODD, sharded.zero3, dict(DP=4, REPLICAS=2)),
    ("qwen3-8b-fsdp1", "qwen3-8b", ODD, sharded.fsdp1, dict(DP=4)),
    ("qwen3-8b-fsdp1", "qwen3-8b", LIKE, sharded.fsdp1, dict(DP=3, REPLICAS=2)),
    ("qwen3-8b-zero1", "qwen3-8b", ODD, sharded.zero1, dict(DP=4)),
    ("qwen3-8b-zero1", "qwen3-8b", LIKE, sharded.zero1, dict(DP=6)),
    ("qwen3-8b-megatron-fsdp", "qwen3-8b", LIKE, sharded.megatron_fsdp, dict(DP=8)),
    ("qwen3-8b-megatron-fsdp", "qwen3-8b", LIKE | dict(V=75), sharded.megatron_fsdp, dict(DP=3, REPLICAS=2)),
]


def blank(name, array):
    """Padding and gaps, which the files have as zero."""
    return np.where(array == catalogue.GAP, 0, array).astype(array.dtype)


def check(args, name, model, constants, rule, changes):
    small = catalogue.read(args.library / "models" / f"{model}.yaml", constants)
    text = (args.library / "fsdp" / f"{name}.layout").read_text()
    text, models = re.subn(r"(?m)^model .*$", 'model "small.yaml";', text)
    assert models == 1
    no = lambda name: False
    weights = catalogue.weights(catalogue.tensors(small), no, no, sum(name.encode()))
    way = dict(REPLICAS=1, TP=1, FP32=0, DIM=1) | changes
    if way["FP32"]:
        weights = {n: catalogue.tame(a) for n, a in weights.items()}
    words = [f"{p}={way[p]}" for p in re.findall(r"param (\w+) =", text)]
    title = " ".join(f"{k}{v}" for k, v in changes.items())
    moves.check(args, f"{name} {title}", small, text, weights, rule(weights, way), words, blank=blank)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--library", type=pathlib.Path, required=True)
    args = parser.parse_args()
    untested = {p.stem for p in (args.library / "fsdp").glob("*.layout")} - {c[0] for c in CASES}
    if untested:
        raise SystemExit(f"no case for {sorted(untested)}")
    for case in CASES:
        check(args, *case)


if __name__ == "__main__":
    main()
