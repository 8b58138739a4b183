# SPDX-License-Identifier: Apache-2.0
"""Experts: coordinates, slots, stacks, shared ones. References are public issues that show the fault."""
from harness import case, grid, join, need, row

# vllm-project/vllm#46441: the expert coordinate is the mesh's, not the global rank. Layer 1 lives on ranks 2 and 3.
case("expert_coordinate_on_the_second_stage",
     tensors='tensor "l0" i32 [4, 2, 2];\ntensor "l1" i32 [4, 2, 2];\n',
     train='mesh m [pp: 2, ep: 2];\nfor l in 0..2 { on m[pp = l] { buffer "l{l}"[_ @ep, _, _]; } }\n',
     infer='mesh m [ep: 4];\non m { for l in 0..2 { buffer "l{l}"[_ @ep, _, _]; } }\n',
     holds=[{"l0": grid(0, 2, 2, 2)}, {"l0": grid(8, 2, 2, 2)}, {"l1": grid(100, 2, 2, 2)}, {"l1": grid(108, 2, 2, 2)}],
     wants=[{"l0": grid(4 * e, 1, 2, 2), "l1": grid(100 + 4 * e, 1, 2, 2)} for e in range(4)])


# radixark/miles#1730: a name that contains "experts" means nothing.
def names_do_not_matter(tools, fields):
    one = tools.compile(fields, "one")
    renamed = {k: v.replace("shared_experts.w", "alpha").replace("experts.w", "beta") if isinstance(v, str) else v
               for k, v in fields.items()}
    two = tools.compile(renamed, "two")
    keys = ("network_out", "network_in", "nvlink_out", "nvlink_in", "local", "messages", "ops", "staging")
    need([[r[k] for k in keys] for r in one.ranks] == [[r[k] for k in keys] for r in two.ranks],
         "renaming changed who sends what")


