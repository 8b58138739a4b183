#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A rank that is killed, or hangs, ends the job: mpiexec fails, within the timeout, and no process of it is left.

    kill.py MPIEXEC PROGRAM
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

LIMIT = 30  # the ranks' own timeout is 3 s; the rest is for a busy machine


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def one(mpiexec, program, when, victim, *more):
    with tempfile.TemporaryDirectory() as folder:
        since = time.monotonic()
        done = subprocess.run([mpiexec, "-n", "4", program, when, str(victim), folder, *more], capture_output=True, text=True,
                              timeout=LIMIT)
        pids = [int(name) for name in os.listdir(folder)]
        while any(alive(pid) for pid in pids) and time.monotonic() < since + LIMIT:
            time.sleep(0.05)
        left = [pid for pid in pids if alive(pid)]
    what = " ".join((f"rank {victim} hung" if when == "hung" else f"rank {victim} killed {when}",) + more)
    if len(pids) != 4:
        sys.exit(f"{what}: {len(pids)} ranks began\n{done.stderr}")
    if done.returncode == 0:
        sys.exit(f"{what}: mpiexec says 0\n{done.stdout}{done.stderr}")
    if left:
        sys.exit(f"{what}: processes {left} are left")
    print(f"{what}: status {done.returncode}, {time.monotonic() - since:.1f} s")


def main(mpiexec, program):
    os.environ["OMPI_MCA_orte_abort_on_non_zero_status"] = "1"  # Open MPI as users have it; other tests have 0
    for when in ("before", "during", "after"):
        for victim in (0, 2) if when == "during" else (1,):
            one(mpiexec, program, when, victim)
    one(mpiexec, program, "during", 1, "messages")
    version = subprocess.run([mpiexec, "--version"], capture_output=True, text=True).stdout
    if "Open MPI" in version or "OpenRTE" in version:
        print("rank 1 hung: left out, as Open MPI 4.1's mpiexec itself crashes or hangs now and then after MPI_Abort")
        return
    one(mpiexec, program, "hung", 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
