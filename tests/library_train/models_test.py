#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The catalogues of plans/library: how many tensors and bytes each model has, counted apart from the compiler, told in
the catalogue's own comment, and known from elsewhere.

In: the library. Out: exit 0 or 1.
"""
import argparse
import math
import pathlib

import catalogue

KNOWN = {  # tensors and bytes without layers for multi-token prediction, and those of such layers
    "qwen3-0.6b": (310, 1192099840, 0, 0),
    "qwen3-4b": (398, 8044936192, 0, 0),
    "qwen3-8b": (399, 16381470720, 0, 0),
    "qwen3-30b-a3b": (18867, 61064245248, 0, 0),
    "qwen3-235b-a22b": (36945, 470187269120, 0, 0),
    "qwen3.5-397b-a17b": (93078, 792692706432, 0, 0),
    "llama-3.1-8b": (291, 16060522496, 0, 0),
    "llama-3.1-405b": (1137, 811706777600, 0, 0),
    "deepseek-v3": (45395, 1342052868096, 786, 23220136960),
    "kimi-k2": (69975, 2052816510976, 0, 0),
    "kimi-k3": (249756, 5558991201280, 0, 0),
    "nemotron-3-super": (41643, 241337477120, 0, 0),
    "nemotron-3-ultra": (49983, 1098618085376, 0, 0),
}
# What is not in BF16: router biases, and the small parameters of state space and linear attention layers.
FP32 = ("e_score_correction_bias", "A_log", ".D", "dt_bias", "conv1d.weight", "o_norm.weight")


def counted(model, faults):
    """Entry by entry, for there are hundreds of thousands of names."""
    names, out = model["constants"], [0, 0, 0, 0]
    for entry in model["tensors"]:
        dtype = entry.get("dtype", model["dtype"])
        if dtype == "f32" and not entry["name"].endswith(FP32):
            faults.add(f"{entry['name']} is f32")
        loops = {v: catalogue.values(loop, names) for v, loop in entry.get("for", {}).items()}
        extra = 2 * (min(loops.get("l", [0]), default=0) >= names["L"])
        count = math.prod(map(len, loops.values()))
        out[extra] += count
        out[extra + 1] += count * catalogue.SIZES[dtype] * math.prod(catalogue.whole(d, names) for d in entry["shape"])
    return tuple(out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", type=pathlib.Path, required=True)
    args = parser.parse_args()
    files = sorted((args.library / "models").glob("*.yaml"))
    faults = {f.stem for f in files} ^ set(KNOWN)
    for file in files:
        got = counted(catalogue.read(file), faults)
        print(f"{file.stem}: {got[0]} tensors, {got[1]} bytes")
        if got != KNOWN.get(file.stem):
            faults.add(f"{file.stem} has {got}, not {KNOWN.get(file.stem)}")
        head = " ".join(line.lstrip("# ") for line in file.read_text().splitlines() if line.startswith("#"))
        faults |= {f"{file.stem}: its comment does not say {n}" for n in got if n and str(n) not in head}
    if faults:
        raise SystemExit("\n".join(sorted(faults)))


if __name__ == "__main__":
    main()
