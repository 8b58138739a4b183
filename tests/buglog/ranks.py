# SPDX-License-Identifier: Apache-2.0
"""Ranks, rank lists, clusters. References are public issues that show the fault."""
from harness import LINKS, case, grid, need, row

W = 'tensor "w" i32 [4];\n'
TRAIN = 'mesh m [tp: 2];\non m { buffer "w"[_ @tp]; }\n'
HALVES = [{"w": row(0, 1)}, {"w": row(2, 3)}]


def cluster(hosts, train, infer):
    return "reshard-cluster: 1\n" + LINKS + "hosts:\n" + "".join(f"  - {{{h}}}\n" for h in hosts) + f'train: "{train}"\ninfer: "{infer}"\n'


# huggingface/trl#3158, #3706, #3446; OpenRLHF/OpenRLHF#726: two ranks of one side on one GPU.
case("two_ranks_of_a_side_on_one_gpu",
     tensors=W, train=TRAIN, infer=TRAIN, cluster=cluster(['names: "a", gpus: 8, nics: 8'], "a:0,a:0", "a:2,a:3"),
     refused=["cluster.yaml:8:", "GPU 0", "'a'"])
case("a_trainer_and_an_engine_on_one_gpu",
     tensors=W, train=TRAIN, infer=TRAIN, cluster=cluster(['names: "a", gpus: 8, nics: 8'], "a:0,a:1", "a:1,a:2"),
     holds=HALVES, wants=HALVES,
     plan=lambda p: (need(p.json["world"] == 3, "three GPUs, three processes"),
                     need(p.train(1)["infer_rank"] == 0, "GPU 1 has both roles")))

# meta-pytorch/torchcomms#3612, #3516: domains are told apart by more than a number. Each host is its own domain.
case("hosts_are_domains_of_their_own",
     tensors=W, train='mesh m [x: 1];\non m { buffer "w"; }\n', infer=TRAIN,
     cluster=cluster(['names: "a", gpus: 1, nics: 1', 'names: "b[0-1]", gpus: 1, nics: 1'], "a", "b[0-1]"),
     holds=[{"w": grid(0, 4)}], wants=HALVES,
     plan=lambda p: (need(p.json["bytes"]["nvlink"] == 0 and p.json["bytes"]["network"] == 16, "all over the network"),
                     need(len({r["domain"] for r in p.ranks}) == 3, "three domains")))
case("a_rack_is_one_domain",
     tensors=W, train='mesh m [x: 1];\non m { buffer "w"; }\n', infer=TRAIN,
     cluster=cluster(['names: "a", gpus: 1, nics: 1, domain: "r"', 'names: "b[0-1]", gpus: 1, nics: 1, domain: "r"'],
                     "a", "b[0-1]"),
     holds=[{"w": grid(0, 4)}], wants=HALVES,
     plan=lambda p: need(p.json["bytes"]["nvlink"] == 16 and p.json["bytes"]["network"] == 0, "all over NVLink"))

# NVIDIA/nccl#2186: no fixed number of ranks in a domain.
for ranks in (43, 44, 64, 72, 129):
    case(f"domain_of_{ranks}",
         tensors=f'tensor "w" i32 [{ranks}];\n',
         train=f'mesh m [d: {ranks}];\non m {{ buffer "w"[_ @d]; }}\n',
         infer='mesh m [x: 1];\non m { buffer "w"; }\n',
         cluster=cluster([f'names: "a", gpus: {ranks + 1}, nics: {ranks + 1}'], "a:*", f"a:{ranks}"),
         holds=[{"w": row(r)} for r in range(ranks)], wants=[{"w": grid(0, ranks)}])


# NVIDIA/nccl#1726, #379; pytorch/pytorch#154342: a cluster file that is cut short or lacks a key.
def broken_cluster(tools, fields):
    args = tools.layouts(dict(fields, cluster=""))
    whole = cluster(['names: "a", gpus: 8, nics: 8'], "a:0,a:1", "a:2,a:3")
    tools.write("cluster.yaml", whole)
    tools.run("reshardc", *args, "-o", "plan", ok=0)
    for end in range(0, len(whole) - len("2,a:3\"\n"), 3):
        tools.write("cluster.yaml", whole[:end])
        done = tools.run("reshardc", *args, "-o", "plan2")
        need(done.returncode == 1, f"cut after {end} bytes: exit {done.returncode}\n{done.stderr}")
        need("cluster.yaml:" in done.stderr, f"cut after {end} bytes: no place in the message:\n{done.stderr}")
    for key in ("reshard-cluster: 1\n", 'names: "a", ', "gpus: 8, ", 'train: "a:0,a:1"\n', 'infer: "a:2,a:3"\n'):
        tools.write("cluster.yaml", whole.replace(key, ""))
        done = tools.run("reshardc", *args, "-o", "plan2")
        need(done.returncode == 1 and key.split(":")[0] in done.stderr, f"without {key!r}: {done.returncode}\n{done.stderr}")


case("broken_cluster_files", tensors=W, train=TRAIN, infer=TRAIN, also=broken_cluster)

