#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every training layout of plans/library with both engines' layout of the same model, small: what the frameworks hold
on each training rank goes in, and what each inference rank gets is compared with what its engine would load.

In: the tools, the library. Out: exit 0 or 1.
"""
import argparse
import pathlib
import re

import numpy as np

import families
import small
from small import catalogue
import fsdp_test
import megatron
import megatron_test
import sharded

TRAIN = {  # how Megatron-core trains a small model of each kind
    "dense": dict(TP=2, DP=2, PP=2),
    "gqa": dict(TP=2, DP=4, EP=4, PP=2, split=("uneven", 3, 1)),
    "mla": dict(TP=2, EP=2, PP=5),
    "gdn": dict(TP=2, DP=2, EP=2, ETP=2, PP=2, PADV=1),
    "mamba": dict(TP=4, EP=4, PP=3, PADV=1),
    "kda": dict(TP=2, DP=2, EP=4, PP=5, PADV=1),
}
INFER = {  # how each engine serves it
    "dense": (dict(TP=4, ENGINES=2), dict(TP=4, DP=2)),
    "gqa": (dict(TP=2, DP=2, EP=1, slots=[[0, 1, 2, 3, 3, 1, 0, 0]]), dict(TP=4, EP=2, PP=2)),
    "mla": (dict(TP=4, ENGINES=2), dict(TP=4, DP=2, EP=4)),
    "gdn": (dict(TP=4, ENGINES=2), dict(TP=4, FUSED_SHARED=1)),
    "mamba": (dict(TP=2, DP=2, EP=1), dict(TP=4, DP=2, EP=2)),
    "kda": (dict(TP=2, DP=2, EP=1), dict(TP=4, DP=2, EP=4)),
}
AWKWARD = [  # model, constants, how it is trained, engine, how it is served
    # 1.5 heads a rank to one kv head on four ranks; padded vocabularies that meet nowhere
    ("qwen3-4b", dict(G=1, Q=4, V=130), dict(TP=4, CP=2, PADV=8), "vllm", dict(TP=4)),
    ("qwen3-8b", dict(Q=1), dict(TP=8), "sglang", dict(TP=2, PP=3)),             # 3/4 of a head a rank
    ("llama-3.1-405b", dict(L=7, G=4), dict(TP=4, PP=3, split=("uneven", 1, 2)), "vllm", dict(TP=8, PP=2)),
    ("qwen3-30b-a3b", dict(E=6), dict(DP=4, EP=2, PP=2), "vllm", dict(TP=4, EP=1)),             # 2 2 1 1 experts
    ("qwen3-235b-a22b", dict(E=6), dict(TP=4, DP=2, EP=2, ETP=2, EXPERTS="grouped"), "sglang",
     dict(TP=4, EP=2, slots=[[5, 0, 1, 2, 3, 4, 0, 5]])),
    # the layer for multi-token prediction to a drafter
    ("deepseek-v3", dict(MTP=1), dict(TP=2, DP=2, PP=2, VPP=2, EP=2, MTP_LAYERS=1, split=("layout", "Et|tt|t|tmL")),
     "vllm", dict(TP=2, DP=2, EP=1, DRAFTER=1)),
    ("kimi-k2", dict(E=6), dict(TP=2, DP=4, EP=2, ETP=2, QKV_DOWN=1, EXPERTS="local"), "vllm",
     dict(TP=2, PP=2, EP=1)),
    ("qwen3.5-397b-a17b", dict(GK=8, GV=16), dict(TP=8, EP=4, ETP=2, PADV=1), "vllm", dict(TP=2, PP=2)),
    ("nemotron-3-ultra", dict(G=1, MG=4), dict(TP=4, EP=2, PADV=1), "sglang", dict(TP=4, EP=4)),
    ("kimi-k3", dict(N=8, AN=12), dict(TP=8, EP=4, PADV=1), "vllm", dict(TP=4, MIN_ROWS=4)),
]
SHARDED = {  # FSDP and flat buffers: the case of that suite whose sizes the engine can cut
    "qwen3-8b-fsdp2": (fsdp_test.LIKE, dict(DP=3)), "llama-3.1-8b-fsdp2": (fsdp_test.LIKE, dict(DP=3, REPLICAS=2)),
    "qwen3-30b-a3b-fsdp2": (fsdp_test.MOE | dict(I=8, Q=4), dict(DP=5)),
    "qwen3-30b-a3b-fsdp2-ep": (fsdp_test.MOE | dict(I=8, Q=4, E=6), dict(DP=6, EP=2)),
    "qwen3-8b-fsdp2-tp": (fsdp_test.LIKE, dict(DP=3, TP=2)), "qwen3-8b-zero3": (fsdp_test.LIKE, dict(DP=4, REPLICAS=2)),
    "qwen3-8b-fsdp1": (fsdp_test.LIKE, dict(DP=3, REPLICAS=2)), "qwen3-8b-zero1": (fsdp_test.LIKE, dict(DP=6)),
    "qwen3-8b-megatron-fsdp": (fsdp_test.LIKE, dict(DP=8)),
}


def megatron_side(args, name, more=None, changes=None):
    """Catalogue, weights, what each rank holds, the layout's text, its parameters."""
    base = name.removesuffix("-zero1")
    family, _ = megatron_test.FAMILIES[base]
    kind, constants = small.MODELS[base]
    model = catalogue.read(args.library / "models" / f"{base}.yaml", constants | (more or {}))
    way = megatron_test.COMMON | (changes or TRAIN["dense" if constants.get("E") == 0 else kind])
    text, params = megatron_test.layout(args, name, way)
    weights = catalogue.weights(catalogue.tensors(model), family.coarse, family.near_one, sum(name.encode()))
    for n, array in weights.items():
        if n.endswith(".A_log"):                  # numbers whose exponentials are numbers
            array[:] = np.random.default_rng(len(array)).integers(-64, 64, array.shape).astype("<f4").view("<u4")
            array[:] = (array.view("<f4") / 32).astype("<f4").view("<u4")
    holds = megatron.ranks if base == name else megatron.distributed_optimizer
    ranks = holds(family, model["constants"], weights, way)
    return model, weights, ranks, text, [f"-Dtrain.{p}={way[p]}" for p in params if p != "stages"]


