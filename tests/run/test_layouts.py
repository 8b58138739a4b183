#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""reshard run on compiled pairs: every kind of byte that a buffer can hold, seeded bugs, sizes, names, and files there
and back.

Usage: test_layouts.py RESHARD RESHARDC RUN_PATTERN
"""
import json
import os
import pathlib
import random
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

import st

RESHARD, RESHARDC, PATTERN = sys.argv[1:4]
TMP = tempfile.TemporaryDirectory()
ROOT = pathlib.Path(TMP.name)

FEATURES_TRAIN = """
tensor "moved" bf16 [12, 8];
tensor "cast up" bf16 [10, 3];
tensor "cast down" f32 [9];
tensor "wide" f64 [4, 5];
tensor "flags" bool [33];
tensor "bytes" u8 [7, 5];
tensor "eight" f8e4m3 [4, 6];
tensor "ids" i64 [5];
tensor "A_log" f32 [8];
tensor "norm" bf16 [16];
tensor "extra" f32 [3];
tensor "half" f16 [8];
tensor "lost" f16 [6];
tensor "two ways" bf16 [6];
skip "half";
skip "lost";
mesh m [dp: 2, tp: 2];
on m {
  buffer "moved" = "moved"[_ @tp, _];
  buffer "cast up" f32 = cast("cast up"[_ @tp, _]);
  buffer "cast down" bf16 = cast("cast down"[_ @tp:chunk]);
  buffer "wide" = "wide"[_, pad(_, 6) @tp];
  buffer "flags" = "flags"[_ @tp:chunk];
  buffer "bytes" = cat(0, "bytes", gap(2, 5));
  buffer "eight" = "eight"[_ @tp:cyclic, _];
  buffer "A_log" = "A_log"[_ @tp];
  buffer "norm" = add("norm", 1.0)[_ @tp];
  buffer "extra";
  buffer "half" = slice("half", 0, 0, 4);
}
on m[dp = 0, tp = 0] { buffer "ids"; buffer "two ways" f32 = replica add(cast("two ways"), 0.5); }
on m[dp = 1, tp = 0] { buffer "two ways"; }
"""

FEATURES_INFER = """
tensor "moved" bf16 [12, 8];
tensor "cast up" bf16 [10, 3];
tensor "cast down" f32 [9];
tensor "wide" f64 [4, 5];
tensor "flags" bool [33];
tensor "bytes" u8 [7, 5];
tensor "eight" f8e4m3 [4, 6];
tensor "ids" i64 [5];
tensor "A_log" f32 [8];
tensor "norm" bf16 [16];
tensor "half" f16 [8];
tensor "lost" f16 [6];
tensor "two ways" bf16 [6];
skip "extra";
mesh m [tp: 3];
on m {
  buffer "moved" = cat(1, permute("moved", 1, 0)[_ @tp:balanced, _], gap(8, 2)[_ @tp:balanced, _]);
  buffer "again" = "moved"[_, _ @tp:[3, 0, 5]];
  buffer "cast up" = "cast up";
  buffer "cast up 32" f32 = cast("cast up"[_, _ @tp]);
  buffer "cast down" = "cast down"[_ @tp];
  buffer "cast down 16" f16 = cast("cast down");
  buffer "wide" f32 = cast("wide"[_ @tp:chunk, _]);
  buffer "flags" = "flags"[pad(_, 36) @tp];
  buffer "bytes" = "bytes"[35][_ @tp:cyclic(4)];
  buffer "eight" bf16 = cast("eight"[_, _ @tp]);
  buffer "ids";
  buffer "A" = neg_exp("A_log");
  buffer "norm" = add("norm", 0.5)[_ @tp:balanced];
  buffer "half";
  buffer "two ways" f16 = cast("two ways");
  buffer "lost" = cat(0, "lost", "half");
}
"""


def compile_pair(train, infer, *args, name="plan", code=0):
    directory = pathlib.Path(tempfile.mkdtemp(dir=ROOT))
    for side, text in (("train", train), ("infer", infer)):
        (directory / f"{side}.layout").write_bytes(text.encode("utf-8", "surrogateescape"))
    plan = directory / f"{name}.plan"
    done = subprocess.run([RESHARDC, directory / "train.layout", directory / "infer.layout", "-o", plan, *args],
                          capture_output=True, text=True)
    assert done.returncode == code, (done.returncode, done.stderr)
    return plan


def run(plan, *args):
    done = subprocess.run([RESHARD, "run", *map(str, args), str(plan)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def matrix(tensor, cut, ranks, more=""):
    return f'tensor "w" {tensor};\n{more}mesh m [tp: {ranks}];\non m {{ buffer "w" = "w"{cut}; }}\n'


class Patterns(unittest.TestCase):
    def test_features(self):
        plan = compile_pair(FEATURES_TRAIN, FEATURES_INFER)
        for mode in ("fused", "staged"):
            for seed in range(3):
                code, out, err = run(plan, "--mode", mode, "--seed", seed, "--repeat", 2, "--json")
                self.assertEqual(code, 0, out + err)
            self.assertEqual(json.loads(out)["patterns"], 32)  # a bool tells one bit
        for seed in range(1, 5):
            self.assertEqual(run(plan, "--mode", "staged", "--delay-seed", seed)[0], 0)
        self.assertEqual(run(plan, "--mode", "none")[0], 1)

    def test_every_byte_is_watched(self):
        done = subprocess.run([PATTERN, compile_pair(FEATURES_TRAIN, FEATURES_INFER)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_small_staging(self):
        plan = compile_pair(FEATURES_TRAIN, FEATURES_INFER, "--staging", "4KiB", "--chunk", "64B")
        self.assertEqual(run(plan, "--mode", "staged", "--delay-seed", 3)[0], 0)
        self.assertEqual(run(plan)[0], 0)

    def test_seeded_bugs(self):
        # Those that move elements wrongly; staging slots and round quanta are the verifier's, or refused by the runtime.
        pairs = ((FEATURES_TRAIN, FEATURES_INFER), (matrix("f32 [64, 64]", "[_ @tp, _]", 2), matrix("f32 [64, 64]", "[_, _ @tp]", 4)))
        for bug in (1, 2, 3, 4, 7):
            caught = 0
            for train, infer in pairs:
                plan = compile_pair(train, infer, "--seed-bug", str(bug))
                for mode in ("fused", "staged"):
                    caught += run(plan, "--mode", mode)[0] == 1
            self.assertGreater(caught, 0, f"bug {bug}")

    def test_too_large(self):
        # Planned without a byte of it; not replayed without the memory.
        plan = compile_pair(matrix("f32 [1099511627776]", "[_ @tp]", 2), matrix("f32 [1099511627776]", "[_ @tp]", 4))
        code, out, err = run(plan)
        self.assertEqual((code, out), (2, ""))
        self.assertIn("8.80 TB", err)
        self.assertIn("memory", err)

    def test_ratio(self):
        # Of 16 MB and more: below that it would compare how threads start.
        for size, given in ((3_999_999, False), (4_000_000, True)):
            plan = compile_pair(matrix(f"f32 [{size}]", "[_ @tp:chunk]", 2), matrix(f"f32 [{size}]", "[_ @tp:chunk]", 2))
            code, out, err = run(plan, "--repeat", 1, "--json")
            self.assertEqual((code, json.loads(out)["ratio"] is not None), (0, given), err)
            words = dict(line.split(None, 2)[:2] for line in run(plan, "--repeat", 1)[1].splitlines() if line.startswith("  "))
            self.assertEqual(words["ratio"] != "none", given, words)

    def test_idle_and_empty(self):
        plan = compile_pair(matrix("u8 [4]", "[_ @tp:chunk]", 3, "world 5;\n"), matrix("u8 [4]", "[_ @tp:chunk]", 3, "world 4;\n"))
        for mode in ("fused", "staged"):
            self.assertEqual(run(plan, "--mode", mode)[0], 0)


class Names(unittest.TestCase):
    def test_not_utf8(self):
        train = 'tensor "w" u8 [4];\nmesh m [tp: 1];\non m { buffer "a\udcff" = "w"; }\n'
        infer = 'tensor "w" u8 [4];\nmesh m [tp: 1];\non m { buffer "\udcfe" = "w"; buffer "__metadata__" = "w"; }\n'
        plan = compile_pair(train, infer)
        self.assertEqual(run(plan)[0], 0)
        where = ROOT / "names"
        where.mkdir()
        code, _, err = run(plan, "--in", where)
        self.assertEqual(code, 1)
        self.assertIn("'a\\xff'", err)
        code, _, err = run(plan, "--out", where)
        self.assertEqual(code, 1)
        self.assertIn("'\\xfe'", err)
        self.assertIn("'__metadata__'", err)
        self.assertEqual(os.listdir(where), [])

    def test_odd_but_good(self):
        name = 'w "q" \\ \u00e9 \u4e2d'
        text = name.replace("\\", "\\\\").replace('"', '\\"')
        train = f'tensor "w" u8 [4];\nmesh m [tp: 1];\non m {{ buffer "{text}" = "w"; }}\n'
        plan = compile_pair(train, train)
        where = ROOT / "odd"
        where.mkdir()
        st.write(where / "train-0.safetensors", {name: ("U8", [4], b"1234")})
        self.assertEqual(run(plan, "--in", where, "--out", where)[0], 0)
        self.assertEqual(st.read(where / "infer-0.safetensors"), {name: ("U8", [4], b"1234")})


class ThereAndBack(unittest.TestCase):
    """From A to B and back is the identity; B is what a few lines of Python say."""

    A = """
