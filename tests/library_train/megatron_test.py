#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The layouts of plans/library/megatron on small models of the same structure, against Megatron-core's rules in numpy.

In: the tools, the library. Out: exit 0 or 1.
"""
import argparse
import pathlib
import re

import numpy as np

import catalogue
import megatron
import moves

COMMON = dict(TP=1, CP=1, DP=1, PP=1, VPP=1, EP=1, ETP=1, TP_PP_DP=0, PADV=4, split=("even",))
COMMON |= dict(EXPERTS="each", MTP_LAYERS=0, QKV_DOWN=0, A_FP32=0, CONV="_", END=128)
GQA = dict(H=8, V=70, D=4, I=24, Q=2, G=2, L=4)
DENSE = GQA | dict(E=0)
MOE = GQA | dict(E=4)
MLA = dict(L=5, H=8, V=70, N=4, QR=12, KR=6, NOPE=4, ROPE=2, VD=4, F=16, E=4, I=8)
GDN = dict(L=4, H=8, V=72, G=2, Q=2, D=4, GK=4, GV=8, GD=4, E=4, I=8, S=8, ATTN=[1, 3], GDN=[0, 2])
MAMBA = dict(L=6, H=8, V=72, G=2, Q=3, D=4, MH=8, MD=2, MG=4, MN=2, E=4, I=8, LAT=4, S=8)
MAMBA |= dict(MAMBA=[0, 3], MOE=[1, 4], ATTN=[2, 5])
KDA = MLA | dict(V=72, D=4, AN=6, LAT=4, KDA=[0, 1, 3], MLA=[2, 4])

FAMILIES = {  # layout and catalogue: rules, small constants
    "qwen3-0.6b": (megatron.Gqa, DENSE), "qwen3-4b": (megatron.Gqa, DENSE), "qwen3-8b": (megatron.Gqa, DENSE),
    "llama-3.1-8b": (megatron.Gqa, DENSE), "llama-3.1-405b": (megatron.Gqa, DENSE),
    "qwen3-30b-a3b": (megatron.Gqa, MOE), "qwen3-235b-a22b": (megatron.Gqa, MOE),
    "deepseek-v3": (megatron.Mla, MLA), "kimi-k2": (megatron.Mla, MLA),
    "qwen3.5-397b-a17b": (megatron.Gdn, GDN), "nemotron-3-ultra": (megatron.Mamba, MAMBA),
    "nemotron-3-super": (megatron.Mamba, MAMBA), "kimi-k3": (megatron.Kda, KDA),
}

CASES = [  # layout, changed constants, way
    ("qwen3-0.6b", {}, {}),
    ("qwen3-0.6b", {}, dict(TP=2, DP=2, PP=2)),
    ("qwen3-4b", dict(G=1, Q=1), dict(TP=4, CP=2, PADV=8)),                      # mid-head, padding, one kv head
    ("qwen3-4b", dict(L=8), dict(TP=2, PP=2, VPP=2)),                            # tied over a virtual pipeline
    ("qwen3-8b", dict(Q=1), dict(TP=8)),                                         # 3/4 of a head a rank
    ("qwen3-8b", dict(L=6), dict(DP=2, PP=2, VPP=2, split=("accounted", 1, 1))),
    ("qwen3-8b-zero1", {}, dict(TP=2, CP=3, DP=2, PP=2)),
    ("qwen3-8b-zero1", {}, dict(DP=3, PP=2, VPP=2)),
    ("llama-3.1-8b", dict(L=7), dict(PP=4, split=("uneven", 1, 2), TP=2)),
    ("llama-3.1-405b", dict(L=7, G=4), dict(PP=3, VPP=2, TP=4, split=("layout", "Et|t*2|(t|)*2t|tL"))),
    ("qwen3-30b-a3b", {}, dict(DP=4, EP=2, PP=2)),
    ("qwen3-30b-a3b", dict(L=5), dict(DP=2, TP=2, CP=2, EP=4, PP=2, TP_PP_DP=1, split=("uneven", 3, 2))),
    ("qwen3-235b-a22b", dict(E=6), dict(TP=4, DP=2, EP=2, ETP=2, EXPERTS="grouped")),
    ("qwen3-235b-a22b", dict(L=12), dict(TP=2, CP=2, PP=3, VPP=2, EP=2, EXPERTS="local", split=("uneven", 4, 4))),
    ("deepseek-v3", dict(DENSE=2), {}),
    ("deepseek-v3", dict(DENSE=2, L=7, E=8), dict(DP=4, EP=4, PP=4, split=("uneven", 2, 1))),
    ("deepseek-v3", dict(MTP=2), dict(TP=2, DP=2, PP=2, VPP=2, EP=2, MTP_LAYERS=1, split=("layout", "Et|tt|t|tmL"))),
    ("kimi-k2", {}, dict(TP=4, DP=2, EP=4, ETP=2, QKV_DOWN=1, EXPERTS="grouped")),
    ("kimi-k2", dict(E=6), dict(TP=2, PP=5, EP=2, PADV=16)),
    ("qwen3.5-397b-a17b", {}, dict(A_FP32=1)),
    ("qwen3.5-397b-a17b", {}, dict(TP=4, DP=2, EP=4, PP=2, PADV=1)),             # 3 heads a rank
    ("qwen3.5-397b-a17b", dict(GK=8, GV=16), dict(TP=8, EP=4, ETP=2, PADV=1)),   # in the middle of a head
    ("nemotron-3-ultra", {}, dict(A_FP32=1, CONV=".")),
    ("nemotron-3-ultra", {}, dict(TP=4, DP=2, EP=4, PP=2, PADV=1)),              # mid-head
    ("nemotron-3-super", {}, dict(TP=2, PP=2, VPP=2, EP=2, EXPERTS="grouped", split=("pattern", "M|E*|M|E*"))),
    ("kimi-k3", {}, {}),
    ("kimi-k3", dict(L=7, KDA=[0, 1, 3, 4], MLA=[2, 5, 6], E=8),
     dict(TP=4, DP=2, PP=3, EP=8, PADV=1, split=("uneven", 2, 2))),
]


def stages(split, way):
    kind, *how = split
    if kind == "layout":
        return f'written("{megatron.unroll(how[0])}")'
    if kind == "pattern":
        return f'segments("{how[0]}")'
    return f"{kind}({', '.join(map(str, how))})"


def layout(args, name, way):
    """The library's own file for this model, with its model line and its split of the layers exchanged."""
    text = (args.library / "megatron" / f"{name}.layout").read_text()
    text, models = re.subn(r"(?m)^model .*$", 'model "small.yaml";', text)
    text, splits = re.subn(r"(?m)^param stages = .*?;", f"param stages = {stages(way['split'], way)};", text)
    assert models == 1 and splits == 1, name
    params = re.findall(r"param (\w+) =", text)
    return text, params