def sharded_side(args, name):
    constants, changes = SHARDED[name]
    rule = {c[0]: c[3] for c in fsdp_test.CASES}[name]
    base = {c[0]: c[1] for c in fsdp_test.CASES}[name]
    model = catalogue.read(args.library / "models" / f"{base}.yaml", constants)
    text = (args.library / "fsdp" / f"{name}.layout").read_text()
    text = re.sub(r"(?m)^model .*$", 'model "small.yaml";', text)
    no = lambda n: False  # noqa: E731
    weights = catalogue.weights(catalogue.tensors(model), no, no, sum(name.encode()))
    way = dict(REPLICAS=1, TP=1, FP32=0, DIM=1) | changes
    defines = [f"-Dtrain.{p}={way[p]}" for p in re.findall(r"param (\w+) =", text)]
    return model, weights, rule(weights, way), text, defines


def check(args, library, name, base, side, ways):
    model, weights, arrays, text, defines = side
    for engine, changes in ways.items():
        way = small.WAY[engine] | changes
        infer = small.engine_text(args.library, engine, base, way)
        right = families.ranks(engine, small.MODELS[base][0], model["constants"], weights, way)
        with small.Scratch(args, model) as scratch:
            layouts = scratch.write(library, text), scratch.write(engine, infer)
            got = scratch.move(*layouts, arrays, defines + small.engine_defines(infer, way))
            small.same(f"{library} {name} to {engine}", got, right)
        print(f"ok   {library} {name} to {engine}, {len(arrays)} ranks to {len(right)}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--library", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    there = {p.stem for d in ("megatron", "fsdp") for p in (args.library / d).glob("*.layout")}
    trained = [*small.MODELS, "qwen3-8b-zero1"]   # the last one is of both libraries
    untested = there ^ {*SHARDED, *trained}
    if untested:
        raise SystemExit(f"no pair for {sorted(untested)}")
    for name in filter(lambda n: args.only in n, trained):
        base = name.removesuffix("-zero1")
        kind, constants = small.MODELS[base]
        ways = INFER["dense" if constants.get("E") == 0 else kind]
        check(args, "megatron", name, base, megatron_side(args, name), dict(zip(("vllm", "sglang"), ways)))
    for name, constants, train, engine, infer in AWKWARD:
        if args.only in name:
            title = " ".join([name, *(f"{k}{v}" for k, v in (constants | train).items())])
            check(args, "megatron", title, name, megatron_side(args, name, constants, train), {engine: infer})
    for name in filter(lambda n: args.only in n, SHARDED):
        base = {c[0]: c[1] for c in fsdp_test.CASES}[name]
        one = dict(DP=3, EP=1), dict(TP=2, EP=1)
        ways = one if "moe" in name or "30b" in name else (dict(TP=4, ENGINES=2), dict(TP=4, DP=2))
        check(args, "fsdp", name, base, sharded_side(args, name), dict(zip(("vllm", "sglang"), ways)))


if __name__ == "__main__":
    main()
