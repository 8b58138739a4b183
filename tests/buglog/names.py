# SPDX-License-Identifier: Apache-2.0
"""Names, pairing, completeness. References are public issues that show the fault."""
from harness import case, grid, need, row

ONE = 'mesh m [x: 1];\n'

# NVIDIA-NeMo/RL#3259: two pipeline stages under the same local layer name.
case("one_name_on_two_stages",
     tensors='tensor "l0.w" bf16 [4];\n',
     train='mesh m [pp: 2];\non m[pp = 0] { buffer "l0.w"; }\non m[pp = 1] { buffer "l0.w"; }\n',
     infer=ONE + 'on m { buffer "l0.w"; }\n',
     refused=["train.layout:3:", "train.layout:4:", "l0.w", "replica"])
case("local_buffer_names_of_distinct_layers",
     dtype="bf16", tensors='tensor "l0.w" bf16 [4];\ntensor "l1.w" bf16 [4];\n',
     train='mesh m [pp: 2];\nfor l in 0..2 { on m[pp = l] { buffer "layer0.w" = "l{l}.w"; } }\n',
     infer=ONE + 'on m { buffer "l0.w"; buffer "l1.w"; }\n',
     holds=[{"layer0.w": row(0, 1, 2, 3)}, {"layer0.w": row(10, 11, 12, 13)}],
     wants=[{"l0.w": row(0, 1, 2, 3), "l1.w": row(10, 11, 12, 13)}])
case("one_buffer_name_twice_on_a_rank",
     tensors='tensor "a" i32 [2];\ntensor "b" i32 [2];\n',
     train=ONE + 'on m { buffer "w" = "a"; }\non m { buffer "w" = "b"; }\n',
     infer=ONE + 'on m { buffer "a"; buffer "b"; }\n',
     refused=["RS0062", "train.layout:4:", "train.layout:5:"])
case("one_tensor_declared_twice",
     train='tensor "a" i32 [2];\ntensor "a" i32 [2];\n' + ONE + 'on m { buffer "a"; }\n',
     infer='tensor "a" i32 [2];\n' + ONE + 'on m { buffer "a"; }\n',
     refused=["RS0061", "train.layout:2:", "train.layout:1:"])

# NVIDIA/Megatron-LM#1584, #513; huggingface/transformers#24381: 8 layers, 2 stages with 2 chunks each.
case("virtual_pipeline",
     tensors=''.join(f'tensor "l{i}" i32 [1];\n' for i in range(8)),
     train='mesh m [pp: 2];\nlet chunks = [2, 2, 2, 2];\n'
           'for l in 0..8 { on m[pp = bucket(chunks, l) % 2] { buffer "l{l}"; } }\n',
     infer='mesh m [pp: 4];\nfor l in 0..8 { on m[pp = l / 2] { buffer "l{l}"; } }\n',
     holds=[{"l0": row(0), "l1": row(1), "l4": row(4), "l5": row(5)},
            {"l2": row(2), "l3": row(3), "l6": row(6), "l7": row(7)}],
     wants=[{"l0": row(0), "l1": row(1)}, {"l2": row(2), "l3": row(3)}, {"l4": row(4), "l5": row(5)},
            {"l6": row(6), "l7": row(7)}])

# Tencent-Hunyuan/UniRL#102, #166: names that do not match were skipped without a word.
case("unmatched_names",
     train='tensor "a.to_q" i32 [4];\n' + ONE + 'on m { buffer "a.to_q"; }\n',
     infer='tensor "q" i32 [4];\n' + ONE + 'on m { buffer "q"; }\n',
     refused=["a.to_q", "q", "train.layout:3:", "infer.layout:3:"])
case("renamed_buffer",
     tensors='tensor "a.to_q" i32 [4];\n',
     train=ONE + 'on m { buffer "a.to_q"; }\n',
     infer=ONE + 'on m { buffer "q" = "a.to_q"; }\n',
     holds=[{"a.to_q": grid(0, 4)}], wants=[{"q": grid(0, 4)}],
     plan=lambda p: (need(p.json["coverage"]["tensors"] == 1 and p.json["coverage"]["bytes"] == 16, "1 tensor, 16 bytes"),
                     need("16 " in p.text.splitlines()[-1], f"the last line states the coverage: {p.text}")))
case("names_that_differ_invisibly",
     train='tensor "w" i32 [4];\n' + ONE + 'on m { buffer "w"; }\n',
     infer='tensor "w\u200b" i32 [4];\n' + ONE + 'on m { buffer "w\u200b"; }\n',
     refused=["E2", "80", "8B"])

