# SPDX-License-Identifier: Apache-2.0
"""Who sends what, in how many messages and rounds. References are public issues that show the fault."""
import os

import harness
from harness import LINKS, case, grid, need, row

ONE = 'mesh m [x: 1];\non m { buffer "w"; }\n'
W4 = dict(dtype="bf16", tensors='tensor "w" bf16 [4];\n')
WHOLE = {"w": grid(0, 4)}


# kvcache-ai/Mooncake#3441: rows to columns. 128 x 128 overlaps, however large the matrix.
def crossing_cuts(tools, fields):
    counts = []
    for size in (128, 65536):
        begun = harness.cpu_seconds()
        counts.append(tools.stats(dict(
            tensors=f'tensor "w" bf16 [{size}, {size}];\n',
            train='mesh m [d: 128];\non m { buffer "w"[_ @d, _]; }\n',
            infer='mesh m [d: 128];\non m { buffer "w"[_, _ @d]; }\n'))["records"])
        need(harness.SLOW or harness.cpu_seconds() - begun < 1, "the compile takes over a second")
        need((tools.dir / "plan").stat().st_size < 8 << 20, "the plan is over 8 MiB: 512 bytes per record, both ends")
    need(counts == [16384, 16384], f"records: {counts}")


case("rows_to_columns_128_by_128", also=crossing_cuts)

# NVIDIA/Megatron-LM#7189; pytorch/pytorch#174288, #174942: 24576 sends per rank in one group. Rounds are bounded.
case("many_small_tensors_stay_within_max_ops",
     tensors=''.join(f'tensor "w{i}" bf16 [4, 4];\n' for i in range(6144)),
     train='mesh m [tp: 4];\non m { for i in 0..6144 { buffer "w{i}"[_ @tp, _]; } }\n',
     infer='mesh m [tp: 4];\non m { for i in 0..6144 { buffer "w{i}"[_, _ @tp]; } }\n',
     options=["--max-ops", "64"], selfcheck=True,
     plan=lambda p: need(p.json["limits"]["max_ops"] == 64, "the limit is stated"))

# NVIDIA/Megatron-LM#6955; RLinf/RLinf#1127; alibaba/ChatLearn#83: copies that are not used are idle and take part.
for trainers, servers in ((2, 1), (3, 2), (2, 3)):
    case(f"copies_{trainers}_to_{servers}", **W4,
         train=f'mesh m [dp: {trainers}];\non m {{ buffer "w"; }}\n',
         infer=f'mesh m [dp: {servers}];\non m {{ buffer "w"; }}\n',
         holds=[WHOLE] * trainers, wants=[WHOLE] * servers,
         plan=lambda p, servers=servers: need([p.received(r) for r in range(servers)] == [8] * servers,
                                              "each byte has one source"))

# pytorch/pytorch#74701: ranks that are in no mesh.
case("idle_ranks_in_the_world",
     dtype="bf16", tensors=W4["tensors"],
     train='world 4;\nmesh m [tp: 2];\non m { buffer "w"[_ @tp]; }\n',
     infer='world 4;\nmesh m [tp: 2];\non m { buffer "w"[_ @tp]; }\n',
     holds=[{"w": grid(0, 2)}, {"w": grid(2, 2)}, None, None], wants=[{"w": grid(0, 2)}, {"w": grid(2, 2)}, None, None],
     plan=lambda p: (need(len(p.ranks) == 8, "8 ranks take part"),
                     need(all(p.train(r)["messages"] + p.infer(r)["messages"] == 0 for r in (2, 3)), "idle ranks")))

# vllm-project/vime#329: two pipeline stages send to the same receivers.
case("two_stages_to_the_same_receivers",
     dtype="bf16", tensors='tensor "l0" bf16 [4];\ntensor "l1" bf16 [4];\n',
     train='mesh m [pp: 2];\nfor l in 0..2 { on m[pp = l] { buffer "l{l}"; } }\n',
     infer='mesh m [tp: 2];\non m { buffer "l0"; buffer "l1"; }\n',
     holds=[{"l0": grid(0, 4)}, {"l1": grid(10, 4)}], wants=[{"l0": grid(0, 4), "l1": grid(10, 4)}] * 2)


# NVIDIA/Megatron-LM#6712; NVIDIA-NeMo/RL#4217: one trainer, two pools of engines: two plans.
POOL = dict(dtype="bf16", tensors=W4["tensors"], train='mesh m [tp: 2];\non m { buffer "w"[_ @tp]; }\n',
            holds=[{"w": grid(0, 2)}, {"w": grid(2, 2)}])
case("first_pool", **POOL, infer=ONE, wants=[WHOLE])
case("second_pool", **POOL, infer='mesh m [tp: 2];\non m { buffer "w"[_ @tp]; }\n', wants=POOL["holds"])

