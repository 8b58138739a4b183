# SPDX-License-Identifier: Apache-2.0
"""Vocabulary padding and tied weights. References are public issues that show the fault."""
from harness import P, case, grid, join, need, row


def pads(rows, columns):
    return grid(0, rows, columns) * 0 + P


# NVIDIA-NeMo/Megatron-Bridge#5353: a global size is not multiplied by TP again.
case("global_rows_are_cut_once",
     tensors='tensor "e" i32 [8, 2];\n',
     train='mesh m [x: 1];\non m { buffer "e"; }\n',
     infer='mesh m [tp: 2];\non m { buffer "e"[_ @tp, _]; }\n',
     holds=[{"e": grid(0, 8, 2)}],
     wants=[{"e": grid(0, 4, 2)}, {"e": grid(8, 4, 2)}])

# marin-community/marin#2458; epfLLM/Megatron-LLM#103: the sides disagree about the vocabulary.
case("vocabularies_of_two_sizes",
     train='tensor "e" bf16 [10, 2];\nmesh m [x: 1];\non m { buffer "e"; }\n',
     infer='tensor "e" bf16 [12, 2];\nmesh m [x: 1];\non m { buffer "e"; }\n',
     refused=["train.layout:1:", "infer.layout:1:", "e", "10", "12"])
case("padding_becomes_zero",
     dtype="bf16", tensors='tensor "e" bf16 [10, 2];\n',
     train='mesh m [x: 1];\non m { buffer "e"; }\n',
     infer='mesh m [x: 1];\non m { buffer "e"[pad(_, 12), _]; }\n',
     holds=[{"e": grid(0, 10, 2)}],
     wants=[{"e": join(grid(0, 10, 2), pads(2, 2))}])

# vllm-project/vllm#12230: padded differently on both sides; a padding row of the source goes nowhere.
case("padding_differs_between_sides",
     dtype="bf16", tensors='tensor "e" bf16 [9, 2];\n',
     train='mesh m [tp: 2];\non m { buffer "e"[pad(9, 10) @tp, _]; }\n',
     infer='mesh m [tp: 4];\non m { buffer "e"[pad(9, 12) @tp, _]; }\n',
     holds=[{"e": grid(0, 5, 2)}, {"e": join(grid(10, 4, 2), pads(1, 2))}],
     wants=[{"e": grid(0, 3, 2)}, {"e": grid(6, 3, 2)}, {"e": grid(12, 3, 2)}, {"e": pads(3, 2)}])
case("padded_rule_on_both_sides",
     dtype="bf16", tensors='tensor "e" bf16 [9, 2];\n',
     train='mesh m [tp: 2];\non m { buffer "e"[_ @tp:padded, _]; }\n',
     infer='mesh m [tp: 2];\non m { buffer "e"[_ @tp:padded(4), _]; }\n',  # to a multiple of 4 * 2: 16
     holds=[{"e": grid(0, 5, 2)}, {"e": join(grid(10, 4, 2), pads(1, 2))}],
     wants=[{"e": grid(0, 8, 2)}, {"e": join(grid(16, 1, 2), pads(7, 2))}])

# vllm-project/vllm#20843: embedding and head of one vocabulary, each padded in its own way.
case("embedding_and_head_padded_apart",
     tensors='tensor "e" i32 [11];\n',
     train='mesh m [x: 1];\non m { buffer "e"; }\n',
     infer='mesh m [tp: 2];\non m { buffer "embed" = "e"[pad(_, 12) @tp]; buffer "head" = "e"[pad(_, 16) @tp]; }\n',
     holds=[{"e": grid(0, 11)}],
     wants=[{"embed": grid(0, 6), "head": grid(0, 8)},
            {"embed": row(6, 7, 8, 9, 10, P), "head": row(8, 9, 10, P, P, P, P, P)}])

