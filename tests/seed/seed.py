# SPDX-License-Identifier: Apache-2.0
"""Bugs seeded into the compiler (compiler/base/seed.h) must be refused by `reshard verify` and, where they change bytes,
be seen by `reshard run`. Usage: seed.py RESHARDC RESHARD"""
import os
import subprocess
import sys
import tempfile

RESHARDC, RESHARD = sys.argv[1:3]

TENSORS = """
tensor "q" bf16 [64, 24]; tensor "k" bf16 [16, 24]; tensor "v" bf16 [16, 24]; tensor "u" bf16 [16, 24]; tensor "n" f32 [24]; tensor "x" f32 [16, 24];
for l in 0..6 { tensor "{l}.w" bf16 [32, 24]; }
"""
TRAIN = TENSORS + """
mesh m [dp: 2, tp: 2];
on m {
  buffer "qkv" = cat(0, "q"[_ @tp, _], "k"[_ @tp, _], "v"[_ @tp, _], gap(3, 24), "u"[_ @tp, _]);
  buffer "n";
  for l in 0..6 { buffer "{l}.w"[_, _ @tp]; }
}
on m { buffer "x"[_ @tp, _]; }
"""
INFER = TENSORS + """
mesh m [dp: 2, tp: 4];
on m {
  buffer "q"[_ @tp, _]; buffer "k"[_ @tp, _]; buffer "v"[_ @tp, _]; buffer "u"[_ @tp, _]; buffer "n"; buffer "x"[_ @tp, _];
  for l in 0..6 { buffer "{l}.w"[_ @tp, _]; }
}
"""

# number: (what, whether the bytes come out wrong when the plan is replayed in stages)
BUGS = {1: ("intersect: an offset off by one element", True),
        2: ("intersect: a flow forgotten", True),
        3: ("lower: two parts swapped at the receiver", True),
        4: ("lower: a loop's step wrong at the receiver", True),
        5: ("emit: staging reused a round too early", False),
        6: ("emit: a count changed at one end", False),
        7: ("emit: two elements mixed up", True)}


def run(*command):
    return subprocess.run(command, capture_output=True, text=True)


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as work:
        train, infer, plan = (os.path.join(work, name) for name in ("train.layout", "infer.layout", "plan.bin"))
        for path, text in ((train, TRAIN), (infer, INFER)):
            with open(path, "w") as file:
                file.write(text)
        for bug in range(len(BUGS) + 1):
            made = run(RESHARDC, train, infer, "-o", plan, "--chunk", "512", "--seed-bug", str(bug))
            if made.returncode:
                failed += 1
                print(f"FAIL bug {bug} does not compile: {made.stderr}")
                continue
            verify, replay = run(RESHARD, "verify", plan), run(RESHARD, "run", plan, "--mode", "staged")
            what, wrong_bytes = BUGS.get(bug, ("none", False))
            ok = verify.returncode == (1 if bug else 0)
            ok &= replay.returncode == 1 if wrong_bytes else replay.returncode in ((0, 1) if bug else (0,))
            failed += not ok
            said = (verify.stdout + verify.stderr).strip().splitlines()
            print(f"{'ok  ' if ok else 'FAIL'} {bug} {what}: verify {verify.returncode}, run {replay.returncode}: {said[:1]}")
    sys.exit(1 if failed else 0)


main()
