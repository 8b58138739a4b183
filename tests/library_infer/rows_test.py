#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Published transfers at their full size: each compiles, covers every tensor of its model, and must move over the
network what is known to be the least.

In: the tools, the library; rows to take. Out: a line for each; exit 0 or 1.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile
import time

# Hosts of 8 GPUs, or racks of 64 with 4 in a host: what one NVLink domain spans, and GPUs of a host.
H100, GB200 = (8, 8), (64, 4)

# Kimi-K3: the experts of a host, out of 16 that share an engine, and all the rest but the padding of A_log.
K3_EXPERTS = 92 * 896 * 3 * 3072 * 3584 * 2
K3_HOST = 5558991201280 - 69 * 32 * 4 - K3_EXPERTS + K3_EXPERTS // 16

# row: training and inference layout, parameters, machines, ranks of each side, tensors, bytes that must enter the
# NVLink domains of the inference side
ROWS = {
    "1": ("megatron/qwen3-235b-a22b", "vllm/qwen3-235b-a22b", [], H100, (128, 128), 36945, 16 * 470187269120),
    "2": ("megatron/deepseek-v3", "vllm/deepseek-v3", [], H100, (256, 256), 45395, 32 * 337059618816),
    "3": ("megatron/deepseek-v3", "vllm/deepseek-v3", [], GB200, (256, 256), 45395, 4 * 1342052868096),
    "4": ("megatron/nemotron-3-ultra", "vllm/nemotron-3-ultra", [], GB200, (64, 64), 49983, 1098618085376),
    "5": ("megatron/qwen3.5-397b-a17b", "vllm/qwen3.5-397b-a17b", [], H100, (256, 256), 93078, 32 * 396472937152),
    "6": ("megatron/qwen3-30b-a3b", "vllm/qwen3-30b-a3b", [], H100, (16, 16), 18867, 2 * 61064245248),
    "7": ("megatron/deepseek-v3", "vllm/deepseek-v3",
          ["train.PP=4", "train.DP=32", "train.stages=[15,16,16,14]", "infer.ENGINES=16", "infer.TP=8"], GB200,
          (128, 128), 45395, 2 * 1342052868096),
    "8": ("megatron/kimi-k3", "vllm/kimi-k3", [], H100, (1024, 1024), 249756, 128 * K3_HOST),
    "8-4096": ("megatron/kimi-k3", "vllm/kimi-k3", ["train.DP=32", "infer.ENGINES=32"], H100, (4096, 4096), 249756,
               512 * K3_HOST),
    "9": ("megatron/kimi-k2", "vllm/kimi-k2", [], H100, (256, 128), 69975, 16 * 514838634496),
    "1-sglang": ("megatron/qwen3-235b-a22b", "sglang/qwen3-235b-a22b", [], H100, (128, 128), 36945, 16 * 470187269120),
    "8-sglang": ("megatron/kimi-k3", "sglang/kimi-k3", [], H100, (1024, 1024), 249756, None),
}


def cluster(machines, worlds):
    """A file that says where the ranks live."""
    span, gpus = machines
    lines = ["reshard-cluster: 1", "links:", "  nvlink: {bandwidth: 450e9, latency: 2e-6}",
             "  network: {bandwidth: 50e9, latency: 5e-6}", "  memory: {bandwidth: 3.3e12}", "hosts:"]
    sides = {}
    for side, world in zip(("train", "infer"), worlds):
        groups = -(-world // span)
        for g in range(groups):
            host = f'"{side[0]}{g}n[{0}-{span // gpus - 1}]"' if span > gpus else f'"{side[0]}{g}n0"'
            lines.append(f"  - {{names: {host}, gpus: {gpus}, nics: {gpus}, domain: {side[0]}{g}}}")
            sides.setdefault(side, []).append(host.strip('"'))
    return "\n".join(lines + [f'{s}: "{",".join(h)}"' for s, h in sides.items()]) + "\n"


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\nexit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def check(args, name, scratch):
    train, infer, defines, machines, worlds, tensors, minimum = ROWS[name]
    plan, where = scratch / "plan", scratch / "cluster.yaml"
    where.write_text(cluster(machines, worlds))
    words = [w for d in defines for w in ("-D", d)]
    begun = time.monotonic()
    result = json.loads(run(args.bin / "reshardc", args.library / f"{train}.layout", args.library / f"{infer}.layout",
                            *words, "--cluster", where, "-o", plan, "--json"))
    seconds = time.monotonic() - begun
    least = result["bytes"]["network_minimum"]
    if result["coverage"]["tensors"] != tensors or minimum not in (None, least):
        raise SystemExit(f"row {name}: {result['coverage']}, {least} bytes; not {tensors} tensors, {minimum} bytes")
    if args.verify:
        run(args.bin / "reshard", "verify", plan)
    print(f"ok   row {name}: {tensors} tensors, at least {least} bytes, {seconds:.1f} s, a plan of "
          f"{result['plan_bytes'] >> 20} MiB{', verified' if args.verify else ''}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--library", type=pathlib.Path, required=True)
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("rows", nargs="*", default=list(ROWS))
    args = parser.parse_args()
    for name in args.rows:
        with tempfile.TemporaryDirectory() as scratch:
            check(args, name, pathlib.Path(scratch))


if __name__ == "__main__":
    main()