# vllm-project/vllm#56689: the tied name was sent once, so the last stage kept its old head.
TIED = dict(dtype="bf16", tensors='tensor "embed" bf16 [6, 2];\n',
            infer='mesh m [pp: 2, tp: 2];\non m[pp = 0] { buffer "embed"[_ @tp, _]; }\n'
                  'on m[pp = 1] { buffer "head" = "embed"[_ @tp, _]; }\n',
            wants=[{"embed": grid(0, 3, 2)}, {"embed": grid(6, 3, 2)}, {"head": grid(0, 3, 2)}, {"head": grid(6, 3, 2)}])
case("tied_head_on_the_last_stage", **TIED,
     train='mesh m [tp: 2];\non m { buffer "embed"[_ @tp, _]; }\n',
     holds=[{"embed": grid(0, 3, 2)}, {"embed": grid(6, 3, 2)}])

# sgl-project/sglang#15890, #6908: only the first training stage holds the embedding.
case("embedding_on_the_first_stage_only", **TIED,
     train='mesh m [pp: 2, tp: 2];\non m[pp = 0] { buffer "embed"[_ @tp, _]; }\n',
     holds=[{"embed": grid(0, 3, 2)}, {"embed": grid(6, 3, 2)}, None, None])
case("a_head_without_a_source",
     train='tensor "embed" bf16 [6, 2];\nmesh m [x: 1];\non m { buffer "embed"; }\n',
     infer='tensor "embed" bf16 [6, 2];\ntensor "head" bf16 [6, 2];\nmesh m [x: 1];\n'
           'on m { buffer "embed"; buffer "head"; }\n',
     refused=["infer.layout:4:", "head"])

# PrimeIntellect-ai/prime-rl#2823; vllm-project/vllm#51665: a head that is storage of its own is written every time, one
# that is the same buffer is written once.
case("two_buffers_of_one_tensor",
     tensors='tensor "embed" i32 [3];\n',
     train='mesh m [x: 1];\non m { buffer "embed"; }\n',
     infer='mesh m [x: 1];\non m { buffer "embed"; buffer "head" = "embed"; }\n',
     holds=[{"embed": row(7, 8, 9)}],
     wants=[{"embed": row(7, 8, 9), "head": row(7, 8, 9)}],
     plan=lambda p: need(p.json["bytes"]["wanted"] == 24, "both buffers are written"))
case("one_buffer_is_written_once",
     tensors='tensor "embed" i32 [3];\n',
     train='mesh m [x: 1];\non m { buffer "embed"; }\n',
     infer='mesh m [x: 1];\non m { buffer "embed"; }\n',
     holds=[{"embed": row(7, 8, 9)}], wants=[{"embed": row(7, 8, 9)}],
     plan=lambda p: need(p.json["bytes"]["wanted"] == 12 and p.received(0) == 12, "the buffer is written once"))

# A column of padding: one element of each row, cleared row by row.
case("padding_of_columns",
     tensors='tensor "e" i32 [3, 3];\n',
     train='mesh m [x: 1];\non m { buffer "e"; }\n',
     infer='mesh m [x: 1];\non m { buffer "e"[_, pad(_, 4)]; }\n',
     holds=[{"e": grid(0, 3, 3)}], wants=[{"e": row([0, 1, 2, P], [3, 4, 5, P], [6, 7, 8, P])}])

# NVIDIA-NeMo/RL#2471: the shared embedding is on two stages.
TWO = dict(dtype="bf16", tensors='tensor "embed" bf16 [4, 2];\n',
           infer='mesh m [x: 1];\non m { buffer "embed"; }\n')
case("embedding_on_two_stages_is_a_replica", **TWO,
     train='mesh m [pp: 2];\non m[pp = 0] { buffer "embed"; }\non m[pp = 1] { buffer "head" = replica "embed"; }\n',
     holds=[{"embed": grid(0, 4, 2)}, {"head": grid(0, 4, 2)}], wants=[{"embed": grid(0, 4, 2)}],
     plan=lambda p: need(p.sent(0) + p.sent(1) == 16 and p.received(0) == 16, "one source per byte"))
case("embedding_on_two_stages_unsaid", **TWO,
     train='mesh m [pp: 2];\non m[pp = 0] { buffer "embed"; }\non m[pp = 1] { buffer "head" = "embed"; }\n',
     refused=["train.layout:3:", "train.layout:4:", "embed", "replica"])
