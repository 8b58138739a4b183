# SPDX-License-Identifier: Apache-2.0
"""Cutting a dimension: uneven, empty, nested, over holes. References are public issues that show the fault."""
from harness import case, grid, need, row


def one_dim(start, stop):
    return {"w": row(*range(start, stop))}


# pytorch/pytorch#103306: padding rows of uneven parts survived the gather.
case("uneven_rows_to_copies",
     tensors='tensor "w" i32 [5, 10];\n',
     train='mesh m [tp: 4];\non m { buffer "w"[_ @tp:chunk, _]; }\n',
     infer='mesh m [dp: 2];\non m { buffer "w"; }\n',
     holds=[{"w": grid(0, 2, 10)}, {"w": grid(20, 2, 10)}, {"w": grid(40, 1, 10)}, {"w": grid(50, 0, 10)}],
     wants=[{"w": grid(0, 5, 10)}, {"w": grid(0, 5, 10)}],
     plan=lambda p: (need(p.messages() == 6, f"{p.messages()} messages"),
                     need(p.json["bytes"]["wanted"] == 400, "100 elements are wanted"),
                     need(p.train(3)["messages"] == 0, "rank 3 holds nothing and sends nothing")))

# pytorch/pytorch#115525: the second cut used the wrong size.
case("two_axes_cut_one_dimension",
     tensors='tensor "w" i32 [5];\n',
     train='mesh m [a: 2, b: 2];\non m { buffer "w"[_ @a:chunk @b:chunk]; }\n',
     infer='mesh m [x: 1];\non m { buffer "w"; }\n',
     holds=[one_dim(0, 2), one_dim(2, 3), one_dim(3, 4), one_dim(4, 5)],
     wants=[one_dim(0, 5)])

# pytorch/pytorch#161368: offsets from one axis at a time claimed slices twice.
case("more_ranks_than_elements_two_axes",
     tensors='tensor "w" i32 [2];\n',
     train='mesh m [a: 2, b: 4];\non m { buffer "w"[_ @a:chunk @b:chunk]; }\n',
     infer='mesh m [x: 1];\non m { buffer "w"; }\n',
     holds=[one_dim(0, 1), one_dim(0, 0), one_dim(0, 0), one_dim(0, 0),
            one_dim(1, 2), one_dim(0, 0), one_dim(0, 0), one_dim(0, 0)],
     wants=[one_dim(0, 2)],
     plan=lambda p: (need(p.messages() == 2, f"{p.messages()} messages"),
                     need([p.sent(r) for r in range(8)] == [4, 0, 0, 0, 4, 0, 0, 0], "ranks 0 and 4 send one element")))

# pytorch/pytorch#150862: an empty part's offset hid a real part. 512 over 30: 28 parts of 18, one of 8, one of none.
case("empty_part_at_the_end",
     tensors='tensor "w" i32 [512];\n',
     train='mesh m [d: 30];\non m { buffer "w"[_ @d:chunk]; }\n',
     infer='mesh m [tp: 2];\non m { buffer "w"[_ @tp]; }\n',
     holds=[one_dim(18 * r, 18 * r + 18) for r in range(28)] + [one_dim(504, 512), one_dim(512, 512)],
     wants=[one_dim(0, 256), one_dim(256, 512)],
     plan=lambda p: need(p.train(29)["messages"] == 0, "rank 29 holds nothing and is in no message"))

# pytorch/pytorch#108869, #121002
case("ten_over_seven_to_ten_over_four",
     tensors='tensor "w" i32 [10];\n',
     train='mesh m [d: 7];\non m { buffer "w"[_ @d:chunk]; }\n',
     infer='mesh m [d: 4];\non m { buffer "w"[_ @d:chunk]; }\n',
     holds=[one_dim(0, 2), one_dim(2, 4), one_dim(4, 6), one_dim(6, 8), one_dim(8, 10), one_dim(10, 10), one_dim(10, 10)],
     wants=[one_dim(0, 3), one_dim(3, 6), one_dim(6, 9), one_dim(9, 10)])

case("six_over_four_reads_back",
     tensors='tensor "w" i32 [6];\n',
     train='mesh m [d: 4];\non m { buffer "w"[_ @d:chunk]; }\n',
     infer='mesh m [d: 4];\non m { buffer "w"[_ @d:balanced]; }\n',
     holds=[one_dim(0, 2), one_dim(2, 4), one_dim(4, 6), one_dim(6, 6)],
     wants=[one_dim(0, 2), one_dim(2, 4), one_dim(4, 5), one_dim(5, 6)])

