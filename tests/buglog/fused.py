# SPDX-License-Identifier: Apache-2.0
"""Fused matrices, heads, sections, transposes. References are public issues that show the fault."""
from harness import P, case, grid, join, need, row

# ai-dynamo/modelexpress#639, #650: fewer kv heads than training ranks. 8 query heads, 2 kv heads, head size 2: 24 rows
# stored as q q q q k v per kv group and cut evenly by 3, in the middle of a head.
QKV = dict(
    tensors='tensor "q" i32 [16];\ntensor "k" i32 [4];\ntensor "v" i32 [4];\n',
    train='mesh m [tp: 8];\non m { buffer "qkv" = cat(1, "q"[2, 8], "k"[2, 2], "v"[2, 2])[24 @tp]; }\n',
    holds=[{"qkv": row(0, 1, 2)}, {"qkv": row(3, 4, 5)}, {"qkv": row(6, 7, 100)}, {"qkv": row(101, 200, 201)},
           {"qkv": row(8, 9, 10)}, {"qkv": row(11, 12, 13)}, {"qkv": row(14, 15, 102)}, {"qkv": row(103, 202, 203)}])
case("cut_inside_a_head", **QKV,
     infer='mesh m [tp: 2];\non m { buffer "qkv" = cat(0, "q"[_ @tp], "k"[_ @tp], "v"[_ @tp]); }\n',
     wants=[{"qkv": row(0, 1, 2, 3, 4, 5, 6, 7, 100, 101, 200, 201)},
            {"qkv": row(8, 9, 10, 11, 12, 13, 14, 15, 102, 103, 202, 203)}])
case("cut_inside_a_head_to_shared_kv", **QKV,
     infer='mesh m [tp: 4];\n'
           'on m { buffer "qkv" = cat(0, "q"[_ @tp], "k"[_ @tp:share(2)], "v"[_ @tp:share(2)]); }\n',
     wants=[{"qkv": row(0, 1, 2, 3, 100, 101, 200, 201)}, {"qkv": row(4, 5, 6, 7, 100, 101, 200, 201)},
            {"qkv": row(8, 9, 10, 11, 102, 103, 202, 203)}, {"qkv": row(12, 13, 14, 15, 102, 103, 202, 203)}])

# alibaba/ChatLearn#277: one training rank feeds several inference ranks. 4 groups of q, k, v with head size 1.
case("groups_to_single_heads",
     tensors='tensor "q" i32 [4];\ntensor "k" i32 [4];\ntensor "v" i32 [4];\n',
     train='mesh m [tp: 2];\non m { buffer "qkv" = cat(1, "q"[4, 1], "k"[4, 1], "v"[4, 1])[12 @tp]; }\n',
     infer='mesh m [tp: 4];\non m { for n in ["q", "k", "v"] { buffer "{n}"[_ @tp]; } }\n',
     holds=[{"qkv": row(0, 100, 200, 1, 101, 201)}, {"qkv": row(2, 102, 202, 3, 103, 203)}],
     wants=[{"q": row(0), "k": row(100), "v": row(200)}, {"q": row(1), "k": row(101), "v": row(201)},
            {"q": row(2), "k": row(102), "v": row(202)}, {"q": row(3), "k": row(103), "v": row(203)}])

# sgl-project/sglang#20967: half a head per rank. Two kv heads of 4, copied twice.
KNORM = dict(dtype="f32", tensors='tensor "knorm" f32 [8];\n', train='mesh m [tp: 1];\non m { buffer "knorm"; }\n')
case("norm_of_shared_heads", **KNORM,
     infer='mesh m [tp: 4];\non m { buffer "knorm"[_ @tp:share(2)]; }\n',
     holds=[{"knorm": grid(0, 8)}],
     wants=[{"knorm": row(0, 1, 2, 3)}, {"knorm": row(0, 1, 2, 3)}, {"knorm": row(4, 5, 6, 7)}, {"knorm": row(4, 5, 6, 7)}])