# NVIDIA/nccl#1008: a cluster file for another number of ranks.
case("more_gpus_than_ranks",
     tensors=W, train=TRAIN, infer=TRAIN, cluster=cluster(['names: "a", gpus: 4, nics: 4', 'names: "b", gpus: 4, nics: 4'], "a", "b"),
     holds=HALVES, wants=HALVES)
case("fewer_gpus_than_ranks",
     tensors=W, train='mesh m [tp: 4];\non m { buffer "w"[_ @tp]; }\n', infer=TRAIN,
     cluster=cluster(['names: "a", gpus: 2, nics: 2', 'names: "b", gpus: 4, nics: 4'], "a", "b"),
     refused=["cluster.yaml:9:", "2", "4"])
case("an_unknown_host",
     tensors=W, train=TRAIN, infer=TRAIN, cluster=cluster(['names: "a", gpus: 4, nics: 4'], "a:0,a:1", "z:0,z:1"),
     refused=["cluster.yaml:9:", "z"])

# PrimeIntellect-ai/prime-rl#3177: rank lists that overlap or are too short.
case("a_rank_twice_in_a_mesh",
     tensors=W, train=TRAIN, infer='mesh m [tp: 2, dp: 2] ranks 4, 5, 5, 6;\non m { buffer "w"[_ @tp]; }\n',
     refused=["RS0036", "infer.layout:2:", "5"])
case("too_few_ranks_in_a_mesh",
     tensors=W, train=TRAIN, infer='mesh m [tp: 2, dp: 2] ranks 4, 5, 6;\non m { buffer "w"[_ @tp]; }\n',
     refused=["RS0037", "infer.layout:2:", "4", "3"])


# NVIDIA/TensorRT-LLM#10350; pytorch/torchtitan#286; huggingface/nanotron#100: the axis order is written, so one grid
# written in two ways is one grid.
def two_ways_to_write_a_mesh(tools, fields):
    tools.compile(fields, "one")
    tools.compile(dict(fields, train=fields["train"].replace("[tp: 2, cp: 2] ranks 0, 1, 2, 3",
                                                             "[cp: 2, tp: 2] ranks 0, 2, 1, 3")), "two")
    tools.run("reshard", "diff", "one", "two", ok=0)


case("axis_order_is_written",
     tensors=W, train='mesh m [tp: 2, cp: 2] ranks 0, 1, 2, 3;\non m { buffer "w"[_ @tp]; }\n', infer=TRAIN,
     holds=[{"w": row(0, 1)}, {"w": row(0, 1)}, {"w": row(2, 3)}, {"w": row(2, 3)}], wants=HALVES,
     also=two_ways_to_write_a_mesh)
case("axis_order_the_other_way",
     tensors=W, train='mesh m [cp: 2, tp: 2] ranks 0, 2, 1, 3;\non m { buffer "w"[_ @tp]; }\n', infer=TRAIN,
     holds=[{"w": row(0, 1)}, {"w": row(0, 1)}, {"w": row(2, 3)}, {"w": row(2, 3)}], wants=HALVES)

# marin-community/marin#3947: interleaved ranks. Of 8, 0 1 4 5 train and 2 3 6 7 infer.
case("interleaved_ranks",
     dtype="bf16", tensors='tensor "w" bf16 [4, 2];\n',
     train='world 8;\nmesh m [tp: 4] ranks 0, 1, 4, 5;\non m { buffer "w"[_ @tp, _]; }\n',
     infer='world 8;\nmesh m [tp: 2, dp: 2] ranks 2, 3, 6, 7;\non m { buffer "w"[_ @tp, _]; }\n',
     cluster=cluster(['names: "a", gpus: 8, nics: 8'], "a", "a"),
     holds=[{"w": grid(0, 1, 2)}, {"w": grid(2, 1, 2)}, None, None, {"w": grid(4, 1, 2)}, {"w": grid(6, 1, 2)}, None, None],
     wants=[None, None, {"w": grid(0, 2, 2)}, {"w": grid(0, 2, 2)}, None, None, {"w": grid(4, 2, 2)}, {"w": grid(4, 2, 2)}],
     plan=lambda p: need(p.json["world"] == 8, "eight processes"))


# vllm-project/vllm#38862; NVIDIA-NeMo/RL#3944; NVIDIA/Megatron-LM#4762: a plan belongs to its ranks and their order.
def another_rank_list_is_another_plan(tools, fields):
    tools.compile(fields)
    tools.run("reshard", "verify", "plan", "--train", "train.layout", "--infer", "infer.layout", ok=0)
    for ranks in ("0, 1, 3", "0, 3, 2"):
        tools.write("other.layout", fields["tensors"] + fields["infer"].replace("0, 2, 3", ranks))
        tools.run("reshard", "verify", "plan", "--train", "train.layout", "--infer", "other.layout", ok=1)


case("survivors_with_a_hole",
     tensors='tensor "w" i32 [6];\n', train=TRAIN,
     infer='mesh m [tp: 3] ranks 0, 2, 3;\non m { buffer "w"[_ @tp]; }\n',
     holds=[{"w": row(0, 1, 2)}, {"w": row(3, 4, 5)}], wants=[{"w": row(0, 1)}, None, {"w": row(2, 3)}, {"w": row(4, 5)}],
     also=another_rank_list_is_another_plan)