# pytorch/pytorch#144109, #160533: stated sizes were guessed again. Columns 2+3+4+5 of [2, 14].
case("stated_sizes",
     tensors='tensor "w" i32 [2, 14];\n',
     train='mesh m [tp: 4];\non m { buffer "w"[_, _ @tp:[2, 3, 4, 5]]; }\n',
     infer='mesh m [x: 1];\non m { buffer "w"; }\n',
     holds=[{"w": row([0, 1], [14, 15])}, {"w": row([2, 3, 4], [16, 17, 18])},
            {"w": row([5, 6, 7, 8], [19, 20, 21, 22])}, {"w": row([9, 10, 11, 12, 13], [23, 24, 25, 26, 27])}],
     wants=[{"w": grid(0, 2, 14)}])

# pytorch/pytorch#110762: a global size guessed as local times ranks.
case("stated_sizes_that_do_not_add_up",
     tensors='tensor "w" i32 [10, 2];\n',
     train='mesh m [tp: 4]; on m { buffer "w"[_ @tp:[3, 3, 3, 3], _]; }\n',
     infer='mesh m [x: 1];\non m { buffer "w"; }\n',
     refused=["train.layout:2:", "12", "10"])

case("as_many_sizes_as_coordinates",
     tensors='tensor "w" i32 [10, 2];\n',
     train='mesh m [tp: 4]; on m { buffer "w"[_ @tp:[5, 5], _]; }\n',
     infer='mesh m [x: 1];\non m { buffer "w"; }\n',
     refused=["train.layout:2:", "tp", "2", "4"])

case("uneven_without_a_rule",
     tensors='tensor "w" i32 [10, 2];\n',
     train='mesh m [tp: 4]; on m { buffer "w"[_ @tp, _]; }\n',
     infer='mesh m [x: 1];\non m { buffer "w"; }\n',
     refused=["train.layout:2:", "10", "4", "tp", "chunk"])

# pytorch/pytorch#168134, #163843: cuts nest on real sizes, outer first as written. Ranks are dp * 2 + tp.
case("inner_axis_cuts_first_uneven",
     tensors='tensor "w" i32 [5];\n',
     train='mesh m [dp: 2, tp: 2];\non m { buffer "w"[_ @tp:chunk @dp:chunk]; }\n',
     infer='mesh m [x: 1];\non m { buffer "w"; }\n',
     holds=[one_dim(0, 2), one_dim(3, 4), one_dim(2, 3), one_dim(4, 5)],
     wants=[one_dim(0, 5)])


# pytorch/pytorch#129229, #129206, #130760: the order of the cuts is the meaning.
def swapped_order_differs(tools, fields):
    tools.compile(fields, "one")
    tools.compile(dict(fields, train=fields["train"].replace("@tp:chunk @dp:chunk", "@dp:chunk @tp:chunk")), "two")
    tools.run("reshard", "diff", "one", "two", ok=1)
    tools.run("reshard", "diff", "one", "one", ok=0)


ORDER = dict(tensors='tensor "w" i32 [6];\n',
             infer='mesh m [tp: 2];\non m { buffer "w"[_ @tp]; }\n',
             wants=[one_dim(0, 3), one_dim(3, 6)])
case("tp_then_dp", **ORDER,
     train='mesh m [dp: 2, tp: 2];\non m { buffer "w"[_ @tp:chunk @dp:chunk]; }\n',
     holds=[one_dim(0, 2), one_dim(3, 5), one_dim(2, 3), one_dim(5, 6)],
     also=swapped_order_differs)
case("dp_then_tp", **ORDER,
     train='mesh m [dp: 2, tp: 2];\non m { buffer "w"[_ @dp:chunk @tp:chunk]; }\n',
     holds=[one_dim(0, 2), one_dim(2, 3), one_dim(3, 5), one_dim(5, 6)])


# Ranks of an uneven cut have shapes of their own, and the page says each.
def each_shape_is_told(tools, fields):
    tools.compile(fields, "one")
    tools.compile(dict(fields, train=fields["train"].replace("chunk", "[1, 4]")), "two")
    page = tools.run("reshard", "diff", "one", "two", ok=1).stdout
    need("w i32 [3] -> i32 [1], rank 0" in page and "w i32 [2] -> i32 [4], rank 1" in page, page)


