#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mistakes that one could make in a layout of plans/library/vllm or sglang: the comparison with the loaders sees each.

In: the tools, the library. Out: exit 0 or 1.
"""
import argparse
import pathlib
import shutil
import tempfile

import engines_test

MUTANTS = [  # file, what it says, what it is made to say; engine, layout, constants, way
    ("vllm/attention.inc", "share(REP)", "cyclic", "vllm", "qwen3-4b", dict(Q=4), dict(TP=4)),
    ("vllm/attention.inc", "cat(0, col(q), kv(k), kv(v))", "cat(0, col(q), kv(v), kv(k))", "vllm", "qwen3-8b", {}, {}),
    ("vllm/grid.inc", "cat(0, col(gate), col(up))", "cat(0, col(up), col(gate))", "vllm", "qwen3-4b", {}, dict(TP=2)),
    ("vllm/grid.inc", "64) * 64", "128) * 128", "vllm", "qwen3-4b", dict(V=190), dict(TP=2)),
    ("vllm/grid.inc", "p >= PP - 1 - L % PP && p < PP - 1", "p < L % PP",
     "vllm", "llama-3.1-8b", {}, dict(PP=3)),
    ("vllm/grid.inc", "((i / (PP*ALL) * DP + i / TP % DP) * PP + i / ALL % PP) * TP + i % TP", "i",
     "vllm", "qwen3-30b-a3b", {}, dict(TP=2, DP=2, EP=1, PP=2)),
    ("vllm/grid.inc", "EP && DP > 1 && TP > 1", "0", "vllm", "deepseek-v3", {}, dict(TP=2, DP=2, EP=1)),
    ("vllm/experts.inc", "slots @ep:balanced, down", "slots @ep:cyclic, down",
     "vllm", "kimi-k2", dict(E=6), dict(TP=4, EP=1)),
    ("vllm/placement.inc", "s % E for s", "s / 2 for s", "vllm", "qwen3-235b-a22b", {},
     dict(TP=2, EP=1, placement="redundant(4)", slots=[[0, 1, 2, 3, 0, 1, 2, 3]])),
    ("vllm/mla.inc", '"{hf}.q_a_proj.weight", "{hf}.kv_a_proj_with_mqa.weight"',
     '"{hf}.kv_a_proj_with_mqa.weight", "{hf}.q_a_proj.weight"', "vllm", "kimi-k2", {}, {}),
    ("vllm/mla.inc", "0, 2, 1", "0, 1, 2", "sglang", "kimi-k2", dict(NOPE=8), dict(TP=2)),
    ("vllm/gdn.inc", "[GK*GD, GK*GD, GV*GD]", "[GK*GD, GV*GD, GK*GD]", "vllm", "qwen3.5-397b-a17b", {}, dict(TP=2)),
    ("vllm/gdn.inc", 'col("{hf}.in_proj_b.weight"), col("{hf}.in_proj_a.weight")',
     'col("{hf}.in_proj_a.weight"), col("{hf}.in_proj_b.weight")', "sglang", "qwen3.5-397b-a17b", {}, {}),
    ("vllm/mamba.inc", "[1, ONE, ONE, 1]", "[1, 1, 1, 1]", "vllm", "nemotron-3-ultra", dict(MG=1), dict(TP=2)),
    ("vllm/mamba.inc", "neg_exp(col(", "(col(", "vllm", "nemotron-3-super", {}, {}),
    ("vllm/kda.inc", "ceildiv(ROWS, 16) * 16", "ceildiv(ROWS, 8) * 8", "vllm", "kimi-k3", dict(N=8, AN=8), dict(TP=4)),
    ("vllm/kda.inc", 'slice("{a}.A_log", 0, 0, N)', 'slice("{a}.A_log", 0, AN - N, AN)', "vllm", "kimi-k3", {}, {}),
    ("vllm/kda.inc", "MIN_ROWS*TP", "MIN_ROWS*2*TP", "vllm", "kimi-k3", {}, dict(TP=4, MIN_ROWS=4)),
    ("sglang/grid.inc", "dp: DP, tp: TP/DP", "tp: TP/DP, dp: DP", "sglang", "qwen3-8b", {}, dict(TP=4, DP=2)),
    ("sglang/grid.inc", "ep: EP, tp: TP/EP", "tp: TP/EP, ep: EP", "sglang", "qwen3-30b-a3b", {}, dict(TP=4, EP=2)),
    ("sglang/grid.inc", "p >= PP - L % PP", "p < L % PP", "sglang", "qwen3-4b", dict(L=5), dict(PP=3)),
    ("sglang/kda.inc", "if DP == 1", "if 1", "sglang", "kimi-k3", {}, dict(TP=4, DP=2)),
]


def survives(args, file, old, new, case):
    with tempfile.TemporaryDirectory() as scratch:
        library = pathlib.Path(scratch) / "library"
        shutil.copytree(args.library, library)
        text = (library / file).read_text()
        assert old in text, (file, old)
        changed = argparse.Namespace(bin=args.bin, library=library)
        engines_test.check(changed, *case)
        (library / file).write_text(text.replace(old, new))
        try:
            engines_test.check(changed, *case)
        except (SystemExit, AssertionError):
            return False
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--library", type=pathlib.Path, required=True)
    args = parser.parse_args()
    alive = [f"{file}: {old} -> {new}" for file, old, new, *case in MUTANTS if survives(args, file, old, new, case)]
    if alive:
        raise SystemExit("not seen:\n" + "\n".join(alive))
    print(f"ok   {len(MUTANTS)} mistakes are seen")


if __name__ == "__main__":
    main()