case("norm_of_half_a_head", **KNORM,
     infer='mesh m [tp: 4];\non m { buffer "knorm"[2 @tp, 4]; }\n',
     refused=["infer.layout:3:", "tp", "2", "4", "share"])
case("shares_must_fill_the_axis", **KNORM,
     infer='mesh m [tp: 4];\non m { buffer "knorm"[_ @tp:share(3)]; }\n',
     refused=["infer.layout:3:", "share", "3", "4"])

# huggingface/transformers#47811: 4 rows on 4 ranks divide, 2 heads do not.
KV = dict(dtype="bf16", tensors='tensor "k" bf16 [4, 3];\n', train='mesh m [tp: 1];\non m { buffer "k"; }\n')
case("divisible_rows_split_heads", **KV,
     infer='mesh m [tp: 4];\non m { buffer "k"[2 @tp, 2, _]; }\n',
     refused=["infer.layout:3:", "tp", "2", "4"])
case("heads_copied_to_neighbours", **KV,
     infer='mesh m [tp: 4];\non m { buffer "k"[2 @tp:share(2), 2, 3]; }\n',
     holds=[{"k": grid(0, 4, 3)}],
     wants=[{"k": grid(0, 1, 2, 3)}, {"k": grid(0, 1, 2, 3)}, {"k": grid(6, 1, 2, 3)}, {"k": grid(6, 1, 2, 3)}])
case("uneven_shares", **KV,
     infer='mesh m [tp: 3];\non m { buffer "k"[_ @tp:share([1, 2]), _]; }\n',
     holds=[{"k": grid(0, 4, 3)}],
     wants=[{"k": grid(0, 2, 3)}, {"k": grid(6, 2, 3)}, {"k": grid(6, 2, 3)}])

# pytorch/torchtitan#4535: 2F = 6 divides by 2, F = 3 does not.
GLU = dict(dtype="bf16", tensors='tensor "g" bf16 [3, 4];\ntensor "u" bf16 [3, 4];\n',
           train='mesh m [x: 1];\non m { buffer "g"; buffer "u"; }\n')
case("odd_halves", **GLU,
     infer='mesh m [tp: 2];\non m { buffer "gu" = cat(0, "g"[_ @tp, _], "u"[_ @tp, _]); }\n',
     refused=["infer.layout:4:", "3", "2", "tp"])
case("odd_halves_with_a_rule", **GLU,
     infer='mesh m [tp: 2];\non m { buffer "gu" = cat(0, "g"[_ @tp:chunk, _], "u"[_ @tp:chunk, _]); }\n',
     holds=[{"g": grid(0, 3, 4), "u": grid(50, 3, 4)}],
     wants=[{"gu": join(grid(0, 2, 4), grid(50, 2, 4))}, {"gu": join(grid(8, 1, 4), grid(58, 1, 4))}])

# tenstorrent/tt-metal#52818: an even cut of a stored [Q|K|V] against a cut of each section.
case("even_cut_to_sections",
     tensors='tensor "qkv" i32 [6, 1];\n',
     train='mesh m [tp: 2];\non m { buffer "qkv"[_ @tp, _]; }\n',
     infer='mesh m [tp: 2];\non m { buffer "qkv"[_ @tp:each([2, 2, 2]), _]; }\n',
     holds=[{"qkv": grid(0, 3, 1)}, {"qkv": grid(3, 3, 1)}],
     wants=[{"qkv": row([0], [2], [4])}, {"qkv": row([1], [3], [5])}])

# NVIDIA/Megatron-LM#4841: a few rows after the fused block, cut on their own.
case("tail_rows_after_the_block",
     tensors='tensor "w" i32 [10];\n',
     train='mesh m [tp: 2];\non m { buffer "w"[_ @tp:each([8, 2])]; }\n',
     infer='mesh m [tp: 1];\non m { buffer "w"; }\n',
     holds=[{"w": row(0, 1, 2, 3, 8)}, {"w": row(4, 5, 6, 7, 9)}],
     wants=[{"w": grid(0, 10)}])
