# SPDX-License-Identifier: Apache-2.0
"""Work follows classes, not instances: counts that must stay when replicas, layers, experts or extents grow, and plans
of tensors far larger than memory. Usage: scale.py RESHARDC RESHARD LIBRARY

Times are printed; what is asserted are counts, and limits on time and memory several times above what is aimed at, since
machines differ."""
import json
import os
import resource
import subprocess
import sys
import tempfile

RESHARDC, RESHARD, LIBRARY = sys.argv[1:4]


class Failed(Exception):
    pass


def expect(condition, text):
    if not condition:
        raise Failed(text)


def cpu_seconds():
    """What the tools have used so far: a busy machine is no reason to fail."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def compile_pair(work, train, infer, *options, verify=True):
    """Compiles two texts; returns the --json object with the CPU time and the peak memory of children so far."""
    paths = []
    for side, text in (("train", train), ("infer", infer)):
        paths.append(os.path.join(work, side + ".layout"))
        with open(paths[-1], "w") as file:
            file.write(text)
    plan = os.path.join(work, "plan.bin")
    start = cpu_seconds()
    run = subprocess.run([RESHARDC, *paths, "-o", plan, "--json", *options], capture_output=True, text=True)
    seconds = cpu_seconds() - start
    expect(run.returncode == 0, f"exit {run.returncode}: {run.stderr[:2000]}")
    result = json.loads(run.stdout)
    result["cpu"] = seconds
    result["rss"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    result["path"] = plan
    if verify:
        check = subprocess.run([RESHARD, "verify", plan], capture_output=True, text=True)
        expect(check.returncode == 0, f"verify: {check.stdout[:2000]}{check.stderr[:2000]}")
    return result


def moe_pair(layers, experts, replicas):
    train = f"""
    param L = {layers}; param E = {experts}; param EP = 4; param DP = {replicas};
    mesh dense [dp: DP, tp: 4];
    mesh moe [dp: DP, ep: EP];
    for l in 0..L {{ tensor "{{l}}.q" bf16 [64, 32]; tensor "{{l}}.k" bf16 [16, 32];
      for e in 0..E {{ tensor "{{l}}.{{e}}.up" bf16 [16, 32]; }} }}
    for l in 0..L {{
      on dense {{ buffer "layers.{{l}}.qk" = cat(0, "{{l}}.q", "{{l}}.k")[_ @tp, _]; }}
      for e in 0..E {{ on moe[ep = e / (E / EP)] {{ buffer "layers.{{l}}.experts.{{e % (E / EP)}}" = "{{l}}.{{e}}.up"; }} }}
    }}"""
    infer = f"""
    param L = {layers}; param E = {experts}; param DP = {replicas};
    mesh m [dp: DP, tp: 2];
    for l in 0..L {{ tensor "{{l}}.q" bf16 [64, 32]; tensor "{{l}}.k" bf16 [16, 32];
      for e in 0..E {{ tensor "{{l}}.{{e}}.up" bf16 [16, 32]; }} }}
    for l in 0..L {{ on m {{
      buffer "layers.{{l}}.qk" = cat(0, "{{l}}.q"[_ @tp, _], "{{l}}.k"[_ @tp, _]);
      buffer "layers.{{l}}.w" = stack(e in 0..E, "{{l}}.{{e}}.up"[_ @tp, _]);
    }} }}"""
    return train, infer


def test_growth(work):
    """Box intersections stay when layers, experts or replicas double; so do descriptors per slice."""
    base = compile_pair(work, *moe_pair(4, 8, 2))["stats"]
    for name, args in (("layers", (8, 8, 2)), ("experts", (4, 16, 2)), ("replicas", (4, 8, 4))):
        grown = compile_pair(work, *moe_pair(*args))["stats"]
        expect(grown["intersections"] == base["intersections"],
               f"{name} doubled: {base['intersections']} -> {grown['intersections']} intersections")
        if name != "replicas":
            expect(grown["descriptors"] == base["descriptors"],
                   f"{name} doubled: {base['descriptors']} -> {grown['descriptors']} descriptors")
    return f"{base['intersections']} intersections whatever the layers, experts, replicas"


def crossing(extent):
    text = 'tensor "w" bf16 [{0}, {0}]; mesh m [d: 128]; on m {{ buffer "w" = "w"[{1}]; }}'
    return text.format(extent, "_ @d, _"), text.format(extent, "_, _ @d")


def test_crossing_cuts(work):
    """Rows against columns: as many records for [64K, 64K] as for [128, 128]."""
    small = compile_pair(work, *crossing(128))
    large = compile_pair(work, *crossing(65536))
    expect(small["stats"]["records"] == 16384, f"{small['stats']['records']} records")
    expect(large["stats"]["records"] == 16384, f"{large['stats']['records']} records")
    expect(os.path.getsize(large["path"]) < 32 << 20, f"{os.path.getsize(large['path'])} bytes of plan")
    return f"16384 records, {large['plan_bytes'] / 2**20:.1f} MiB, {large['cpu']:.2f} s"


def test_many_tensors(work):
    """100,000 tensors in 10 classes."""
    train = "mesh m [tp: 4]; for i in 0..10000 { " + " ".join(
        f'tensor "{{i}}.w{k}" bf16 [{8 * (k + 1)}, 8]; on m {{ buffer "{{i}}.w{k}"[_ @tp, _]; }}' for k in range(10)) + " }"
    infer = train.replace("_ @tp, _", "_, _ @tp")
    result = compile_pair(work, train, infer, verify=False)
    expect(result["stats"]["classes"] == 20, f"{result['stats']['classes']} classes")
    expect(result["cpu"] < 3, f"{result['cpu']:.2f} s")  # 1 s on a machine at rest
    expect(result["rss"] < 1 << 30, f"{result['rss'] >> 20} MiB")
    return f"{result['cpu']:.2f} s, {result['rss'] >> 20} MiB, plan {result['plan_bytes'] >> 20} MiB"


def test_many_holders(work):
    """A flat range for each of 2048 ranks against columns: memory follows the records, not ranks times records."""
    train = 'tensor "w" f32 [2048, 2048]; mesh m [dp: 2048]; on m { buffer "w" = "w"[4194304 @dp]; }'
    infer = 'tensor "w" f32 [2048, 2048]; mesh m [tp: 8]; on m { buffer "w"[_, _ @tp]; }'
    result = compile_pair(work, train, infer, verify=False)
    peak = {p["pass"]: p["peak_bytes"] for p in result["passes"]}["intersect"]
    expect(result["stats"]["records"] == 16384, f"{result['stats']['records']} records")
    expect(peak < 256 << 20, f"{peak >> 20} MiB")
    return f"16384 records, {peak >> 20} MiB"


def test_huge_tensor(work):
    """2^33 elements and more plan without being allocated; offsets have 64 bits."""
    train = 'tensor "w" bf16 [131072, 65536]; mesh m [a: 3]; on m { buffer "w"[_ @a:chunk, _]; }'
    infer = 'tensor "w" bf16 [131072, 65536]; mesh m [a: 5]; on m { buffer "w" = "w"[8589934592 @a:chunk]; }'
    result = compile_pair(work, train, infer)
    expect(result["bytes"]["wanted"] == 2**34, f"{result['bytes']['wanted']} bytes wanted")
    expect(result["stats"]["records"] <= 32, f"{result['stats']['records']} records")
    return f"{result['stats']['records']} records for 2^33 elements"


def test_real_model(work):
    """The Qwen3-235B pair of the library: 128 + 128 ranks, 36,945 tensors."""
    pair = [os.path.join(LIBRARY, *parts) for parts in (("megatron", "qwen3-235b-a22b.layout"), ("vllm", "qwen3-235b-a22b.layout"))]
    plan = os.path.join(work, "plan.bin")
    start = cpu_seconds()
    run = subprocess.run([RESHARDC, *pair, "-o", plan, "--json"], capture_output=True, text=True)
    seconds = cpu_seconds() - start
    expect(run.returncode == 0, run.stderr[:2000])
    result = json.loads(run.stdout)
    rss = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    expect(result["coverage"]["tensors"] == 36945, f"{result['coverage']['tensors']} tensors")
    expect(result["bytes"]["network_minimum"] == 16 * 470187269120, f"minimum {result['bytes']['network_minimum']}")
    expect(seconds < 10, f"{seconds:.2f} s")
    expect(rss < 2 << 30, f"{rss >> 20} MiB")
    return f"{seconds:.2f} s, {rss >> 20} MiB, plan {result['plan_bytes'] / 2**20:.1f} MiB, {result['stats']['records']} records"


def compile_limited(work, train, infer, params, ops):
    pair = [os.path.join(LIBRARY, train), os.path.join(LIBRARY, infer)]
    defines = [word for param in params for word in ("-D", param)]
    plan = os.path.join(work, "plan.bin")
    run = subprocess.run([RESHARDC, *pair, *defines, "--max-ops", str(ops), "-o", plan, "--json"], capture_output=True, text=True)
    expect(run.returncode == 0, run.stderr[:2000])
    check = subprocess.run([RESHARD, "verify", plan], capture_output=True, text=True)
    expect(check.returncode == 0, f"verify: {check.stdout[:2000]}{check.stderr[:2000]}")
    return json.loads(run.stdout)


def test_limits(work):
    """Of the ways that keep a limit the fast one is taken: a looser limit costs no time, and turns do not double it."""
    params = ["train.TP=1", "train.PP=1", "train.CP=2", "infer.TP=2", "infer.ENGINES=12"]
    seconds = []
    for ops in (16, 20, 24, 28, 32):
        result = compile_limited(work, "megatron/qwen3-4b.layout", "sglang/qwen3-4b.layout", params, ops)
        seconds.append(result["seconds"]["makespan"])
        expect(result["rounds"] < 200, f"{result['rounds']} rounds with --max-ops {ops}")
        expect(seconds[-1] <= 1.02 * seconds[0], f"--max-ops {ops}: {seconds[-1]} s, {seconds[0]} s with 16")
    result = compile_limited(work, "megatron/qwen3-30b-a3b.layout", "vllm/qwen3-30b-a3b.layout", [], 16)
    ratio = result["bound"]["ratio"]
    expect(ratio < 1.1, f"Qwen3-30B with --max-ops 16: {ratio:.3f} times the bound")
    return f"simulated {', '.join(f'{1e3 * s:.1f}' for s in seconds)} ms; Qwen3-30B {ratio:.3f} times the bound"


def main():
    failed = 0
    for test in (test_growth, test_crossing_cuts, test_many_tensors, test_many_holders, test_huge_tensor, test_real_model, test_limits):
        with tempfile.TemporaryDirectory() as work:
            try:
                print(f"ok   {test.__name__}: {test(work)}")
            except Failed as reason:
                failed += 1
                print(f"FAIL {test.__name__}: {reason}")
    sys.exit(1 if failed else 0)


main()
