#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""reshard run on the hand-made plan of tests/plan/tiny.h: verdicts, and safetensors in and out.

Usage: test_files.py RESHARD MAKE_PLANS
"""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

import st

RESHARD, MAKE_PLANS = sys.argv[1:3]
TMP = tempfile.TemporaryDirectory()
ROOT = pathlib.Path(TMP.name)
subprocess.run([MAKE_PLANS, ROOT], check=True)
GOOD = ROOT / "good.plan"


def run(*args, plan=GOOD):
    done = subprocess.run([RESHARD, "run", *map(str, args), str(plan)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def inputs(directory, **more):
    """w is 0..15 as f32, a pair of rows on each rank; b is 1..8 in bf16 bits, on both."""
    directory.mkdir(exist_ok=True)
    for rank in range(2):
        w = struct.pack("<8f", *range(8 * rank, 8 * rank + 8))
        b = struct.pack("<8H", *range(1, 9))
        st.write(directory / f"train-{rank}.safetensors", {"w": ("F32", [2, 4], w), "b": ("BF16", [8], b)}, **more)


def expected(rank):
    w = [4 * row + 2 * rank + column for row in range(4) for column in range(2)]
    return {
        "w_t": ("F32", [4, 2], struct.pack("<8f", *w)),
        "b": ("BF16", [10], struct.pack("<10H", *range(1, 9), 0, 0)),
    }


class Verdicts(unittest.TestCase):
    def test_good(self):
        for mode in ("fused", "staged"):
            code, out, err = run("--mode", mode, "--json", "--repeat", 3)
            self.assertEqual(code, 0, err)
            report = json.loads(out)
            self.assertTrue(report["ok"])
            self.assertEqual(report["mode"], mode)
            self.assertIsNone(report["mismatch"])
            self.assertEqual(report["bytes"]["wanted"], 96)
            self.assertEqual(report["bytes"]["infer_buffers"], 104)
            self.assertEqual(report["replay"]["samples"], 3)
            self.assertGreaterEqual(report["memcpy"]["bytes"], 104)
            self.assertEqual((report["world"], report["train_ranks"], report["infer_ranks"]), (3, 2, 2))
            self.assertGreaterEqual(report["patterns"], 2)

    def test_table(self):
        code, out, err = run()
        self.assertEqual((code, err), (0, ""))
        for word in ("tensors", "wanted", "network", "rounds", "replay", "memcpy", "ratio", "every byte"):
            self.assertIn(word, out)

    def test_delays(self):
        for seed in range(1, 9):
            self.assertEqual(run("--mode", "staged", "--delay-seed", seed, "--repeat", 2)[0], 0)

    def test_nothing_moved(self):
        code, out, _ = run("--mode", "none", "--json")
        mismatch = json.loads(out)["mismatch"]
        self.assertEqual(code, 1)
        self.assertTrue(mismatch["untouched"])
        self.assertEqual(mismatch["rank"], 0)
        self.assertEqual(mismatch["kind"], "element")

    def test_wrong_plans(self):
        plans = sorted(ROOT.glob("*.plan"))
        self.assertGreater(len(plans), 6)
        for plan in plans:
            for mode in ("fused", "staged"):
                code, out, err = run("--mode", mode, "--json", plan=plan)
                self.assertEqual(code, int(plan != GOOD), (plan.name, mode, err))
                if plan != GOOD:
                    kind = "padding" if plan.stem in ("padding", "zeros") else "element"
                    self.assertEqual(json.loads(out)["mismatch"]["kind"], kind, plan.name)

    def test_mismatch_is_named(self):
        mismatch = json.loads(run("--json", plan=ROOT / "swapped-rows.plan")[1])["mismatch"]
        self.assertEqual((mismatch["tensor"], mismatch["buffer"], mismatch["side"], mismatch["rank"]), ("w", "w_t", "infer", 1))
        self.assertEqual((mismatch["tensor_index"], mismatch["buffer_index"]), ([0, 2], [0, 0]))
        self.assertEqual((mismatch["file"], mismatch["line"]), ("infer.layout", 4))
        code, out, _ = run(plan=ROOT / "swapped-rows.plan")
        self.assertEqual(code, 1)
        self.assertIn("'w' at [0, 2]", out)
        self.assertIn("infer.layout:4:3", out)

    def test_damaged(self):
        raw = GOOD.read_bytes()
        bad = ROOT / "damaged"
        for text in (raw[:-1], raw[:100], b"", raw[:5000] + b"x" + raw[5001:]):
            bad.write_bytes(text)
            code, out, err = run(plan=bad)
            self.assertEqual((code, out), (1, ""), err)
        self.assertEqual(run(plan=ROOT / "missing")[0], 2)

    def test_standard_input(self):
        with open(GOOD, "rb") as plan:
            self.assertEqual(subprocess.run([RESHARD, "run", "-"], stdin=plan, capture_output=True).returncode, 0)

    def test_injected(self):
        late = "no rank made progress|did not arrive"
        for fault, says, status in (("1:fail", "was made to fail before round 0", 1), ("0:no-memory", "cannot allocate", 2),
                                    ("1:die:0", late, 1), ("1:stall:0:30", late, 1), ("9:fail", "right", 0),
                                    ("1:stall:0:0.1", "right", 0)):
            for mode in ("staged", "fused"):
                code, out, err = run("--mode", mode, "--timeout", 1, "--repeat", 1, "--inject", fault)
                self.assertEqual(code, status, (fault, out, err))
                self.assertRegex(out + err, says)
        for mode in ("staged", "fused"):
            for rank in range(3):
                code, out, err = run("--mode", mode, "--timeout", 1, "--repeat", 1, "--inject", f"{rank}:die")
                self.assertEqual(code, 1, (mode, rank, out, err))
                self.assertRegex(err, rf"world rank\(s\) {rank} did not arrive|for world rank {rank}\b")
        for fault, more in (("9:fail", []), ("1:die:99", ["--mode", "staged"]), ("2:flip", []), ("1:stall", [])):
            code, out, err = run("--repeat", 1, "--inject", fault, *more)
            self.assertEqual(code, 0, (fault, out, err))
            self.assertIn("--inject changed nothing: the plan has 3 world ranks", err, fault)
        self.assertEqual(run("--repeat", 1, "--inject", "1:stall:0:0.1")[2], "")
        for more, says in (([], "WRONG"), (["--verify"], "not what")):
            code, out, err = run("--mode", "staged", "--repeat", 1, "--inject", "2:flip", *more)
            self.assertEqual(code, 1, (out, err))
            self.assertIn(says, out + err)

    def test_usage(self):
        for args in (["--inject", "1"], ["--inject", "1:nap"], ["--inject", "1:die:0:1x"], ["--mode", "fast"], ["--repeat", "0"], ["--repeat", "x"], ["--nope"], ["again"],
                     ["--delay-seed", "1"], ["--seed", "-1"]):
            code, out, err = run(*args)
            self.assertEqual((code, out), (2, ""), args)
            self.assertTrue(err)
        self.assertEqual(subprocess.run([RESHARD, "run"], capture_output=True).returncode, 2)


class Files(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(dir=ROOT))
        self.src, self.out = self.dir / "in", self.dir / "out"
        inputs(self.src)

    def run_files(self, *more):
        return run("--in", self.src, "--out", self.out, *more)

    def check_outputs(self):
        self.assertEqual(sorted(os.listdir(self.out)), ["infer-0.safetensors", "infer-1.safetensors"])
        for rank in range(2):
            self.assertEqual(st.read(self.out / f"infer-{rank}.safetensors"), expected(rank))

    def refused(self, code, *words):
        got, out, err = self.run_files()
        self.assertEqual((got, out), (code, ""), err)
        for word in words:
            self.assertIn(word, err)
        self.assertEqual(os.listdir(self.out) if self.out.exists() else [], [])

    def test_round(self):
        for mode in ("fused", "staged"):
            code, out, err = self.run_files("--mode", mode)
            self.assertEqual(code, 0, err)
            self.assertIn(str(self.out), out)
            self.check_outputs()

    def test_again_over_old_files(self):
        self.out.mkdir()
        (self.out / "infer-0.safetensors").write_text("old")
        self.assertEqual(self.run_files("--repeat", 3)[0], 0)
        self.check_outputs()

    def test_same_directory(self):
        self.out = self.src
        self.assertEqual(self.run_files()[0], 0)
        for rank in range(2):
            self.assertEqual(st.read(self.src / f"infer-{rank}.safetensors"), expected(rank))

    def test_in_alone(self):
        code, out, err = run("--in", self.src, "--json")
        self.assertEqual(code, 0, err)
        self.assertEqual(json.loads(out)["patterns"], 0)

    def test_out_alone_overwrites_nothing(self):
        self.out.mkdir()
        (self.out / "infer-1.safetensors").write_text("a checkpoint")
        code, out, err = run("--out", self.out)
        self.assertEqual((code, out), (2, ""), err)
        self.assertIn(f"{self.out}/infer-1.safetensors is there already; without --in it would be overwritten", err)
        self.assertEqual(os.listdir(self.out), ["infer-1.safetensors"])
        self.assertEqual((self.out / "infer-1.safetensors").read_text(), "a checkpoint")

    def test_out_alone(self):
        code, out, err = run("--out", self.out)
        self.assertEqual(code, 0, err)
        left, right = (st.read(self.out / f"infer-{rank}.safetensors") for rank in range(2))
        self.assertEqual(left["b"], right["b"])
        self.assertEqual(left["b"][2][16:], bytes(4))
        self.assertNotEqual(left["w_t"], right["w_t"])

    def test_odd_places_and_more_arrays(self):
        inputs(self.src, gap=b"???", extra={"__metadata__": {"format": "pt"}})
        self.assertEqual(self.run_files()[0], 0)
        self.check_outputs()

    def test_missing_file(self):
        (self.src / "train-1.safetensors").unlink()
        self.refused(1, "train-1.safetensors is missing", "rank 1")

    def test_missing_array(self):
        arrays = st.read(self.src / "train-0.safetensors")
        del arrays["b"]
        st.write(self.src / "train-0.safetensors", arrays)
        self.refused(1, "train-0.safetensors", "'b'", "BF16")

    def test_wrong_array(self):
        for entry, words in ((("BF16", [2, 4], bytes(16)), ("F32", "BF16")), (("F32", [4, 2], bytes(32)), ("[2, 4]", "[4, 2]")),
                             (("F32", [8], bytes(32)), ("[8]",)), (("F32", [2, 4], bytes(31)), ("31", "32"))):
            arrays = st.read(self.src / "train-0.safetensors") | {"w": entry}
            st.write(self.src / "train-0.safetensors", arrays)
            self.refused(1, "'w'", *words)
            inputs(self.src)

    def test_all_faults_at_once(self):
        (self.src / "train-1.safetensors").unlink()
        st.write(self.src / "train-0.safetensors", {})
        self.refused(1, "'w'", "'b'", "train-1")

    def test_broken_file(self):
        path = self.src / "train-0.safetensors"
        raw = path.read_bytes()
        for text in (b"", raw[:7], raw[:-1], raw + b"x", b"\xff" * 100, raw[:8] + b"[" + raw[9:]):
            path.write_bytes(text)
            self.refused(2, "train-0.safetensors")

    def test_not_a_file(self):
        path = self.src / "train-0.safetensors"
        path.unlink()
        path.mkdir()
        self.refused(2, "not a regular file")
        path.rmdir()
        os.mkfifo(path)
        self.refused(2, "not a regular file")

    def test_no_directory(self):
        self.src = self.dir / "nowhere"
        self.refused(2, "nowhere")

    def test_out_is_a_file(self):
        self.out.write_text("")
        code, _, err = self.run_files()
        self.assertEqual(code, 2)
        self.assertIn(str(self.out), err)

    def test_terminal_is_safe(self):
        st.write(self.src / "train-0.safetensors", {"\x1b[2J": ("U8", [2], b"x")})
        arrays = json.dumps({"\x1b[31m": {"dtype": "U8", "shape": [9], "data_offsets": [0, 9]}}).encode()
        (self.src / "train-1.safetensors").write_bytes(struct.pack("<Q", len(arrays)) + arrays)
        _, _, err = self.run_files()
        self.assertNotIn("\x1b", err)
        self.assertIn("\\x1b", err)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