# nvidia-cosmos/cosmos-rl#738: senders of different stages, several rounds.
NAMES = [("a", 0), ("b", 0), ("c", 0), ("d", 1), ("e", 1)]
case("rounds_across_stages",
     tensors=''.join(f'tensor "{n}" i32 [4, 4];\n' for n, _ in NAMES),
     train='mesh m [pp: 2, fsdp: 2];\n'
           + ''.join(f'on m[pp = {p}] {{ buffer "{n}"[_ @fsdp, _]; }}\n' for n, p in NAMES),
     infer='mesh m [tp: 2];\non m { for n in ["a", "b", "c", "d", "e"] { buffer "{n}"[_, _ @tp]; } }\n',
     options=["--staging", "256"],
     holds=[{n: grid(100 * i + 8 * f, 2, 4) for i, (n, q) in enumerate(NAMES) if q == p} for p in (0, 1) for f in (0, 1)],
     wants=[{n: row(*[[100 * i + 4 * r + 2 * t, 100 * i + 4 * r + 2 * t + 1] for r in range(4)])
             for i, (n, _) in enumerate(NAMES)} for t in (0, 1)])

# inclusionAI/Awex#112: stages with very unequal bytes. The number of rounds belongs to the plan, not to a rank.
UNEQUAL = [(s, i) for s, count in enumerate((8, 4, 2, 1)) for i in range(count)]
case("unequal_stages",
     tensors=''.join(f'tensor "p{s}.{i}" i32 [64];\n' for s, i in UNEQUAL),
     train='mesh m [pp: 4];\n' + ''.join(f'on m[pp = {s}] {{ buffer "p{s}.{i}"; }}\n' for s, i in UNEQUAL),
     infer='mesh m [x: 1];\non m {\n' + ''.join(f'  buffer "p{s}.{i}";\n' for s, i in UNEQUAL) + '}\n',
     options=["--staging", "1KiB"],
     holds=[{f"p{s}.{i}": grid(1000 * s + 100 * i, 64) for s, i in UNEQUAL if s == stage} for stage in range(4)],
     wants=[{f"p{s}.{i}": grid(1000 * s + 100 * i, 64) for s, i in UNEQUAL}],
     plan=lambda p: need(p.received(0) == 15 * 256 and p.json["rounds"] >= 1, "15 tensors of 256 bytes"))


# vllm-project/vllm#31943: a boundary that depends on the machine. The plan does not.
def same_bytes_everywhere(tools, fields):
    args = tools.layouts(fields)
    environments = [None, {"PATH": os.environ["PATH"], "LC_ALL": "C", "TZ": "Asia/Tokyo", "HOME": "/nonexistent"}]
    plans = []
    for environment in environments:
        tools.run("reshardc", *args, "-o", "plan", ok=0, env=environment)
        plans.append((tools.dir / "plan").read_bytes())
        (tools.dir / "plan").unlink()
    (tools.dir / "elsewhere").mkdir()
    for name in ("train.layout", "infer.layout"):
        (tools.dir / "elsewhere" / name).write_bytes((tools.dir / name).read_bytes())
    tools.dir = tools.dir / "elsewhere"
    tools.run("reshardc", *args, "-o", "plan", ok=0)
    plans.append((tools.dir / "plan").read_bytes())
    need(plans[0] == plans[1] == plans[2], "the same inputs gave different plans")


case("same_inputs_same_bytes", tensors='tensor "w" bf16 [64, 2];\n',
     train='mesh m [dp: 2, tp: 4];\non m { buffer "w"[_ @tp, _]; }\n',
     infer='mesh m [dp: 3, tp: 2];\non m { buffer "w"[_, _ @tp]; }\n', also=same_bytes_everywhere)


# MoonshotAI/checkpoint-engine#2; vllm-project/vllm-ascend#16960; THUDM/slime#929: staging reused too early.
def staging_is_not_reused_too_early(tools, fields):
    plan = tools.compile(fields)
    tools.run("reshard", "run", plan.path, "--mode", "staged", "--repeat", "50", ok=0)


SIZES = (1000, 10, 500, 1)
case("staging_of_one_parameter",
     tensors=''.join(f'tensor "w{i}" i32 [2, {n}];\n' for i, n in enumerate(SIZES)),
     train='mesh m [tp: 2];\non m { for i in 0..4 { buffer "w{i}"[_ @tp, _]; } }\n',
     infer='mesh m [tp: 1];\non m { for i in 0..4 { buffer "w{i}" = permute("w{i}", 1, 0); } }\n',
     options=["--staging", "4000"], also=staging_is_not_reused_too_early)


