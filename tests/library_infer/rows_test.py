#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Published transfers at their full size: each compiles, covers every tensor of its model, and must move over the network
what is known to be the least.

In: the tools, the library; rows to take. Out: a line for each; exit 0 or 1.
"""
import argparse
import json
import pathlib
import resource
import subprocess
import tempfile
import time

MTP = 786  # DeepSeek-V3's tensors for multi-token prediction, which neither side has
H100 = ("h100", 8, 8)
GB200 = ("gb200", 4, 64)

# row: training and inference layout with their parameters, machines, tensors, bytes that must cross between NVLink domains
ROWS = {
    "1": ("megatron/qwen3-235b-a22b", "vllm/qwen3-235b-a22b", [], H100, 36945, 16 * 470187269120),
    "2": ("megatron/deepseek-v3", "vllm/deepseek-v3", [], H100, 45395, 32 * 337059618816),
    "3": ("megatron/deepseek-v3", "vllm/deepseek-v3", [], GB200, 45395, 4 * 1342052868096),
    "4": ("megatron/nemotron-3-ultra", "vllm/nemotron-3-ultra", [], GB200, 49983, 1098618085376),
    "5": ("megatron/qwen3.5-397b-a17b", "vllm/qwen3.5-397b-a17b", [], H100, 93078, 0),
    "6": ("megatron/qwen3-30b-a3b", "vllm/qwen3-30b-a3b", [], H100, 18867, 2 * 61064245248),
    "7": ("megatron/deepseek-v3", "vllm/deepseek-v3",
          ["train.PP=4", "train.DP=32", "train.stages=[15,16,16,14]", "infer.ENGINES=16", "infer.TP=8"], GB200, 45395,
          2 * 1342052868096),
    "8": ("megatron/kimi-k3", "vllm/kimi-k3", [], H100, 249756, 0),
    "8b": ("megatron/kimi-k3", "vllm/kimi-k3", ["train.DP=32", "infer.ENGINES=32"], H100, 249756, 0),
    "9": ("megatron/kimi-k2", "vllm/kimi-k2", [], H100, 69975, 0),
    "1s": ("megatron/qwen3-235b-a22b", "sglang/qwen3-235b-a22b", [], H100, 36945, 16 * 470187269120),
    "2s": ("megatron/deepseek-v3", "sglang/deepseek-v3", [], H100, 45395, 0),
    "8s": ("megatron/kimi-k3", "sglang/kimi-k3", [], H100, 249756, 0),
}


def compile_row(args, name, plan):
    train, infer, defines, *_ = ROWS[name]
    words = [w for d in defines for w in ("-D", d)]
    command = [args.bin / "reshardc", args.library / f"{train}.layout", args.library / f"{infer}.layout", *words]
    begun = time.monotonic()
    done = subprocess.run([*map(str, command), "-o", str(plan), "--json"], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"row {name}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout), time.monotonic() - begun


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--library", type=pathlib.Path, required=True)
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("rows", nargs="*", default=list(ROWS))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        plan = pathlib.Path(scratch) / "plan"
        for name in args.rows:
            result, seconds = compile_row(args, name, plan)
            print(name, {k: result[k] for k in ("coverage", "bytes", "plan_bytes") if k in result}, f"{seconds:.2f}")


if __name__ == "__main__":
    main()
