#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`mpiexec -n N reshard run --backend mpi`: right, wrong, files, and one voice and one exit status for all processes.

    run.py MPIEXEC RESHARD RESHARDC
"""
import json
import pathlib
import subprocess
import sys
import tempfile

TRAIN = """tensor "w" bf16 [96, 40];
tensor "b" f32 [33];
mesh g [pp: 2, tp: 5];
on g { buffer "w"[_ @pp, _ @tp]; buffer "b"; }
"""
INFER = """tensor "w" bf16 [96, 40];
tensor "b" f32 [33];
mesh g [tp: 6];
on g { buffer "w" f32 = cast("w"[_ @tp, _]); buffer "b"; }
"""
BACK = """tensor "w" bf16 [96, 40];
tensor "b" f32 [33];
mesh g [tp: 6];
on g { buffer "w"[_ @tp, _]; buffer "b"; }
"""


class Job:
    def __init__(self, mpiexec, reshard, reshardc, folder):
        self.mpiexec, self.reshard, self.reshardc, self.folder = mpiexec, reshard, reshardc, folder

    def compile(self, name, train, infer):
        for side, text in (("t", train), ("i", infer)):
            (self.folder / f"{name}.{side}").write_text(text)
        subprocess.run([self.reshardc, f"{name}.t", f"{name}.i", "-o", f"{name}.plan"], cwd=self.folder, check=True,
                       capture_output=True)

    def alone(self, *args, status=0):
        done = subprocess.run([self.reshard, "run", *args], cwd=self.folder, capture_output=True, text=True)
        expect(done.returncode == status, f"alone: {done.returncode}", done)
        return done

    def run(self, ranks, *args, status, backend="mpi"):
        """Every process ends with `status`."""
        codes = self.folder / "codes"
        codes.mkdir(exist_ok=True)
        for old in codes.iterdir():
            old.unlink()
        script = f'"$@"; code=$?; echo $code > {codes}/$$; exit $code'
        done = subprocess.run([self.mpiexec, "-n", str(ranks), "sh", "-c", script, "sh", self.reshard, "run", "--backend",
                               backend, *args], cwd=self.folder, capture_output=True, text=True, timeout=60)
        found = sorted(path.read_text().strip() for path in codes.iterdir())
        expect(found == [str(status)] * ranks, f"{args}: statuses {found}, not {status}", done)
        return done


def expect(good, what, done):
    if not good:
        sys.exit(f"{what}\n{done.stdout}{done.stderr}")


def tables(done):
    return sum(line.startswith("plan ") for line in done.stdout.splitlines())


def right(job):
    done = job.run(16, "--json", "--repeat", "2", "there.plan", status=0)
    report = json.loads(done.stdout)  # one object, of one process
    expect(report["ok"] and report["backend"] == "mpi" and report["mode"] == "staged", "report", done)
    expect(report["processes"] == 16 and report["patterns"] >= 2, "report", done)
    expect(report["replay"]["samples"] == 2 and report["memcpy"] is None, "times", done)
    done = job.run(16, "--verify", "--repeat", "1", "there.plan", status=0)
    expect(tables(done) == 1 and "right" in done.stdout and "verified" in done.stdout, "table", done)


def injected(job):
    done = job.run(16, "--inject", "3:fail", "--repeat", "1", "there.plan", status=1)
    expect("was made to fail before round 0" in done.stderr, "the fault", done)


def wrong(job):
    done = job.run(16, "--mode", "none", "there.plan", status=1)
    expect(done.stdout.count("WRONG") == 1 and done.stdout.count("was not delivered") == 1, "one table", done)
    done = job.run(4, "there.plan", status=2)
    expect(done.stderr.count("16 ranks") == 1 and "mpiexec -n 16" in done.stderr and not done.stdout, "world", done)
    # As each process is under the mpiexec of another MPI.
    done = job.alone("--backend", "mpi", "there.plan", status=2)
    expect("there is 1 process: mpiexec -n 16; if" in done.stderr and "of another MPI" in done.stderr, "alone", done)
    done = job.run(2, "there.plan", status=2, backend="host")
    said = [line for line in done.stderr.splitlines() if "would replay the whole plan" in line]
    expect(len(said) == 1 and "2 processes" in said[0] and not done.stdout, "whole replays", done)
    job.run(1, "--repeat", "1", "there.plan", status=0, backend="host")
    done = job.run(3, "nowhere.plan", status=2)
    expect(done.stderr.count("nowhere.plan") >= 1, "no plan", done)
    done = job.run(2, "--mode", "fused", "there.plan", status=2)
    expect("fused" in done.stderr, "fused", done)


def files(job):
    job.alone("--out", "made", "back.plan")
    (job.folder / "made").rename(job.folder / "ckpt")
    for path in (job.folder / "ckpt").iterdir():
        path.rename(path.with_name(path.name.replace("infer", "train")))
    done = job.alone("--in", "ckpt", "--out", "host", "there.plan")
    done = job.run(16, "--in", "ckpt", "--out", "mpi", "there.plan", status=0)
    expect("written" in done.stdout and tables(done) == 1, "table", done)
    names = sorted(path.name for path in (job.folder / "host").iterdir())
    expect(names == sorted(path.name for path in (job.folder / "mpi").iterdir()) and len(names) == 6, f"{names}", done)
    for name in names:
        same = (job.folder / "host" / name).read_bytes() == (job.folder / "mpi" / name).read_bytes()
        expect(same, f"{name} differs", done)
    (job.folder / "ckpt" / "train-7.safetensors").unlink()
    done = job.run(16, "--in", "ckpt", "--out", "none", "there.plan", status=1)
    expect(done.stderr.count("train-7.safetensors is missing") == 1 and not done.stdout, "missing file", done)


def main(mpiexec, reshard, reshardc):
    with tempfile.TemporaryDirectory() as folder:
        job = Job(mpiexec, reshard, reshardc, pathlib.Path(folder))
        job.compile("there", TRAIN, INFER)
        job.compile("back", BACK, TRAIN)
        right(job)
        injected(job)
        wrong(job)
        files(job)


if __name__ == "__main__":
    main(*sys.argv[1:])