case("other_uneven_sizes",
     tensors='tensor "w" i32 [5];\n',
     train='mesh m [x: 2];\non m { buffer "w"[_ @x:chunk]; }\n',
     infer='mesh m [x: 1];\non m { buffer "w"; }\n',
     holds=[one_dim(0, 3), one_dim(3, 5)],
     wants=[one_dim(0, 5)],
     also=each_shape_is_told)

# huggingface/transformers#48237: ranks that hold none of the rows take part with nothing to do.
case("ranks_with_no_rows",
     dtype="bf16",
     tensors='tensor "w" bf16 [8, 3];\n',
     train='mesh m [ep: 2, fsdp: 3];\non m { buffer "w"[_ @ep @fsdp:chunk, _]; }\n',
     infer='mesh m [x: 1];\non m { buffer "w"; }\n',
     holds=[{"w": grid(0, 2, 3)}, {"w": grid(6, 2, 3)}, {"w": grid(0, 0, 3)},
            {"w": grid(12, 2, 3)}, {"w": grid(18, 2, 3)}, {"w": grid(0, 0, 3)}],
     wants=[{"w": grid(0, 8, 3)}],
     plan=lambda p: need(p.train(2)["messages"] == 0 and p.train(5)["messages"] == 0, "ranks 2 and 5 do nothing"))

# pytorch/pytorch#163480: a rank without a part is no missing name.
case("one_row_over_many_ranks",
     dtype="bf16",
     tensors='tensor "w" bf16 [1, 3];\n',
     train='mesh m [tp: 4];\non m { buffer "w"[_ @tp:chunk, _]; }\n',
     infer='mesh m [tp: 2];\non m { buffer "w"[_ @tp:chunk, _]; }\n',
     holds=[{"w": grid(0, 1, 3)}, {"w": grid(0, 0, 3)}, {"w": grid(0, 0, 3)}, {"w": grid(0, 0, 3)}],
     wants=[{"w": grid(0, 1, 3)}, {"w": grid(0, 0, 3)}],
     plan=lambda p: (need(p.messages() == 1 and p.sent(0) == 6, "one message of 3 elements"),
                     need(p.infer(1)["messages"] == 0, "inference rank 1 receives nothing")))

# NVIDIA/Megatron-LM#2486: copies that are not used own nothing, and that is fine.
case("more_holders_than_needed",
     dtype="bf16",
     tensors='tensor "w" bf16 [8];\n',
     train='mesh m [dp: 2, tp: 2];\non m { buffer "w"[_ @tp]; }\n',
     infer='mesh m [tp: 4];\non m { buffer "w"[_ @tp]; }\n',
     holds=[one_dim(0, 4), one_dim(4, 8), one_dim(0, 4), one_dim(4, 8)],
     wants=[one_dim(0, 2), one_dim(2, 4), one_dim(4, 6), one_dim(6, 8)])

# NVIDIA/Fuser#5956: ranks outside the mesh hold nothing and carry nothing.
case("ranks_outside_the_mesh",
     tensors='tensor "w" i32 [4];\n',
     train='world 6;\nmesh m [tp: 2] ranks 1, 4;\non m { buffer "w"[_ @tp]; }\n',
     infer='world 6;\nmesh m [tp: 2] ranks 0, 5;\non m { buffer "w"[_ @tp]; }\n',
     holds=[None, one_dim(0, 2), None, None, one_dim(2, 4), None],
     wants=[one_dim(0, 2), None, None, None, None, one_dim(2, 4)],
     plan=lambda p: (need(p.json["world"] == 12 or len(p.ranks) == 12, "12 processes take part"),
                     need(all(p.train(r)["messages"] == 0 for r in (0, 2, 3, 5)), "idle training ranks"),
                     need(p.messages() == 2, "1 -> 0 and 4 -> 5")))

