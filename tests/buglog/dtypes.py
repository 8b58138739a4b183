# SPDX-License-Identifier: Apache-2.0
"""Dtypes, casts, value operations, scales. Numbers of `raw` cases are bit patterns. References are public issues."""
import numpy as np

from harness import case, grid, need, row

ONE = 'mesh m [x: 1];\n'

# vllm-project/vllm#57665; verl-project/verl#7318: a bf16[3] before an f32, packed without alignment.
MIXED = dict(dtypes={"a": "bf16", "b": "f32", "c": "u8", "d": "f32"},
             tensors='tensor "a" bf16 [3];\ntensor "b" f32 [2];\ntensor "c" u8 [1];\ntensor "d" f32 [1];\n')
ALL = 'on m { for n in ["a", "b", "c", "d"] { buffer "{n}"; } }\n'
MIXED_VALUES = [{"a": row(0, 1, 2), "b": row(10, 11), "c": row(20), "d": row(30)}]
case("mixed_sizes_in_one_transfer", **MIXED, train=ONE + ALL, infer=ONE + ALL, holds=MIXED_VALUES, wants=MIXED_VALUES)
case("mixed_sizes_of_strided_buffers", **MIXED,
     train=ONE + 'on m { for n in ["a", "b", "c", "d"] { buffer "{n}" = cat(1, n[_, 1], gap(len(n) > 1 ? 1 : '
                 '(n == "a" ? 3 : n == "b" ? 2 : 1), 1)); } }\n',
     infer=ONE + ALL,
     holds=[{"a": row([0, -1], [1, -1], [2, -1]), "b": row([10, -1], [11, -1]), "c": row([20, -1]), "d": row([30, -1])}],
     wants=MIXED_VALUES)

# NVIDIA-NeMo/RL#3540; PrimeIntellect-ai/prime-rl#3524: an f32 bias is f32. 1 + 2^-12 is lost in bf16.
BIAS = dict(raw=True, dtypes={"w": "bf16", "bias": "f32"}, tensors='tensor "w" bf16 [4];\ntensor "bias" f32 [4];\n',
            train=ONE + 'on m { buffer "w"; buffer "bias"; }\n',
            holds=[{"w": row(0x3F80, 0x4000, 0x4040, 0x4080), "bias": row(0x3F800800, 0xBF800800, 0x7F800000, 0x00000001)}])
case("f32_bias_beside_bf16_weights", **BIAS,
     infer=ONE + 'on m { buffer "w"; buffer "bias"; }\n', wants=BIAS["holds"])
case("a_narrower_buffer_unsaid",
     tensors=BIAS["tensors"], train=BIAS["train"],
     infer=ONE + 'on m { buffer "w"; buffer "bias" bf16 = "bias"; }\n',
     refused=["infer.layout:4:", "f32", "bf16", "cast"])
case("a_narrower_buffer_said", **BIAS, infer_dtypes={"bias": "bf16"},
     infer=ONE + 'on m { buffer "w"; buffer "bias" bf16 = cast("bias"); }\n',
     wants=[{"w": row(0x3F80, 0x4000, 0x4040, 0x4080), "bias": row(0x3F80, 0xBF80, 0x7F80, 0x0000)}])

# inclusionAI/Awex#112: message sizes come from one dtype, the tensor's. All bf16 patterns widen exactly.
PATTERNS = [p for p in range(65536) if not (p & 0x7F80 == 0x7F80 and p & 0x7F)]  # NaNs have a case of their own
case("bf16_to_f32_is_exact", raw=True, dtype="bf16", infer_dtypes={"w": "f32"},
     tensors=f'tensor "w" bf16 [{len(PATTERNS)}];\n',
     train=ONE + 'on m { buffer "w"; }\n', infer=ONE + 'on m { buffer "w" f32 = cast("w"); }\n',
     holds=[{"w": row(*PATTERNS)}], wants=[{"w": row(*[p << 16 for p in PATTERNS])}],
     plan=lambda p: (need(p.sent(0) == p.received(0) == 2 * len(PATTERNS), "two bytes per element travel"),
                     need(p.json["bytes"]["wanted"] == 4 * len(PATTERNS), "four bytes per element are wanted")))