# NovaSky-AI/SkyRL#1505: one side has a tensor more.
W = 'tensor "w" f32 [2];\n'
BIAS = W + 'tensor "router.bias" f32 [4];\n'
BOTH = ONE + 'on m { buffer "w"; buffer "router.bias"; }\n'
ALONE = ONE + 'on m { buffer "w"; }\n'
case("supplied_and_not_wanted", train=BIAS + BOTH, infer=W + ALONE, refused=["train.layout:4:", "router.bias", "skip"])
case("wanted_and_not_supplied", train=W + ALONE, infer=BIAS + BOTH, refused=["infer.layout:4:", "router.bias"])
case("supplied_and_skipped",
     dtype="f32", train=BIAS + BOTH, infer=W + 'skip "router.*";\n' + ALONE,
     holds=[{"w": row(0, 1), "router.bias": row(10, 11, 12, 13)}], wants=[{"w": row(0, 1)}])
case("wanted_and_skipped",
     dtype="f32", train=W + 'skip "router.bias";\n' + ALONE, infer=BIAS + BOTH,
     holds=[{"w": row(0, 1)}], wants=[{"w": row(0, 1), "router.bias": row(-1, -1, -1, -1)}])

# ai-dynamo/modelexpress#481: a plan that moves nothing is no success.
case("nothing_wanted",
     tensors='tensor "w" i32 [4];\n',
     train=ONE + 'on m { buffer "w"; }\n', infer=ONE + 'skip "w";\n',
     refused=["nothing"], placeless=True)
case("everything_skipped",
     train='tensor "a" i32 [4];\nskip "b";\n' + ONE + 'on m { buffer "a"; }\n',
     infer='tensor "b" i32 [4];\nskip "a";\n' + ONE + 'on m { buffer "b"; }\n',
     refused=["nothing"], placeless=True)
case("no_mesh", tensors='tensor "w" i32 [4];\n', train=ONE + 'on m { buffer "w"; }\n', infer='', refused=["RS0039"])


def records_do_not_grow(tools, fields):
    counts = []
    for rows, columns in ((8, 8), (262144, 8960)):
        counts.append(tools.stats(dict(
            tensors=f'tensor "w" bf16 [{rows}, {columns}];\n',
            train='mesh m [tp: 2];\non m { buffer "w"[_ @tp, _]; }\n',
            infer='mesh m [tp: 4];\non m { buffer "w"[_, _ @tp]; }\n')))
    need(counts[0]["records"] == counts[1]["records"] and counts[0]["descriptors"] == counts[1]["descriptors"],
         f"records grow with the size: {counts}")


case("records_do_not_grow_with_the_size", also=records_do_not_grow)


# kvcache-ai/Mooncake#3634, #3441: an edited or shortened plan is refused.
def edited_plan(tools, fields):
    plan = tools.compile(fields).path
    good = plan.read_bytes()
    for at in range(0, len(good), 41):
        plan.write_bytes(good[:at] + bytes([good[at] ^ (1 << at % 8)]) + good[at + 1:])
        need(tools.run("reshard", "verify", plan).returncode == 1, f"a flipped bit at byte {at} was accepted")
    for size in (0, 1, 100, len(good) // 2, len(good) - 1):
        plan.write_bytes(good[:size])
        need(tools.run("reshard", "verify", plan).returncode == 1, f"a plan cut to {size} bytes was accepted")
    plan.write_bytes(good + b"\0")
    need(tools.run("reshard", "verify", plan).returncode == 1, "a longer plan was accepted")


case("edited_plans_are_refused",
     tensors='tensor "w" i32 [4, 4];\n',
     train='mesh m [tp: 2];\non m { buffer "w"[_ @tp, _]; }\n', infer=ONE + 'on m { buffer "w"; }\n',
     also=edited_plan)

# meta-pytorch/torchstore#37, #88: whole is what is covered, not what all ranks have.
case("a_tensor_on_one_rank_only",
     dtype="bf16", tensors='tensor "w" bf16 [4];\ntensor "ex" bf16 [2, 2];\n',
     train='mesh m [tp: 4];\non m { buffer "w"[_ @tp]; }\non m[tp = 1] { buffer "ex"; }\n',
     infer=ONE + 'on m { buffer "w"; buffer "ex"; }\n',
     holds=[{"w": row(0)}, {"w": row(1), "ex": grid(10, 2, 2)}, {"w": row(2)}, {"w": row(3)}],
     wants=[{"w": row(0, 1, 2, 3), "ex": grid(10, 2, 2)}])
case("a_part_that_nobody_holds",
     tensors='tensor "w" bf16 [4, 2];\n',
     train='mesh m [tp: 2];\non m[tp = 0] { buffer "lo" = slice("w", 0, 0, 2); }\n'
           'on m[tp = 1] { buffer "hi" = slice("w", 0, 3, 4); }\n',
     infer=ONE + 'on m { buffer "w"; }\n',
     refused=["infer.layout:3:", "w", "2"])
case("a_part_that_nobody_wants",
     tensors='tensor "w" bf16 [4, 2];\n',
     train=ONE + 'on m { buffer "w"; }\n',
     infer=ONE + 'on m { buffer "hi" = slice("w", 0, 1, 4); }\n',
     refused=["train.layout:3:", "w", "skip"])
