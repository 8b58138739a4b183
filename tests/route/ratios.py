#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Refits between a few hosts, simulated: how far each is from its bound.

In: the built tools and plans/library. Out: one line for each case; exit 0 if none takes more times its bound than stated here,
none moves more over the network than it must, and each plan is proved.

Usage: ratios.py --bin build/release/bin [--case WORD]
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

LIBRARY = pathlib.Path(__file__).resolve().parents[2] / 'plans/library'
H100 = dict(gpus=8, nics=8, nic=50e9, nvlink=450e9, memory=3.3e12, latency=5e-6)
SHARED = dict(H100, nics=1)  # all GPUs of a host share one NIC
CPU = dict(gpus=1, nics=1, nic=1.25e9, nvlink=20e9, memory=100e9, latency=30e-6)  # 10 Gb/s Ethernet


def hosts(train, infer, names=None, **link):
    """A cluster file. `train`, `infer`: hosts, or GPUs of hosts; `names`: the hosts, if it is not these."""
    each = ''.join(f'  - {{names: "{n}", gpus: {link["gpus"]}, nics: {link["nics"]}}}\n'
                   for n in names or dict.fromkeys([train, infer]))
    return f'''reshard-cluster: 1
links:
  nvlink: {{bandwidth: {link["nvlink"]}, latency: 2e-6}}
  network: {{bandwidth: {link["nic"]}, latency: {link["latency"]}}}
  memory: {{bandwidth: {link["memory"]}}}
hosts:
{each}train: "{train}"
infer: "{infer}"
'''


# What, training and inference layout, cluster, parameters, the most times the bound that it may take.
CASES = [
    ('0.6B, one 10 Gb/s NIC per host, 8 to 8', 'megatron/qwen3-0.6b', 'vllm/qwen3-0.6b',
     hosts('t0', 'i0', **dict(SHARED, nic=1.25e9)), 'train.TP=2 train.PP=2 train.DP=2 infer.TP=4 infer.ENGINES=2', 1.01),
    ('4B, one 25 Gb/s NIC per host, 8 to 8', 'megatron/qwen3-4b', 'vllm/qwen3-4b',
     hosts('t0', 'i0', **dict(SHARED, nic=3.125e9)), 'train.DP=8 infer.TP=8', 1.01),
    ('0.6B, 4 hosts of 2 GPUs with one NIC', 'megatron/qwen3-0.6b', 'vllm/qwen3-0.6b',
     hosts('t[0-3]', 'i[0-3]', **dict(SHARED, gpus=2, nic=1.25e9)), 'train.TP=1 train.PP=1 train.DP=2 infer.TP=2 infer.ENGINES=4', 1.03),
    ('0.6B, Ethernet, one trainer to 8 replicas', 'megatron/qwen3-0.6b', 'vllm/qwen3-0.6b',
     hosts('t[0-7]', 'i[0-7]', **CPU), 'train.TP=1 train.PP=1 train.DP=1 infer.TP=1 infer.ENGINES=8', 1.05),
    ('0.6B, Ethernet, TP2 to 8 of TP2', 'megatron/qwen3-0.6b', 'vllm/qwen3-0.6b',
     hosts('t[00-15]', 'i[00-15]', **CPU), 'train.TP=2 train.PP=1 train.DP=1 infer.TP=2 infer.ENGINES=8', 1.07),
    ('4B, 8 to 4 hosts in 20 ms', 'megatron/qwen3-4b', 'vllm/qwen3-4b', hosts('t0', 'i[0-3]', **H100),
     'train.DP=8 infer.TP=8 infer.ENGINES=4', 1.08),
    ('0.6B, 8 to 4 hosts in 3 ms', 'megatron/qwen3-0.6b', 'vllm/qwen3-0.6b', hosts('t0', 'i[0-3]', **H100),
     'train.TP=1 train.PP=1 train.DP=8 infer.TP=4 infer.ENGINES=8', 1.20),
    ('8B, 8 to 4 hosts in 40 ms', 'megatron/qwen3-8b', 'vllm/qwen3-8b', hosts('t0', 'i[0-3]', **H100),
     'infer.TP=8 infer.ENGINES=4', 1.06),
    ('0.6B, one trainer to TP8 beside it', 'megatron/qwen3-0.6b', 'vllm/qwen3-0.6b', hosts('h0', 'h0', **H100),
     'train.TP=1 train.PP=1 train.DP=1 infer.TP=8 infer.ENGINES=1', 1.06),
    ('0.6B, one trainer to 8 replicas beside it', 'megatron/qwen3-0.6b', 'vllm/qwen3-0.6b', hosts('h0', 'h0', **H100),
     'train.TP=1 train.PP=1 train.DP=1 infer.TP=1 infer.ENGINES=8', 1.10),
    ('0.6B, two trainers to TP4 x 2 beside them', 'megatron/qwen3-0.6b', 'vllm/qwen3-0.6b', hosts('h0', 'h0', **H100),
     'train.TP=1 train.PP=1 train.DP=2 infer.TP=4 infer.ENGINES=2', 1.1),
    ('0.6B, one trainer to TP8 here and there', 'megatron/qwen3-0.6b', 'vllm/qwen3-0.6b', hosts('h0', 'h0, h1', ['h[0-1]'], **SHARED),
     'train.TP=1 train.PP=1 train.DP=1 infer.TP=8 infer.ENGINES=2', 1.06),
    ('8B, FSDP on half a host, TP4 there and TP8 x 2', 'fsdp/qwen3-8b-fsdp2', 'vllm/qwen3-8b',
     hosts('h0:[0-3]', 'h0:[4-7], h[1-2]', ['h[0-2]'], **H100), 'train.DP=4 infer.TP=4 infer.ENGINES=5', 1.05),
    ('8B, FSDP on half a host to TP8 x 2', 'fsdp/qwen3-8b-fsdp2', 'vllm/qwen3-8b',
     hosts('h0:[0-3]', 'h[1-2]', ['h[0-2]'], **H100), 'train.DP=4 infer.TP=8 infer.ENGINES=2', 1.05),
]


def run(args, d):
    p = subprocess.run(args, cwd=d, capture_output=True, text=True)
    if p.returncode:
        sys.exit(f'{" ".join(map(str, args))}: {p.returncode} {p.stderr[:500]}')
    return p.stdout


def measure(bindir, case, d):
    _, train, infer, cluster, defines, _ = case
    with open(os.path.join(d, 'cluster.yaml'), 'w') as f:
        f.write(cluster)
    args = [f'{bindir}/reshardc', LIBRARY / f'{train}.layout', LIBRARY / f'{infer}.layout', '-o', 'plan', '--json',
            '--cluster', 'cluster.yaml']
    for define in defines.split():
        args += ['-D', define]
    made = json.loads(run(args, d))
    run([f'{bindir}/reshard', 'verify', 'plan'], d)
    return made


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--bin', required=True)
    p.add_argument('--case', default='', help='only cases with this in their names')
    a = p.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory() as d:
        for case in CASES:
            if a.case not in case[0]:
                continue
            made = measure(os.path.abspath(a.bin), case, d)
            s, b = made['seconds'], made['bytes']
            ratio = s['makespan'] / s['bound']
            wrong = ratio > case[-1] or b['network'] != b['network_minimum']
            bad += wrong
            print(f'{case[0]:44} {s["bound"] * 1e3:9.3f} ms, {made["bound"]["term"]:8} x {ratio:.3f}, may {case[-1]:.2f}; '
                  f'{made["rounds"]} rounds{" WRONG" if wrong else ""}', flush=True)
    sys.exit(bad > 0)


if __name__ == '__main__':
    main()
