# SPDX-License-Identifier: Apache-2.0
"""Sizes past 2^31, pieces past the staging limit. References are public issues that show the fault."""
from harness import case, grid, need, row

SOURCE = 'mesh m [x: 1];\non m { buffer "w"; }\n'


def expect(total, parts):
    def checks(plan):
        got = [plan.received(r) for r in range(len(parts))]
        need(got == parts, f"received {got}, expected {parts}")
        need(plan.sent(0) == total and plan.json["bytes"]["wanted"] == total, f"{plan.sent(0)} of {total} bytes sent")
    return checks


# NVIDIA/TransformerEngine#2918: 2,476,250,368 elements.
case("more_than_2_31_elements",
     tensors='tensor "w" bf16 [19345706, 128];\n', train=SOURCE,
     infer='mesh m [tp: 2];\non m { buffer "w"[_ @tp, _]; }\n',
     plan=expect(4952500736, [2476250368, 2476250368]))

# microsoft/onnxruntime#28108: offsets past 2^31 bytes.
case("offsets_past_2_31_bytes",
     tensors='tensor "w" u8 [262144, 8960];\n', train=SOURCE,
     infer='mesh m [tp: 8];\non m { buffer "w"[_ @tp, _]; }\n', plan=expect(2348810240, [293601280] * 8))
case("offsets_past_2_32_bytes",
     tensors='tensor "w" bf16 [262144, 8960];\n', train=SOURCE,
     infer='mesh m [tp: 8];\non m { buffer "w"[_ @tp, _]; }\n', plan=expect(4697620480, [587202560] * 8))

# pytorch/pytorch#104297; NVIDIA/nccl#184: a total past 2^32.
case("a_total_of_4_gib",
     tensors=''.join(f'tensor "w{i}" u8 [1073741824];\n' for i in range(4)),
     train='mesh m [x: 1];\non m { for i in 0..4 { buffer "w{i}"; } }\n',
     infer='mesh m [x: 1];\non m { for i in 0..4 { buffer "w{i}"; } }\n', plan=expect(4294967296, [4294967296]))

# ml-explore/mlx#4548: few elements, long reach.
case("columns_that_reach_past_2_31",
     tensors='tensor "w" u8 [3, 1073741824];\n', train=SOURCE,
     infer='mesh m [tp: 8];\non m { buffer "w"[_, _ @tp]; }\n', plan=expect(3221225472, [402653184] * 8))

# A dimension of 2^40 and 2^33 elements plan without being allocated.
case("elements_past_2_33",
     tensors='tensor "w" bf16 [131072, 65536];\n',
     train='mesh m [tp: 16];\non m { buffer "w"[_ @tp, _]; }\n',
     infer='mesh m [tp: 32];\non m { buffer "w"[_, _ @tp]; }\n',
     plan=lambda p: need(p.json["bytes"]["wanted"] == 1 << 34 and p.received(31) == 1 << 29, "2^34 bytes in all"))
case("elements_past_2_63",
     tensors='tensor "w" u8 [4294967296, 4294967296];\n', train=SOURCE, infer=SOURCE,
     refused=["RS0074"])

# verl-project/verl#5952; radixark/miles#1313: one tensor larger than the bucket.
for infer, wanted in (("_ @tp, _", [{"w": grid(0, 32, 2)}, {"w": grid(64, 32, 2)}]),
                      ("_, _ @tp", [{"w": row(*[[2 * r] for r in range(64)])}, {"w": row(*[[2 * r + 1] for r in range(64)])}])):
    case(f"larger_than_staging [{infer}]",
         dtype="bf16", tensors='tensor "w" bf16 [64, 2];\n', train='mesh m [x: 1];\non m { buffer "w"; }\n',
         infer=f'mesh m [tp: 2];\non m {{ buffer "w"[{infer}]; }}\n', options=["--staging", "64"],
         holds=[{"w": grid(0, 64, 2)}], wants=wanted,
         plan=lambda p: need(max(r["staging"] for r in p.ranks) <= 64, "staging is above 64 bytes"))


def staging_below_an_element(tools, fields):
    done = tools.run("reshardc", *tools.layouts(fields), "-o", "plan", "--staging", "1")
    need(done.returncode in (1, 2) and "staging" in done.stderr, f"exit {done.returncode}: {done.stderr}")
    need(not (tools.dir / "plan").exists(), "a plan was left")


case("staging_below_an_element", tensors='tensor "w" f64 [4, 4];\n', train=SOURCE,
     infer='mesh m [tp: 2];\non m { buffer "w"[_, _ @tp]; }\n', also=staging_below_an_element)

# Odd sizes, for copies that want to be wide: ggml-org/llama.cpp#18799; openucx/ucc#1313; tile-ai/tilelang#2526.
# [7, 13] by rows 4 + 3 to columns 5 + 5 + 3.
ODD = [row(*[list(range(13 * r + lo, 13 * r + hi)) for r in range(7)]) for lo, hi in ((0, 5), (5, 10), (10, 13))]
for dtype in ("u8", "f8e4m3", "f8e5m2", "i8", "bool", "bf16", "f16", "i16", "u16", "f32", "u32", "f64", "i64", "u64"):
    case(f"odd_rows_to_odd_columns_{dtype}",
         dtype=dtype, tensors=f'tensor "w" {dtype} [7, 13];\n',
         train='mesh m [tp: 2];\non m { buffer "w"[_ @tp:chunk, _]; }\n',
         infer='mesh m [tp: 3];\non m { buffer "w"[_, _ @tp:chunk]; }\n',
         holds=[{"w": grid(0, 4, 13)}, {"w": grid(52, 3, 13)}], wants=[{"w": ids} for ids in ODD])
