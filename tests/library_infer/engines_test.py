#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The layouts of plans/library/vllm and sglang on small models of the same structure, against the engines' own loaders
in numpy. Training holds every tensor whole on one rank.

In: the tools, the library. Out: exit 0 or 1.
"""
import argparse
import pathlib

import families
import small
from small import moves

WHOLE = moves.WHOLE

CASES = [  # engine, layout, changed constants, way
    ("vllm", "qwen3-0.6b", {}, {}),
    ("vllm", "qwen3-0.6b", dict(L=5), dict(TP=2, PP=3, ENGINES=2)),              # tied on two stages, 1 2 2 layers
    ("vllm", "qwen3-4b", dict(V=130), dict(TP=4, DP=2)),                         # 192 rows on 4 ranks, kv heads shared
    ("vllm", "qwen3-8b", dict(G=1, Q=4, V=64), dict(TP=4, PP=2, stages=[1, 3])),  # one kv head on four ranks
    ("vllm", "llama-3.1-8b", dict(G=4, Q=1), dict(TP=2)),                        # two kv heads on each
    ("vllm", "llama-3.1-405b", dict(L=7, G=4), dict(TP=8, PP=2)),
    ("vllm", "qwen3-30b-a3b", dict(E=5), dict(TP=2, DP=2)),                      # every expert cut by DP * TP = 4
    ("vllm", "qwen3-30b-a3b", dict(E=6), dict(TP=2, DP=2, EP=1, PP=2, ENGINES=2)),  # 2 2 1 1 experts
    ("vllm", "qwen3-235b-a22b", dict(E=5), dict(TP=4, EP=1)),                    # 2 1 1 1 experts
    ("vllm", "qwen3-235b-a22b", {}, dict(TP=4, DP=2, EP=1, placement="redundant(4)", slots=[[0, 1, 2, 3, 0, 1, 2, 3]])),
    ("vllm", "qwen3-235b-a22b", {}, dict(TP=2, EP=1, slots=[[0, 1, 1, 2, 3, 0], [3, 2, 1, 0, 3, 3]] * 2)),  # by layer
    ("vllm", "deepseek-v3", {}, dict(TP=4)),
    ("vllm", "deepseek-v3", dict(E=7), dict(TP=2, DP=2, EP=1, placement="round_robin(4)")),
    ("vllm", "deepseek-v3", dict(MTP=2), dict(TP=2, DP=2, EP=1, PP=2, DRAFTER=1)),
    ("vllm", "kimi-k2", dict(E=6), dict(TP=4, EP=1, ENGINES=2, PP=2)),
    ("vllm", "qwen3.5-397b-a17b", {}, {}),
    ("vllm", "qwen3.5-397b-a17b", {}, dict(TP=4, ENGINES=2)),
    ("vllm", "qwen3.5-397b-a17b", {}, dict(TP=2, DP=2, EP=1)),                   # the shared expert whole
    ("vllm", "nemotron-3-ultra", {}, dict(TP=4, ENGINES=2)),
    ("vllm", "nemotron-3-ultra", dict(MG=1), dict(TP=4, EP=1, GATE_FP32=1)),     # every rank has the one group
    ("vllm", "nemotron-3-super", dict(E=6), dict(TP=2, PP=3, DP=2, EP=1)),
    ("vllm", "nemotron-3-ultra", {}, dict(TP=2, SPLIT_GATE=1)),
    ("vllm", "kimi-k3", {}, dict(TP=4, MIN_ROWS=4)),                             # 2 rows of an expert padded to 4
    ("vllm", "kimi-k3", {}, dict(TP=4, EP=1, MIN_ROWS=4)),                       # 8 to 16
    ("vllm", "kimi-k3", dict(N=8, AN=12), dict(TP=4, EP=1)),                     # 69 rows padded to 80
    ("vllm", "kimi-k3", {}, dict(TP=2, DP=2, EP=1, ENGINES=2, FUSED_DECODE=0)),  # dense and shared MLPs whole
    ("sglang", "qwen3-0.6b", dict(L=5), dict(TP=2, PP=3, ENGINES=2)),            # 1 2 2 layers, the head sent
    ("sglang", "qwen3-4b", {}, dict(TP=4)),
    ("sglang", "qwen3-8b", {}, dict(TP=4, DP=2)),                                # attention in two groups
    ("sglang", "llama-3.1-8b", dict(L=7), dict(TP=2, PP=4, DP=2, DP_LM_HEAD=1)),
    ("sglang", "llama-3.1-405b", dict(Q=4), dict(TP=8)),
    ("sglang", "qwen3-30b-a3b", dict(Q=4), dict(TP=8, EP=2, ENGINES=2)),             # four ranks share an expert
    ("sglang", "qwen3-235b-a22b", {}, dict(TP=8, EP=4, DP=2, slots=[[0, 1, 1, 2, 3, 0, 2, 2]])),
    ("sglang", "deepseek-v3", {}, dict(TP=4, FUSED_SHARED=1)),
    ("sglang", "deepseek-v3", {}, dict(TP=4, DP=4, EP=4, A2A=1, DENSE_TP1=1, PP=2)),
    ("sglang", "kimi-k2", {}, dict(TP=4, EP=2, DP=2)),
    ("sglang", "qwen3.5-397b-a17b", {}, dict(TP=4, EP=2, FUSED_SHARED=1)),       # on every rank, after its own
    ("sglang", "qwen3.5-397b-a17b", {}, dict(TP=4, DP=2, EP=2)),
    ("sglang", "nemotron-3-ultra", {}, dict(TP=4, EP=2, DP=2, A2A=1)),
    ("sglang", "nemotron-3-super", dict(MG=1), dict(TP=2, PP=2)),
    ("sglang", "kimi-k3", {}, dict(TP=4, ENGINES=2)),
    ("sglang", "kimi-k3", {}, dict(TP=4, DP=2, EP=4, A2A=1, DENSE_TP1=1, DP_LM_HEAD=1)),
]


REFUSED = [  # engine, layout, way, what is said
    ("vllm", "qwen3-4b", dict(TP=3), "3 ranks must divide the 4 heads"),
    ("vllm", "qwen3-8b", dict(PP=2, stages=[1, 1]), "stages needs PP = 2 entries that add up to 4 layers"),
    ("vllm", "deepseek-v3", dict(EP=1, TP=2, slots=[[0, 1], [2, 3]]), "SLOTS has 2 maps for 3 layers"),
    ("vllm", "nemotron-3-super", dict(TP=8), "8 ranks must divide the 4 groups of the Mamba layers"),
    ("vllm", "kimi-k3", dict(TP=2, DP=2, EP=1, PP=5), "SP needs PP = 1"),
    ("sglang", "qwen3-30b-a3b", dict(TP=4, EP=8), "EP = 8 must divide TP = 4"),
    ("sglang", "kimi-k2", dict(TP=4, DP=3), "DP = 3 must divide TP = 4"),
    ("sglang", "qwen3-4b", dict(TP=64), "64 ranks must divide the 4 heads"),
]


def refused(args, engine, name, changes, said):
    way = small.WAY[engine] | changes
    text = small.engine_text(args.library, engine, name, way)
    model, weights = small.model(args.library, name, {})
    with small.Scratch(args, model) as scratch:
        layouts = scratch.write("fsdp", WHOLE), scratch.write(engine, text)
        try:
            scratch.move(*layouts, [weights], small.engine_defines(text, way))
        except SystemExit as message:
            if said in str(message):
                print(f"ok   refused: {said}", flush=True)
                return
            raise SystemExit(f"{engine} {name}: not '{said}' but\n{message}") from None
    raise SystemExit(f"{engine} {name} {changes}: not refused")


def check(args, engine, name, constants, changes):
    way = small.WAY[engine] | changes
    text = small.engine_text(args.library, engine, name, way)
    if "redundant" in way.get("placement", ""):
        del way["placement"]
    elif "placement" in way:
        way["placement"] = "round_robin"
    model, weights = small.model(args.library, name, constants)
    right = families.ranks(engine, small.MODELS[name][0], model["constants"], weights, way)
    title = f"{engine} {name} " + " ".join(f"{k}{v}" for k, v in (constants | changes).items() if k != "slots")
    with small.Scratch(args, model) as scratch:
        layouts = scratch.write("fsdp", WHOLE), scratch.write(engine, text)
        got = scratch.move(*layouts, [weights], small.engine_defines(text, way))
        small.same(title, got, right)
    print(f"ok   {title}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--library", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    there = {(e, p.stem) for e in small.WAY for p in (args.library / e).glob("*.layout")}
    untested = there ^ {c[:2] for c in CASES}
    if untested:
        raise SystemExit(f"no case for {sorted(untested)}")
    for case in CASES:
        if args.only in " ".join(case[:2]):
            check(args, *case)
    for case in REFUSED:
        if args.only in " ".join(case[:2]):
            refused(args, *case)


if __name__ == "__main__":
    main()
