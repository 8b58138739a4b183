#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`reshard run --backend nccl` on libraries that are none: right where the device works, wrong where it does nothing, one
line where there is no GPU, and what the options must be.

    run.py RESHARD RESHARDC NULL_DEVICE NOW_DEVICE
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

TRAIN = """tensor "w" bf16 [64, 40];
tensor "b" f32 [33];
mesh g [tp: 1];
on g { buffer "w"; buffer "b"; }
"""
INFER = """tensor "w" bf16 [64, 40];
tensor "b" f32 [33];
mesh g [tp: 1];
on g { buffer "w_t" = permute("w", 1, 0); buffer "b" bf16 = cast("b"[pad(_, 40)]); }
"""
CLUSTER = """reshard-cluster: 1
links: {nvlink: {bandwidth: 450e9, latency: 2e-6}, network: {bandwidth: 50e9, latency: 5e-6}, memory: {bandwidth: 3e12}}
hosts: [{names: h0, gpus: 1, nics: 1}]
train: h0
infer: h0
"""
LAUNCHERS = ("RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


def main(reshard, reshardc, null_device, now_device):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name, text in (("train.layout", TRAIN), ("infer.layout", INFER), ("one.yaml", CLUSTER)):
            (folder / name).write_text(text)
        done = subprocess.run([reshardc, "train.layout", "infer.layout", "--cluster", "one.yaml", "-o", "plan"],
                              cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

        def run(*args, status, says="", **environment):
            clean = {k: v for k, v in os.environ.items() if k not in LAUNCHERS}
            done = subprocess.run([reshard, "run", *args, "plan"], cwd=folder, capture_output=True, text=True,
                                  env={**clean, **environment})
            assert done.returncode == status, (args, done.returncode, done.stdout, done.stderr)
            assert says in done.stderr + done.stdout, (args, says, done.stderr)
            return done

        nccl = ["--backend", "nccl", "--share", "."]
        alone = ["--rank", "0", "--world", "1"]

        def libraries(path):
            return ["--cuda-library", path, "--nccl-library", path]

        for more in ([], ["--verify"]):
            done = run(*nccl, *alone, *libraries(now_device), *more, "--json", status=0)
            report = json.loads(done.stdout)
            assert report["ok"] and report["backend"] == "nccl" and report["mode"] == "staged", report
        for fault, says in (("fail", "was made to fail before round 0"), ("die", "was made to fail"),
                            ("no-memory", "cannot allocate"), ("stall:0:9", "was made to stall")):
            run(*nccl, *alone, *libraries(now_device), "--timeout", "1", "--inject", f"0:{fault}",
                status=2 if fault == "no-memory" else 1, says=says)
        run(*nccl, *alone, *libraries(now_device), "--inject", "0:flip", status=2, says="host and mpi")
        run(*nccl, *libraries(now_device), status=0, RANK="0", WORLD_SIZE="1", LOCAL_RANK="0")
        run(*nccl, *alone, *libraries(null_device), status=1, says="infer")
        run(*nccl, *alone, *libraries("/nowhere/lib.so"), status=2, says="needs a GPU: cannot open CUDA runtime")
        run(*nccl, "--rank", "0", "--world", "2", "--timeout", "1", *libraries(now_device), status=2, says="rank 1 of 2")
        run(*nccl, status=2, says="which rank is this?")
        run(*nccl, "--rank", "3", "--world", "2", status=2, says="beyond a world of 2")
        run("--backend", "nccl", *alone, status=2, says="needs --share")
        run("--share", ".", status=2, says="go with --backend nccl")
        if not shutil.which("nvidia-smi"):
            done = run(*nccl, *alone, status=2, says="needs a GPU")
            assert done.stderr.count("\n") == 1, done.stderr


if __name__ == "__main__":
    main(*sys.argv[1:])