# NVIDIA/nccl#696, #695, #345, #1593; ROCm/rccl#1349; horovod/horovod#2273: nothing of size zero is sent.
case("zero_sized_tensor_and_empty_parts",
     dtype="bf16",
     tensors='tensor "z" bf16 [0, 8];\ntensor "w" bf16 [3, 3];\n',
     train='mesh m [tp: 4];\non m { buffer "z"[_ @tp, _]; buffer "w"[_ @tp:chunk, _]; }\n',
     infer='mesh m [tp: 4];\non m { buffer "z"[_, _ @tp]; buffer "w"[_, _ @tp:chunk]; }\n',
     holds=[{"z": grid(0, 0, 8), "w": grid(0, 1, 3)}, {"z": grid(0, 0, 8), "w": grid(3, 1, 3)},
            {"z": grid(0, 0, 8), "w": grid(6, 1, 3)}, {"z": grid(0, 0, 8), "w": grid(0, 0, 3)}],
     wants=[{"z": grid(0, 0, 2), "w": row([0], [3], [6])}, {"z": grid(0, 0, 2), "w": row([1], [4], [7])},
            {"z": grid(0, 0, 2), "w": row([2], [5], [8])}, {"z": grid(0, 0, 2), "w": grid(0, 3, 0)}],
     plan=lambda p: (need(p.messages() == 9, f"{p.messages()} messages"),
                     need(p.train(3)["messages"] == 0 and p.infer(3)["messages"] == 0, "empty ranks are in no message")))

# microsoft/ltp-megatron-lm#29: a flat cut that falls in the middle of rows.
case("flat_cut_mid_row",
     tensors='tensor "w" i32 [3, 4];\n',
     train='mesh m [d: 5];\non m { buffer "w"[12 @d:chunk]; }\n',
     infer='mesh m [tp: 3];\non m { buffer "w"[_ @tp, _]; }\n',
     holds=[one_dim(0, 3), one_dim(3, 6), one_dim(6, 9), one_dim(9, 12), one_dim(12, 12)],
     wants=[{"w": grid(0, 1, 4)}, {"w": grid(4, 1, 4)}, {"w": grid(8, 1, 4)}])

# A flat buffer over several tensors, padded, cut wherever it falls: [a 6 | b 3 | pad 1] over 2 ranks.
case("flat_cut_across_tensors",
     tensors='tensor "a" i32 [2, 3];\ntensor "b" i32 [3];\n',
     train='mesh m [d: 2];\non m { buffer "flat" = cat(0, "a"[6], "b")[pad(9, 10) @d]; }\n',
     infer='mesh m [tp: 3];\non m { buffer "a"[_, _ @tp]; buffer "b"; }\n',
     holds=[{"flat": row(0, 1, 2, 3, 4)}, {"flat": row(5, 100, 101, 102, -1)}],
     wants=[{"a": row([0], [3]), "b": row(100, 101, 102)}, {"a": row([1], [4]), "b": row(100, 101, 102)},
            {"a": row([2], [5]), "b": row(100, 101, 102)}])

# Every rule on seven elements over three ranks.
for rule, parts in [("chunk", [[0, 1, 2], [3, 4, 5], [6]]), ("balanced", [[0, 1, 2], [3, 4], [5, 6]]),
                    ("[1, 0, 6]", [[0], [], [1, 2, 3, 4, 5, 6]]), ("cyclic", [[0, 3, 6], [1, 4], [2, 5]]),
                    ("cyclic(2)", [[0, 1, 6], [2, 3], [4, 5]]), ("padded", [[0, 1, 2], [3, 4, 5], [6, -1, -1]]),
                    ("each([3, 2, 2], [1, [2, 1], [1, 2]])", [[0, 3, 5], [1, 3, 6], [2, 4, 6]])]:
    case(f"rule_{rule}",
         tensors='tensor "w" i32 [7];\n',
         train=f'mesh m [d: 3];\non m {{ buffer "w"[_ @d:{rule}]; }}\n',
         infer=f'mesh m [x: 1];\non m {{ buffer "w"; }}\n',
         holds=[{"w": row(*ids)} for ids in parts],
         wants=[one_dim(0, 7)])
    case(f"rule_{rule}_wanted",
         tensors='tensor "w" i32 [7];\n',
         train='mesh m [d: 7];\non m { buffer "w"[_ @d]; }\n',
         infer=f'mesh m [d: 3];\non m {{ buffer "w"[_ @d:{rule}]; }}\n',
         holds=[one_dim(i, i + 1) for i in range(7)],
         wants=[{"w": row(*ids)} for ids in parts])