case("shared_and_routed_experts_by_layout_not_by_name",
     dtype="bf16", tensors='tensor "shared_experts.w" bf16 [4, 2];\ntensor "experts.w" bf16 [4, 2, 2];\n',
     train='mesh d [dp: 2, tp: 2];\nmesh x [ep: 4];\non d { buffer "shared_experts.w"[_ @tp, _]; }\n'
           'on x { buffer "experts.w"[_ @ep, _, _]; }\n',
     infer='mesh d [tp: 4];\nmesh x [ep: 2, r: 2];\non d { buffer "shared_experts.w"[_ @tp, _]; }\n'
           'on x { buffer "experts.w"[_ @ep, _, _]; }\n',
     holds=[{"shared_experts.w": grid(4 * (r % 2), 2, 2), "experts.w": grid(100 + 4 * r, 1, 2, 2)} for r in range(4)],
     wants=[{"shared_experts.w": grid(2 * r, 1, 2), "experts.w": grid(100 + 8 * (r // 2), 2, 2, 2)} for r in range(4)],
     also=names_do_not_matter)

# NVIDIA/Megatron-LM#3944; THUDM/slime#2280: a part that is declared whole is refused before anything runs.
case("a_part_declared_as_the_whole",
     tensors='tensor "w" bf16 [4, 2];\n',
     train='mesh m [tp: 2];\non m { buffer "w"[2, 2]; }\n',
     infer='mesh m [tp: 1];\non m { buffer "w"; }\n',
     refused=["train.layout:3:", "8", "4"])

# PrimeIntellect-ai/prime-rl#3583: slots that moved, and experts with two slots.
EXPERTS = ''.join(f'tensor "x{e}" bf16 [2];\n' for e in range(4))
SLOTS = dict(dtype="bf16", tensors=EXPERTS,
             train='mesh m [ep: 2];\nfor e in 0..4 { on m[ep = e / 2] { buffer "x{e}"; } }\n',
             infer='mesh m [ep: 2];\nlet t = [0, 1, 1, 2, 3, 0];\n'
                   'on m { buffer "w" = stack(s in 0..len(t) @ep, "x{t[s]}"); }\n',
             holds=[{"x0": row(0, 1), "x1": row(10, 11)}, {"x2": row(20, 21), "x3": row(30, 31)}],
             wants=[{"w": row([0, 1], [10, 11], [10, 11])}, {"w": row([20, 21], [30, 31], [0, 1])}])


def a_moved_slot_is_another_plan(tools, fields):
    tools.compile(fields)
    tools.run("reshard", "verify", "plan", "--train", "train.layout", "--infer", "infer.layout", ok=0)
    tools.write("moved.layout", fields["tensors"] + fields["infer"].replace("[0, 1, 1, 2, 3, 0]", "[0, 1, 2, 2, 3, 0]"))
    tools.run("reshard", "verify", "plan", "--train", "train.layout", "--infer", "moved.layout", ok=1)


case("slot_map_with_copies", **SLOTS, also=a_moved_slot_is_another_plan)

# sgl-project/sglang#26015: the shared expert as one more slot of every rank, against five experts cut 3 + 2.
SHARED = dict(dtype="bf16", tensors=EXPERTS + 'tensor "shared" bf16 [2];\n',
              train='mesh m [x: 1];\non m { for e in 0..4 { buffer "x{e}"; } buffer "shared"; }\n',
              holds=[{"x0": row(0, 1), "x1": row(10, 11), "x2": row(20, 21), "x3": row(30, 31), "shared": row(90, 91)}])
case("shared_expert_beside_routed_slots", **SHARED,
     infer='mesh m [ep: 2];\non m { buffer "w" = cat(0, stack(e in 0..4 @ep, "x{e}"), stack(s in 0..1, "shared")); }\n',
     wants=[{"w": row([0, 1], [10, 11], [90, 91])}, {"w": row([20, 21], [30, 31], [90, 91])}])
case("five_experts_cut_unevenly", **SHARED,
     infer='mesh m [ep: 2];\non m { buffer "w" = stack(e in 0..5 @ep:chunk, e < 4 ? "x{e}" : "shared"); }\n',
     wants=[{"w": row([0, 1], [10, 11], [20, 21])}, {"w": row([30, 31], [90, 91])}])

# NVIDIA/Model-Optimizer#2209: a scalar per expert under one name.
case("scalars_of_four_experts_under_one_name",
     tensors='tensor "amax" f32 [];\n',
     train='mesh m [ep: 4];\nfor e in 0..4 { on m[ep = e] { buffer "amax"; } }\n',
     infer='mesh m [x: 1];\non m { buffer "amax"; }\n',
     refused=["train.layout:3:", "amax", "replica"])
case("scalars_with_an_expert_dimension",
     dtype="f32", tensors='tensor "amax" f32 [4];\n',
     train='mesh m [ep: 4];\non m { buffer "amax"[_ @ep]; }\n',
     infer='mesh m [ep: 2];\non m { buffer "amax"[_ @ep]; }\n',
     holds=[{"amax": row(e)} for e in range(4)], wants=[{"amax": row(0, 1)}, {"amax": row(2, 3)}])
case("zero_dimensional",
     dtype="f32", tensors='tensor "s" f32 [];\n',
     train='mesh m [x: 1];\non m { buffer "s"; }\n',
     infer='mesh m [x: 2];\non m { buffer "s"[1]; buffer "t" = "s"; }\n',
     holds=[{"s": grid(5)}], wants=[{"s": row(5), "t": grid(5)}] * 2)

# NVIDIA-NeMo/RL#3565: expert matrices stacked into one, cut along the last dimension.
STACK = dict(tensors='tensor "w0" i32 [2, 3];\ntensor "w1" i32 [2, 3];\n',
             train='mesh m [x: 1];\non m { for e in 0..2 { buffer "w{e}"; } }\n')
case("stack_then_cut_columns", **STACK,
     infer='mesh m [tp: 2];\non m { buffer "w" = stack(e in 0..2, "w{e}"[_, _ @tp:chunk]); }\n',
     holds=[{"w0": grid(0, 2, 3), "w1": grid(10, 2, 3)}],
     wants=[{"w": row([[0, 1], [3, 4]], [[10, 11], [13, 14]])}, {"w": row([[2], [5]], [[12], [15]])}])
case("a_matrix_is_no_stack", **STACK,
     infer='mesh m [tp: 2];\non m { buffer "w" = "w0"[2, 2, 3]; }\n',
     refused=["infer.layout:4:", "6", "12"])

# Fused w13 of stacked experts, over expert and tensor axes together: [expert, gate; up, h].
case("stacked_gate_up_over_ep_and_tp",
     tensors=''.join(f'tensor "{w}{e}" i32 [2, 2];\n' for e in range(2) for w in "gu"),
     train='mesh m [ep: 2];\nfor e in 0..2 { on m[ep = e] { buffer "fc1" = cat(0, "g{e}", "u{e}"); } }\n',
     infer='mesh m [ep: 2, tp: 2];\n'
           'on m { buffer "w13" = stack(e in 0..2 @ep, cat(0, "g{e}"[_ @tp, _], "u{e}"[_ @tp, _])); }\n',
     holds=[{"fc1": join(grid(0, 2, 2), grid(10, 2, 2))}, {"fc1": join(grid(20, 2, 2), grid(30, 2, 2))}],
     wants=[{"w13": row([[0, 1], [10, 11]])}, {"w13": row([[2, 3], [12, 13]])},
            {"w13": row([[20, 21], [30, 31]])}, {"w13": row([[22, 23], [32, 33]])}])


# sgl-project/sglang#8203, #8076; NVIDIA-NeMo/RL#4217: a receiver gets what it wants and no more.
def only_what_is_wanted(plan):
    got = [plan.received(r) for r in range(4)]
    need(got == [32, 32, 32, 32], f"each inference rank receives 8 elements, not {got} bytes")


case("receivers_get_only_their_experts",
     tensors='tensor "l0" i32 [4, 2, 2];\ntensor "l1" i32 [4, 2, 2];\n',
     train='mesh m [x: 1];\non m { for l in 0..2 { buffer "l{l}"; } }\n',
     infer='mesh m [pp: 2, ep: 2];\nfor l in 0..2 { on m[pp = l] { buffer "l{l}"[_ @ep, _, _]; } }\n',
     holds=[{"l0": grid(0, 4, 2, 2), "l1": grid(100, 4, 2, 2)}],
     wants=[{"l0": grid(0, 2, 2, 2)}, {"l0": grid(8, 2, 2, 2)}, {"l1": grid(100, 2, 2, 2)}, {"l1": grid(108, 2, 2, 2)}],
     plan=only_what_is_wanted)