def check(args, name, constants, changes):
    model = name.removesuffix("-zero1")
    family, small = FAMILIES[model]
    small = catalogue.read(args.library / "models" / f"{model}.yaml", small | constants)
    way = COMMON | changes
    text, params = layout(args, name, way)
    weights = catalogue.weights(catalogue.tensors(small), family.coarse, family.near_one, sum(name.encode()))
    c = small["constants"]
    ranks = (megatron.ranks if model == name else megatron.distributed_optimizer)(family, c, weights, way)
    untrained = tuple(f"model.layers.{n}." for n in range(c["L"] + way["MTP_LAYERS"], c["L"] + c.get("MTP", 0)))
    partly = {n: np.zeros_like(a) for n, a in weights.items() if n.startswith(untrained)}
    for n, array in weights.items():
        if n.endswith("self_attn.A_log"):
            array[c["N"] :] = 0                   # as the checkpoint has it; no training rank holds it
    words = [f"{p}={way[p]}" for p in params if p != "stages"]
    title = " ".join(f"{k}{v}" for k, v in changes.items())
    moves.check(args, f"{name} {title}", small, text, weights, ranks, words, partly=partly, blank=blank)


def blank(name, array):
    """Padding is zero on the inference side."""
    padded = "embedding" in name or "output_layer" in name or "bucket" in name
    return np.where(array == catalogue.GAP, 0, array).astype(array.dtype) if padded else array


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--library", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    untested = (set(FAMILIES) | {"qwen3-8b-zero1"}) ^ {p.stem for p in (args.library / "megatron").glob("*.layout")}
    untested |= set(FAMILIES) - {c[0] for c in CASES}
    if untested:
        raise SystemExit(f"no case for {sorted(untested)}")
    for name, constants, changes in CASES:
        if args.only in name:
            check(args, name, constants, changes)


if __name__ == "__main__":
    main()