case("sections_that_do_not_add_up",
     tensors='tensor "w" i32 [10];\n',
     train='mesh m [tp: 2];\non m { buffer "w"[_ @tp:each([8, 4])]; }\n',
     infer='mesh m [tp: 1];\non m { buffer "w"; }\n',
     refused=["train.layout:3:", "12", "10"])

# ROCm/Megatron-LM#63: per-rank [gate; up] glued as if it were one matrix.
FC1 = dict(tensors='tensor "g" i32 [4];\ntensor "u" i32 [4];\n',
           train='mesh m [tp: 4];\non m { buffer "fc1" = cat(0, "g"[_ @tp], "u"[_ @tp]); }\n',
           holds=[{"fc1": row(r, 100 + r)} for r in range(4)])
case("gate_up_four_to_two", **FC1,
     infer='mesh m [tp: 2];\non m { buffer "fc1" = cat(0, "g"[_ @tp], "u"[_ @tp]); }\n',
     wants=[{"fc1": row(0, 1, 100, 101)}, {"fc1": row(2, 3, 102, 103)}])
case("gate_up_four_to_one", **FC1,
     infer='mesh m [tp: 1];\non m { buffer "fc1" = cat(0, "g"[_ @tp], "u"[_ @tp]); }\n',
     wants=[{"fc1": row(0, 1, 2, 3, 100, 101, 102, 103)}])
case("gate_up_one_to_four",
     tensors=FC1["tensors"],
     train='mesh m [tp: 1];\non m { buffer "fc1" = cat(0, "g", "u"); }\n',
     infer='mesh m [tp: 4];\non m { buffer "fc1" = cat(0, "g"[_ @tp], "u"[_ @tp]); }\n',
     holds=[{"fc1": row(0, 1, 2, 3, 100, 101, 102, 103)}],
     wants=[{"fc1": row(r, 100 + r)} for r in range(4)])

# areal-project/AReaL#1372; NVIDIA-NeMo/Megatron-Bridge#655: sections z4 x4 b2 c2 dt2 of a Mamba in_proj.
IN_PROJ = dict(tensors='tensor "ip" i32 [14];\n')
SECTIONS = [{"ip": row(0, 1, 4, 5, 8, 10, 12)}, {"ip": row(2, 3, 6, 7, 9, 11, 13)}]
case("mamba_sections_to_one", **IN_PROJ,
     train='mesh m [tp: 2];\non m { buffer "ip"[_ @tp:each([4, 4, 2, 2, 2])]; }\n',
     infer='mesh m [tp: 1];\non m { buffer "ip"; }\n',
     holds=SECTIONS, wants=[{"ip": grid(0, 14)}])
case("mamba_sections_from_one", **IN_PROJ,
     train='mesh m [tp: 1];\non m { buffer "ip"; }\n',
     infer='mesh m [tp: 2];\non m { buffer "ip"[_ @tp:each([4, 4, 2, 2, 2])]; }\n',
     holds=[{"ip": grid(0, 14)}], wants=SECTIONS)
# One group of B and C for both ranks: they are held whole.
case("mamba_sections_with_a_shared_group",
     tensors='tensor "ip" i32 [12];\n',
     train='mesh m [tp: 1];\non m { buffer "ip"; }\n',
     infer='mesh m [tp: 2];\non m { buffer "ip"[_ @tp:each([4, 4, 1, 1, 2], [1, 1, 2, 2, 1])]; }\n',
     holds=[{"ip": grid(0, 12)}],
     wants=[{"ip": row(0, 1, 4, 5, 8, 9, 10)}, {"ip": row(2, 3, 6, 7, 8, 9, 11)}])