# NVIDIA/nccl#1685, #2294: peers cost memory; equal cuts need one peer, crossing cuts all.
def peers(tools, fields):
    for wanted, infer in ((1, "_ @tp, _"), (8, "_, _ @tp")):
        layout = dict(tensors='tensor "w" bf16 [8, 8];\n', train='mesh m [tp: 8];\non m { buffer "w"[_ @tp, _]; }\n',
                      infer=f'mesh m [tp: 8];\non m {{ buffer "w"[{infer}]; }}\n')
        plan = tools.compile(layout)
        need(all(r["messages"] == wanted for r in plan.ranks), f"{wanted} messages per rank")
    done = tools.run("reshardc", *tools.layouts(layout), "-o", "plan", "--max-peers", "4")
    need(done.returncode == 1 and "8" in done.stderr and "4" in done.stderr, f"8 peers against 4: {done.stderr}")


case("peers_per_rank", also=peers)

# NVIDIA-NeMo/RL#817; NVIDIA/Megatron-LM#3213: copies share the sending.
APART = 'reshard-cluster: 1\n' + LINKS + 'hosts:\n  - {names: "h[00-11]", gpus: 1, nics: 1}\ntrain: "h[00-03]"\ninfer: "h[04-11]"\n'
case("copies_share_the_load",
     dtype="bf16", tensors='tensor "w" bf16 [8];\n',
     train='mesh m [dp: 4];\non m { buffer "w"; }\n', infer='mesh m [dp: 8];\non m { buffer "w"; }\n',
     holds=[{"w": grid(0, 8)}] * 4, wants=[{"w": grid(0, 8)}] * 8, cluster=APART, # every receiver is a domain of its own
     plan=lambda p: need(max(p.sent(r) for r in range(4)) <= 1.25 * min(p.sent(r) for r in range(4)),
                         f"sent: {[p.sent(r) for r in range(4)]}"))


# sgl-project/sglang#14178: small buckets gave garbage. Rounds of any size end in the same bytes.
CHUNKS = dict(tensors='tensor "q" i32 [8, 4];\ntensor "k" i32 [4, 4];\n',
              train='mesh m [tp: 2];\non m { buffer "qk" = cat(1, "q"[2, 16], "k"[2, 8])[48 @tp]; }\n',
              infer='mesh m [tp: 2];\non m { buffer "q"[_, _ @tp]; buffer "k"[_ @tp, _]; }\n',
              holds=[{"qk": row(*range(0, 16), *range(100, 108))}, {"qk": row(*range(16, 32), *range(108, 116))}],
              wants=[{"q": row(*[[4 * r, 4 * r + 1] for r in range(8)]), "k": grid(100, 2, 4)},
                     {"q": row(*[[4 * r + 2, 4 * r + 3] for r in range(8)]), "k": grid(108, 2, 4)}])
for chunk in (None, "8", "24", "1KiB"):
    case(f"chunk_{chunk}", **CHUNKS, options=["--chunk", chunk] if chunk else [])

# google/tunix#1704; jax-ml/jax#31793: nothing is local when the sides are apart, all is when they are the same.
PLACES = dict(dtype="bf16", tensors=W4["tensors"], train='mesh m [tp: 2];\non m { buffer "w"[_ @tp]; }\n',
              infer='mesh m [tp: 2];\non m { buffer "w"[_ @tp]; }\n', holds=POOL["holds"], wants=POOL["holds"])
CLUSTER = 'reshard-cluster: 1\n' + LINKS + 'hosts:\n  - {names: "a", gpus: 2, nics: 2}\ntrain: "a"\ninfer: "a"\n'
case("apart_nothing_is_local", **PLACES,
     plan=lambda p: need(p.json["bytes"]["local"] == 0 and p.received(0) == p.received(1) == 4, "all bytes are received"))
case("together_all_is_local", **PLACES, cluster=CLUSTER,
     plan=lambda p: need(p.json["bytes"]["local"] == 8 and p.messages() == 0, "all bytes are copied locally"))

# NVIDIA/nccl#479, #1967; meta-pytorch/torchcomms#2885: two ranks swap.
case("swap",
     dtype="bf16", tensors=W4["tensors"], train=PLACES["train"], cluster=CLUSTER,
     infer='mesh m [tp: 2] ranks 1, 0;\non m { buffer "w"[_ @tp]; }\n',
     holds=[{"w": row(0, 1)}, {"w": row(2, 3)}], wants=[{"w": row(2, 3)}, {"w": row(0, 1)}],
     plan=lambda p: need(p.messages() == 2, "each sends the other one message"))
# A ring of 16: coordinate i moves from rank i to rank i + 1.
case("ring",
     tensors='tensor "w" i32 [16];\n',
     train='mesh m [tp: 16];\non m { buffer "w"[_ @tp]; }\n',
     infer='mesh m [tp: 16] ranks 1..16, 0;\non m { buffer "w"[_ @tp]; }\n',
     cluster=CLUSTER.replace("gpus: 2, nics: 2", "gpus: 16, nics: 16"),
     holds=[{"w": row(i)} for i in range(16)], wants=[{"w": row(15)}] + [{"w": row(i)} for i in range(15)])
