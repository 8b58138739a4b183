#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The other tests see a wrong layout: each of these changes to the library makes the case of its model fail.

In: the tools, the library. Out: exit 0 or 1.
"""
import argparse
import copy
import pathlib
import shutil
import tempfile

import fsdp_test
import megatron_test

MUTANTS = [  # file, what it says, what the mutant says, the case: a model and which of its cases
    ("megatron/attention.inc", "groups(k, D), groups(v, D)", "groups(v, D), groups(k, D)", "qwen3-8b", 0),
    ("megatron/attention.inc", "cat(1, groups(q, Q*D), groups(k, D), groups(v, D))", "cat(0, q, k, v)", "qwen3-8b", 0),
    ("megatron/grid.inc", "cat(0, col(gate), col(up))", "cat(0, col(up), col(gate))", "qwen3-8b", 0),
    ("megatron/grid.inc", "dp: DP, cp: CP, tp: TP]", "tp: TP, dp: DP, cp: CP]", "qwen3-0.6b", 1),
    ("megatron/grid.inc", "chunk(l) % PP;", "chunk(l) / VPP;", "qwen3-8b", 1),
    ("megatron/grid.inc", "edp: DP*CP*TP / (EP*ETP), ep: EP,", "ep: EP, edp: DP*CP*TP / (EP*ETP),", "qwen3-30b-a3b", 0),
    ("megatron/grid.inc", "TP_PP_DP ? (", "0 ? (", "qwen3-30b-a3b", 1),
    ("megatron/grid.inc", "padded(PADV)", "padded(2*PADV)", "kimi-k2", 1),
    ("megatron/experts.inc", "e / (E/EP)", "e % EP", "deepseek-v3", 1),
    ("megatron/experts.inc", "stack(e in 0..E @ep, fc2", "stack(e in 0..E @ep:cyclic, fc2", "qwen3-235b-a22b", 0),
    ("megatron/mla.inc", "= col(\"{hf}.kv_b_proj", "= row(\"{hf}.kv_b_proj", "kimi-k2", 0),
    ("megatron/mla.inc", "cat(0, col(\"{hf}.q_a_proj.weight\")", "cat(0, row(\"{hf}.q_a_proj.weight\")", "kimi-k2", 0),
    ("megatron/gdn.inc", "permute(w[G, Q, 2, D, _], 0, 2, 1, 3, 4)", "w", "qwen3.5-397b-a17b", 0),
    ("megatron/gdn.inc", "w[_ @tp:each([GK*GD, GK*GD, GV*GD]), ..]", "w[_ @tp, ..]", "qwen3.5-397b-a17b", 1),
    ("megatron/gdn.inc", "add(\"{hf}.norm.weight\", -1)", "\"{hf}.norm.weight\"", "qwen3.5-397b-a17b", 0),
    ("megatron/gdn.inc", "col(\"{hf}.in_proj_b.weight\"), col(\"{hf}.in_proj_a.weight\")",
     "col(\"{hf}.in_proj_a.weight\"), col(\"{hf}.in_proj_b.weight\")", "qwen3.5-397b-a17b", 0),
    ("megatron/mamba.inc", "each([X, X, BC, BC, MH])", "each([2*X, 2*BC, MH])", "nemotron-3-ultra", 1),
    ("megatron/mamba.inc", "each([X, BC, BC])", "each([X, 2*BC])", "nemotron-3-ultra", 1),
    ("megatron/kda.inc", "slice(\"{hf}.A_log\", 0, 0, N)", "slice(\"{hf}.A_log\", 0, AN - N, AN)", "kimi-k3", 0),
    ("megatron/kda.inc", ".w1.weight\", \"{of(l, e)}.w3", ".w3.weight\", \"{of(l, e)}.w1", "kimi-k3", 0),
    ("megatron/pipeline.inc", "/ ((PP - 2) * VPP)", "/ (PP * VPP)", "deepseek-v3", 1),
    ("megatron/pipeline.inc", "- (c == 0 && embedding)", "- (c == 1 && embedding)", "qwen3-8b", 1),
    ("megatron/zero.inc", "per - 1 - (i - a) % per", "(i - a) % per", "qwen3-8b-zero1", 0),
    ("megatron/zero.inc", "@dp:padded(STEP) @cp", "@cp:padded(STEP * DP / CP) @dp", "qwen3-8b-zero1", 0),
    ("fsdp/fsdp2.inc", "_ @dp:chunk, ..]; }", "_ @dp:balanced, ..]; }", "qwen3-8b-fsdp2", 0),
    ("fsdp/fsdp2_tp.inc", "@tp:chunk @dp:chunk", "@dp:chunk @tp:chunk", "qwen3-8b-fsdp2-tp", 0),
    ("fsdp/fsdp2_ep.inc", "[efsdp: DP/EP, ep: EP]", "[ep: EP, efsdp: DP/EP]", "qwen3-30b-a3b-fsdp2-ep", 0),
    ("fsdp/flat.inc", "@one:padded(ALIGN)", "@one:padded(1)", "qwen3-8b-zero1", 0),
    ("fsdp/zero3.inc", "[_ @dp:padded]", "[_ @dp:chunk]", "qwen3-8b-zero3", 0),
]


def caught(args, file, text, mutant, model, which):
    with tempfile.TemporaryDirectory() as scratch:
        args = copy.copy(args)
        args.library = pathlib.Path(shutil.copytree(args.library, pathlib.Path(scratch) / "library"))
        said = (args.library / file).read_text()
        assert said.count(text) == 1, (file, text)
        (args.library / file).write_text(said.replace(text, mutant))
        test = megatron_test if file.startswith("megatron") else fsdp_test
        case = [c for c in test.CASES if c[0] == model][which]
        try:
            test.check(args, *case)
        except SystemExit:
            return True
        return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--library", type=pathlib.Path, required=True)
    args = parser.parse_args()
    lived = [m for m in MUTANTS if not caught(args, *m)]
    for file, text, mutant, model, _ in lived:
        print(f"{file}, case {model}: '{text}' might as well be '{mutant}'")
    print(f"{len(MUTANTS) - len(lived)} of {len(MUTANTS)} mutants caught")
    raise SystemExit(bool(lived))


if __name__ == "__main__":
    main()