tensor "w" f32 [6, 10];
tensor "b" i16 [7];
world 4;
mesh m [tp: 3];
on m { buffer "w" = "w"[_ @tp, _]; buffer "b" = "b"[_ @tp:[4, 0, 3]]; }
"""
    B = """
tensor "w" f32 [6, 10];
tensor "b" i16 [7];
world 5;
mesh m [tp: 2] ranks 3, 1;
on m { buffer "w^T" = cat(1, permute("w", 1, 0)[_ @tp, _], gap(5, 1)); buffer "b" = "b"[pad(_, 8) @tp]; }
"""

    def test(self):
        draw = random.Random(5)
        w = [[draw.randbytes(4) for _ in range(10)] for _ in range(6)]
        b = [draw.randbytes(2) for _ in range(7)]
        start, middle, end = (ROOT / f"back-{i}" for i in range(3))
        start.mkdir()
        bounds = [(0, 4), (4, 4), (4, 7)]
        for rank in range(3):
            rows = b"".join(x for row in w[2 * rank : 2 * rank + 2] for x in row)
            lo, hi = bounds[rank]
            st.write(start / f"train-{rank}.safetensors",
                     {"w": ("F32", [2, 10], rows), "b": ("I16", [hi - lo], b"".join(b[lo:hi]))})
        self.assertEqual(run(compile_pair(self.A, self.B), "--in", start, "--out", middle)[0], 0)
        self.assertEqual(sorted(os.listdir(middle)), ["infer-1.safetensors", "infer-3.safetensors"])
        for part, rank in enumerate((3, 1)):
            columns = b"".join(b"".join(w[r][c] for r in range(6)) + bytes(4) for c in range(5 * part, 5 * part + 5))
            ids = b"".join(b[4 * part : 4 * part + 4]).ljust(8, b"\0")
            self.assertEqual(st.read(middle / f"infer-{rank}.safetensors"),
                             {"w^T": ("F32", [5, 7], columns), "b": ("I16", [4], ids)})
        for path in middle.iterdir():
            path.rename(middle / path.name.replace("infer", "train"))
        self.assertEqual(run(compile_pair(self.B, self.A), "--in", middle, "--out", end, "--mode", "staged")[0], 0)
        self.assertEqual(sorted(os.listdir(end)), [f"infer-{r}.safetensors" for r in range(3)])
        for rank in range(3):
            self.assertEqual(st.read(end / f"infer-{rank}.safetensors"), st.read(start / f"train-{rank}.safetensors"))


class Mapped(unittest.TestCase):
    @unittest.skipIf(b"__asan_init" in pathlib.Path(RESHARD).read_bytes(), "a sanitizer takes memory of its own")
    def test_memory_of_its_own(self):
        # 320 MB on each side, replayed with much less memory of its own: files are mapped, staging is bounded.
        rows, limit = 320, 160 << 20
        where = ROOT / "mapped"
        where.mkdir()
        plan = compile_pair(matrix(f"u8 [{rows}, 1000000]", "[_ @tp, _]", 2), matrix(f"u8 [{rows}, 1000000]", "[_, _ @tp]", 2),
                            "--staging", "4MiB")
        for rank in range(2):
            header = json.dumps({"w": {"dtype": "U8", "shape": [rows // 2, 1000000], "data_offsets": [0, rows * 500000]}}).encode()
            with open(where / f"train-{rank}.safetensors", "wb") as file:
                file.write(struct.pack("<Q", len(header)) + header)
                file.truncate(8 + len(header) + rows * 500000)
                file.seek(8 + len(header) + 7 * 1000000 + 600000)
                file.write(bytes([rank + 1]))
        for mode in ("fused", "staged"):
            done = subprocess.run([RESHARD, "run", "--in", where, "--out", where, "--mode", mode, plan], capture_output=True, text=True,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)))
            self.assertEqual(done.returncode, 0, done.stderr)
            raw = (where / "infer-1.safetensors").read_bytes()[-rows * 500000 :]
            marks = {7 * 500000 + 100000: 1, (rows // 2 + 7) * 500000 + 100000: 2}
            self.assertEqual({at: raw[at] for at in marks}, marks)
            self.assertEqual(raw.count(0), len(raw) - 2)
            self.assertEqual((where / "infer-0.safetensors").read_bytes()[-rows * 500000 :].count(0), rows * 500000)
        shutil.rmtree(where)

    def test_rank_of_empty_buffers(self):
        where = ROOT / "empty"
        where.mkdir()
        layout = matrix("u8 [4]", "[_ @tp:chunk]", 3, "world 4;\n")
        for rank, raw in enumerate((b"ab", b"cd")):
            st.write(where / f"train-{rank}.safetensors", {"w": ("U8", [2], raw)})
        plan = compile_pair(layout, layout)
        code, _, err = run(plan, "--in", where, "--out", where)
        self.assertEqual(code, 1)
        self.assertIn("train-2.safetensors is missing", err)
        st.write(where / "train-2.safetensors", {"w": ("U8", [0], b"")})
        self.assertEqual(run(plan, "--in", where, "--out", where)[0], 0)
        self.assertEqual(st.read(where / "infer-2.safetensors"), {"w": ("U8", [0], b"")})
        self.assertEqual(len(os.listdir(where)), 6)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
