#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The real models of plans/library. In: the tools, the library. Out: exit 0 or 1.

Without --replay: both pairs compile and verify, in the time and size they are held to, and cover every tensor and byte.
With --replay: Qwen3-0.6B moves at its true size in both modes, every byte checked.
"""
import argparse
import json
import pathlib
import resource
import subprocess
import tempfile

# name: tensors, bytes of one copy, copies on the inference side
PAIRS = {"qwen3-0.6b": (310, 1192099840, 2), "qwen3-235b-a22b": (36945, 470187269120, 16)}


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\nexit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def need(condition, text):
    if not condition:
        raise SystemExit(text)


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def compile_pair(args, name, plan):
    """Seconds of processor time: a busy machine is no reason to fail."""
    begun = cpu_seconds()
    run(args.bin / "reshardc", args.library / f"megatron/{name}.layout", args.library / f"vllm/{name}.layout", "-o", plan)
    return cpu_seconds() - begun


def whole(args, name, scratch):
    """Norms and kv heads are held by several ranks of an engine, so more bytes are wanted than the copies have."""
    tensors, size, copies = PAIRS[name]
    plan = scratch / name
    compile_pair(args, name, plan)
    run(args.bin / "reshard", "verify", plan)
    shown = json.loads(run(args.bin / "reshard", "show", plan, "--json"))
    need(shown["coverage"]["tensors"] == tensors, f"{name}: {shown['coverage']} instead of {tensors} tensors")
    need(size * copies <= shown["bytes"]["wanted"] <= 1.05 * size * copies, f"{name}: {shown['bytes']}")
    need(plan.stat().st_size < 64 << 20, f"{name}: the plan has {plan.stat().st_size} bytes")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--library", type=pathlib.Path, required=True)
    parser.add_argument("--replay", action="store_true")
    parser.add_argument("--slow", action="store_true", help="a build that is not held to times")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        plan = scratch / "plan"
        if args.replay:
            compile_pair(args, "qwen3-0.6b", plan)
            print(run(args.bin / "reshard", "run", plan))
            return
        for name in PAIRS:
            whole(args, name, scratch)
        best = min(compile_pair(args, "qwen3-0.6b", plan) for _ in range(5))
        print(f"compile of qwen3-0.6b: {best * 1e3:.1f} ms, the process and the file included")
        need(best < 0.05 or args.slow, "that is more than 50 ms")


if __name__ == "__main__":
    main()
