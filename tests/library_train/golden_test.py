#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fused QKV of real models, from Megatron-core's rows to those of a vLLM rank: which runs of rows come from which rank,
held to vectors worked out apart from this project.

In: the tools, the library. Out: exit 0 or 1.
"""
import argparse
import pathlib
import tempfile

import numpy as np

import moves

# model, kv heads, query heads per kv head, training ranks, inference ranks:
# for each inference rank the runs (training rank, row there, row here, rows)
GOLDEN = {
    ("Qwen3-235B", 4, 16, 4, 8): [
        [(0, 0, 0, 1024), (0, 2048, 1024, 256)], [(0, 1024, 0, 1280)],
        [(1, 0, 0, 1024), (1, 2048, 1024, 256)], [(1, 1024, 0, 1280)],
        [(2, 0, 0, 1024), (2, 2048, 1024, 256)], [(2, 1024, 0, 1280)],
        [(3, 0, 0, 1024), (3, 2048, 1024, 256)], [(3, 1024, 0, 1280)]],
    ("Qwen3-235B", 4, 16, 2, 16): [
        [(0, 0, 0, 512), (0, 2048, 512, 256)], [(0, 512, 0, 512), (0, 2048, 512, 256)],
        [(0, 1024, 0, 512), (0, 2048, 512, 256)], [(0, 1536, 0, 768)]],
    ("Nemotron-3-Ultra", 2, 32, 8, 8): [
        [(0, 0, 0, 1024), (3, 832, 1024, 256)], [(0, 1024, 0, 64), (1, 0, 64, 960), (3, 832, 1024, 256)],
        [(1, 960, 0, 128), (2, 0, 128, 896), (3, 832, 1024, 256)], [(2, 896, 0, 192), (3, 0, 192, 1088)],
        [(4, 0, 0, 1024), (7, 832, 1024, 256)], [(4, 1024, 0, 64), (5, 0, 64, 960), (7, 832, 1024, 256)],
        [(5, 960, 0, 128), (6, 0, 128, 896), (7, 832, 1024, 256)], [(6, 896, 0, 192), (7, 0, 192, 1088)]],
    ("Nemotron-3-Ultra", 2, 32, 8, 4): [
        [(0, 0, 0, 1088), (1, 0, 1088, 960), (3, 832, 2048, 256)],
        [(1, 960, 0, 128), (2, 0, 128, 1088), (3, 0, 1216, 1088)],
        [(4, 0, 0, 1088), (5, 0, 1088, 960), (7, 832, 2048, 256)],
        [(5, 960, 0, 128), (6, 0, 128, 1088), (7, 0, 1216, 1088)]],
    ("Qwen3-30B", 4, 8, 1, 8): [
        [(0, 0, 0, 512), (0, 1024, 512, 256)], [(0, 512, 0, 768)], [(0, 1280, 0, 512), (0, 2304, 512, 256)],
        [(0, 1792, 0, 768)], [(0, 2560, 0, 512), (0, 3584, 512, 256)], [(0, 3072, 0, 768)],
        [(0, 3840, 0, 512), (0, 4864, 512, 256)], [(0, 4352, 0, 768)]],
    ("Llama-3.1-405B", 8, 16, 8, 16): [
        [(0, 0, 0, 1024), (0, 2048, 1024, 256)], [(0, 1024, 0, 1280)],
        [(1, 0, 0, 1024), (1, 2048, 1024, 256)], [(1, 1024, 0, 1280)]],
    ("Qwen3-235B", 4, 16, 16, 8): [
        [(0, 0, 0, 576), (1, 0, 576, 448), (3, 320, 1024, 256)], [(1, 448, 0, 128), (2, 0, 128, 576), (3, 0, 704, 576)],
        [(4, 0, 0, 576), (5, 0, 576, 448), (7, 320, 1024, 256)], [(5, 448, 0, 128), (6, 0, 128, 576), (7, 0, 704, 576)],
        [(8, 0, 0, 576), (9, 0, 576, 448), (11, 320, 1024, 256)],
        [(9, 448, 0, 128), (10, 0, 128, 576), (11, 0, 704, 576)],
        [(12, 0, 0, 576), (13, 0, 576, 448), (15, 320, 1024, 256)],
        [(13, 448, 0, 128), (14, 0, 128, 576), (15, 0, 704, 576)]],
}

D = 128
TENSORS = 'tensor "q" bf16 [{q}, 1];  tensor "k" bf16 [{k}, 1];  tensor "v" bf16 [{k}, 1];\n'
TRAIN = 'let G = {groups};  let Q = {share};  let D = 128;\nmesh m [tp: {ranks}];\ninclude "attention.inc";\n'
TRAIN += 'on m {{ buffer "qkv" = qkv("q", "k", "v"); }}\n'
INFER = 'mesh m [tp: {ranks}];\ndef kv(w) = w[_ @tp:share({same}), _];\n'
INFER += 'on m {{ buffer "qkv" = cat(0, "q"[_ @tp, _], kv("k"), kv("v")); }}\n'


def check(args, model, groups, share, train, infer, golden):
    rows = groups * (share + 2) * D
    held = np.arange(rows, dtype="<u2").reshape(train, -1, 1)  # every row of the fused tensor has its own number
    tensors = TENSORS.format(q=groups * share * D, k=groups * D)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        (scratch / "train.layout").write_text(tensors + TRAIN.format(groups=groups, share=share, ranks=train))
        (scratch / "infer.layout").write_text(tensors + INFER.format(ranks=infer, same=max(1, infer // groups)))
        for d in ("in", "out"):
            (scratch / d).mkdir()
        for rank in range(train):
            moves.save(scratch / "in" / f"train-{rank}.safetensors", {"qkv": held[rank]})
        pair = scratch / "train.layout", scratch / "infer.layout"
        moves.run(args.bin / "reshardc", *pair, "-I", args.library / "megatron", "-o", scratch / "plan")
        moves.run(args.bin / "reshard", "run", scratch / "plan", "--in", scratch / "in", "--out", scratch / "out")
        for rank, runs in enumerate(golden):
            got = moves.load(scratch / "out" / f"infer-{rank}.safetensors")["qkv"]
            right = np.zeros_like(got)
            for source, there, here, count in runs:
                right[here : here + count] = held[source, there : there + count]
            if sum(r[3] for r in runs) != len(got) or not np.array_equal(got, right):
                raise SystemExit(f"{model} TP{train} to TP{infer}: rank {rank} is wrong")
    print(f"ok   {model} TP{train} to TP{infer}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--library", type=pathlib.Path, required=True)
    args = parser.parse_args()
    for case, golden in GOLDEN.items():
        check(args, *case, golden)


if __name__ == "__main__":
    main()