# f32 to bf16 rounds to nearest even: ties, carries into the exponent, overflow to inf, subnormals.
NARROW = [(0x3F800000, 0x3F80), (0x3F808000, 0x3F80), (0x3F808001, 0x3F81), (0x3F818000, 0x3F82), (0x3F817FFF, 0x3F81),
          (0x3FFF8000, 0x4000), (0x7F7FFFFF, 0x7F80), (0x7F7F7FFF, 0x7F7F), (0xFF7FFFFF, 0xFF80), (0x00000001, 0x0000),
          (0x00008000, 0x0000), (0x00008001, 0x0001), (0x00018000, 0x0002), (0x80000000, 0x8000), (0xFF800000, 0xFF80)]
case("f32_to_bf16_rounds_to_even", raw=True, dtype="f32", infer_dtypes={"w": "bf16"},
     tensors=f'tensor "w" f32 [{len(NARROW)}];\n',
     train=ONE + 'on m { buffer "w"; }\n', infer=ONE + 'on m { buffer "w" bf16 = cast("w"); }\n',
     holds=[{"w": row(*[a for a, _ in NARROW])}], wants=[{"w": row(*[b for _, b in NARROW])}])
HALF = [(0x3F800000, 0x3C00), (0x3F801000, 0x3C00), (0x3F801001, 0x3C01), (0x3F803000, 0x3C02), (0x477FE000, 0x7BFF),
        (0x477FF000, 0x7C00), (0xC77FF000, 0xFC00), (0x33000000, 0x0000), (0x33000001, 0x0001), (0x33800000, 0x0001),
        (0x387FE000, 0x0400), (0x80000000, 0x8000)]
case("f32_to_f16_rounds_to_even", raw=True, dtype="f32", infer_dtypes={"w": "f16"},
     tensors=f'tensor "w" f32 [{len(HALF)}];\n',
     train=ONE + 'on m { buffer "w"; }\n', infer=ONE + 'on m { buffer "w" f16 = cast("w"); }\n',
     holds=[{"w": row(*[a for a, _ in HALF])}], wants=[{"w": row(*[b for _, b in HALF])}])

# A bf16 tensor kept in f32 by the trainer reaches an f32 buffer through bf16: the element has the tensor's dtype.
case("a_wide_buffer_of_a_narrow_tensor", raw=True, dtypes={"w": "f32"},
     tensors='tensor "w" bf16 [2];\n',
     train=ONE + 'on m { buffer "w" f32 = cast("w"); }\n', infer=ONE + 'on m { buffer "w" f32 = cast("w"); }\n',
     holds=[{"w": row(0x3F800800, 0x3F818000)}], wants=[{"w": row(0x3F800000, 0x3F820000)}])
# OCP e4m3: 0x7E is 448, 0x01 is 2^-9; e5m2: 0x7B is 57344, 0x7C is inf.
case("f8e4m3_widens", raw=True, dtype="f8e4m3", infer_dtypes={"w": "f32"}, tensors='tensor "w" f8e4m3 [6];\n',
     train=ONE + 'on m { buffer "w"; }\n', infer=ONE + 'on m { buffer "w" f32 = cast("w"); }\n',
     holds=[{"w": row(0x00, 0x80, 0x38, 0x7E, 0x01, 0xB8)}],
     wants=[{"w": row(0, 0x80000000, 0x3F800000, 0x43E00000, 0x3B000000, 0xBF800000)}])
case("f8e5m2_widens", raw=True, dtype="f8e5m2", infer_dtypes={"w": "f32"}, tensors='tensor "w" f8e5m2 [5];\n',
     train=ONE + 'on m { buffer "w"; }\n', infer=ONE + 'on m { buffer "w" f32 = cast("w"); }\n',
     holds=[{"w": row(0x00, 0x3C, 0x7B, 0x7C, 0x01)}], wants=[{"w": row(0, 0x3F800000, 0x47600000, 0x7F800000, 0x37800000)}])
for dtype in ("f8e4m3", "i32", "bool"):
    case(f"cast_to_{dtype}_is_refused",
         tensors='tensor "w" f32 [4];\n', train=ONE + 'on m { buffer "w"; }\n',
         infer=ONE + f'on m {{ buffer "w" {dtype} = cast("w"); }}\n', refused=["infer.layout:3:", dtype])