# NVIDIA-NeMo/Megatron-Bridge#655: permuted, then cut. q k v as [3, H, D] against [H, 3, D].
case("permute_then_cut",
     tensors='tensor "w" i32 [3, 4, 2];\n',
     train='mesh m [tp: 2];\non m { buffer "w" = permute("w", 1, 0, 2)[_ @tp, _, _]; }\n',
     infer='mesh m [tp: 1];\non m { buffer "w"; }\n',
     holds=[{"w": row([[0, 1], [8, 9], [16, 17]], [[2, 3], [10, 11], [18, 19]])},
            {"w": row([[4, 5], [12, 13], [20, 21]], [[6, 7], [14, 15], [22, 23]])}],
     wants=[{"w": grid(0, 3, 4, 2)}])

# vllm-project/vllm#41689: the orientation of a square matrix is said, never guessed.
SQUARE = dict(tensors='tensor "w" i32 [4, 4];\n', train='mesh m [x: 1];\non m { buffer "w"; }\n',
              holds=[{"w": grid(0, 4, 4)}])
case("square_transposed", **SQUARE,
     infer='mesh m [x: 1];\non m { buffer "w" = permute("w", 1, 0); }\n',
     wants=[{"w": row([0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15])}])
case("square_as_it_is", **SQUARE,
     infer='mesh m [x: 1];\non m { buffer "w"; }\n', wants=[{"w": grid(0, 4, 4)}])

# verl-project/verl#4876: a dimension to cut is never found from sizes.
case("a_local_shape_that_does_not_fit",
     tensors='tensor "w" i32 [4, 4];\n',
     train='mesh m [tp: 2];\non m { buffer "w"[_, _ @tp]; }\n',
     infer='mesh m [tp: 2];\non m { buffer "w"[2, 2]; }\n',
     refused=["infer.layout:3:", "16", "4"])

# pytorch/pytorch#62283; vllm-project/vllm#50641, #57130; radixark/miles#1608: strided memory sent as if it were flat.
case("column_major_source",
     tensors='tensor "w" i32 [4, 4];\n',
     train='mesh m [x: 1];\non m { buffer "w" = permute("w", 1, 0); }\n',
     infer='mesh m [x: 1];\non m { buffer "w"; }\n',
     holds=[{"w": row([0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15])}],
     wants=[{"w": grid(0, 4, 4)}])
case("rows_with_a_pitch",
     tensors='tensor "w" i32 [3, 2];\n',
     train='mesh m [x: 1];\non m { buffer "w" = cat(1, "w", gap(3, 1)); }\n',
     infer='mesh m [x: 1];\non m { buffer "w" = cat(1, gap(3, 2), "w"); }\n',
     holds=[{"w": row([0, 1, P], [2, 3, P], [4, 5, P])}],
     wants=[{"w": row([P, P, 0, 1], [P, P, 2, 3], [P, P, 4, 5])}])
# nvidia-cosmos/cosmos-rl#742: one element, any stride.
case("one_element_with_a_stride",
     dtype="i64",
     tensors='tensor "w" i64 [1];\n',
     train='mesh m [x: 1];\non m { buffer "w" = cat(0, "w", gap(7)); }\n',
     infer='mesh m [x: 1];\non m { buffer "w"; }\n',
     holds=[{"w": row(5, P, P, P, P, P, P, P)}], wants=[{"w": row(5)}])


# pytorch/torchtitan#4706: taking fused weights apart needs memory for staging only, however many there are.
def staging_does_not_grow(tools, fields):
    peaks = []
    for count in (16, 64):
        layout = dict(
            tensors=''.join(f'tensor "{w}{i}" bf16 [8, 4];\n' for i in range(count) for w in "gu"),
            train=f'mesh m [tp: 2];\non m {{ for i in 0..{count} {{ buffer "gu{{i}}" = '
                  'cat(0, "g{i}"[_ @tp, _], "u{i}"[_ @tp, _]); } }\n',
            infer=f'mesh m [tp: 1];\non m {{ for i in 0..{count} {{ buffer "g{{i}}"; buffer "u{{i}}"; }} }}\n',
            options=["--staging", "2KiB"])
        peaks.append(max(r["staging"] for r in tools.compile(layout).ranks))
    need(max(peaks) <= 2048, f"staging {peaks} above the limit of 2048")


case("taking_apart_stays_within_staging", also=staging_does_not_grow)