def nan_stays_nan(tools, fields):
    import harness
    plan = tools.compile(fields)
    for d in ("in", "out"):
        (tools.dir / d).mkdir()
    patterns = np.array([0x7FC0, 0xFFC0, 0x7F81, 0xFFFF], "<u2")
    harness.write_safetensors(tools.dir / "in" / "train-0.safetensors", {"w": ("bf16", patterns)})
    tools.run("reshard", "run", plan.path, "--in", "in", "--out", "out", ok=0)
    got = np.frombuffer(harness.read_safetensors(tools.dir / "out" / "infer-0.safetensors")["w"][2], "<f4")
    need(np.isnan(got).all(), f"NaN became {got}")


case("nan_stays_nan", tensors='tensor "w" bf16 [4];\n', train=ONE + 'on m { buffer "w"; }\n',
     infer=ONE + 'on m { buffer "w" f32 = cast("w"); }\n', also=nan_stays_nan)

# Value operations: 0 -> -1, inf -> -inf, -inf -> -0; x + 0.5; b - 1 on the way in.
case("neg_exp", raw=True, dtype="f32", tensors='tensor "a" f32 [3];\n',
     train=ONE + 'on m { buffer "a"; }\n', infer=ONE + 'on m { buffer "a" = neg_exp("a"); }\n',
     holds=[{"a": row(0x00000000, 0x7F800000, 0xFF800000)}], wants=[{"a": row(0xBF800000, 0xFF800000, 0x80000000)}])
case("add", raw=True, dtype="f32", tensors='tensor "a" f32 [3];\n',
     train=ONE + 'on m { buffer "a"; }\n', infer=ONE + 'on m { buffer "a" = add("a", 0.5); }\n',
     holds=[{"a": row(0x00000000, 0x3F800000, 0xBF000000)}], wants=[{"a": row(0x3F000000, 0x3FC00000, 0x00000000)}])
case("add_is_taken_off_again", raw=True, dtype="f32", tensors='tensor "a" f32 [2];\n',
     train=ONE + 'on m { buffer "a" = add("a", 1.0); }\n', infer=ONE + 'on m { buffer "a"; }\n',
     holds=[{"a": row(0x3F800000, 0x40000000)}], wants=[{"a": row(0x00000000, 0x3F800000)}])

# vllm-project/vllm#52997, #52915: scale blocks of 4 rows, shards of 2: a scale goes to both ranks that use it.
SCALE = dict(dtypes={"w": "f8e4m3", "s": "f32"}, tensors='tensor "w" f8e4m3 [8, 4];\ntensor "s" f32 [2, 1];\n',
             train=ONE + 'on m { buffer "w"; buffer "s"; }\n')
case("scale_block_larger_than_a_part", **SCALE, holds=[{"w": grid(0, 8, 4), "s": row([100], [101])}],
     infer='mesh m [tp: 4];\non m { buffer "w"[_ @tp, _]; buffer "s"[_ @tp:share(2), _]; }\n',
     wants=[{"w": grid(8 * r, 2, 4), "s": row([100 + r // 2])} for r in range(4)])
case("scale_cut_like_the_weight", **SCALE,
     infer='mesh m [tp: 4];\non m { buffer "w"[_ @tp, _]; buffer "s"[_ @tp, _]; }\n',
     refused=["infer.layout:4:", "2", "4", "tp"])

# modelscope/mcore-bridge#32; vllm-project/vllm-omni#5761: blocks of 4 columns, 6 columns, parts on block borders: 4 + 2.
case("parts_on_block_borders",
     dtypes={"w": "f8e4m3", "s": "f32"}, tensors='tensor "w" f8e4m3 [2, 6];\ntensor "s" f32 [1, 2];\n',
     train=ONE + 'on m { buffer "w"; buffer "s"; }\n',
     infer='mesh m [tp: 2];\non m { buffer "w"[_, _ @tp:[4, 2]]; buffer "s"[_, _ @tp]; }\n',
     holds=[{"w": grid(0, 2, 6), "s": row([100, 101])}],
     wants=[{"w": row([0, 1, 2, 3], [6, 7, 8, 9]), "s": row([100])}, {"w": row([4, 5], [10, 11]), "s": row([101])}])
