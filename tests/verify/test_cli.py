#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""reshard verify from the outside: exit codes, text, JSON, whether a plan belongs to its inputs."""

import argparse
import json
import os
import subprocess
import sys
import tempfile

TRAIN = """tensor "w" f32 [8, 8]; tensor "gone" bf16 [4];
mesh gpus [tp: 2];
on gpus { buffer "w" = "w"[8 @tp, 8]; }
skip "gone";
"""
SAME = """# the same, said otherwise
let N = 8;
tensor "gone" bf16 [4]; tensor "w" f32 [N, N];
mesh m [a: 2];
on m { buffer "w"[N @a, _]; }
skip "go*";
"""
INFER = """tensor "w" f32 [8, 8]; tensor "gone" bf16 [4];
param TP = 4;
mesh gpus [tp: TP];
on gpus { buffer "w" = "w"[8, pad(8, 12) @tp]; buffer "gone"; }
"""
CLUSTER = """reshard-cluster: 1
links: {nvlink: {bandwidth: 450e9, latency: 2e-6}, network: {bandwidth: 50e9, latency: 5e-6}, memory: {bandwidth: 3e12}}
hosts: [{names: h, gpus: 8, nics: 8}]
train: h
infer: h
"""

failures = []


def check(ok, what, more=""):
    if not ok:
        failures.append(what)
        print(f"failed: {what}\n{more}")


def on_terminal(*command):
    """The exit status with a terminal as standard output."""
    terminal, output = os.openpty()
    done = subprocess.run(command, stdout=output, stderr=subprocess.DEVNULL)
    os.close(output)
    os.close(terminal)
    return done.returncode


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    tools = parser.parse_args().bin
    with tempfile.TemporaryDirectory() as where:
        run_all(tools, where)
    print(f"{len(failures)} failures")
    sys.exit(1 if failures else 0)


def run_all(tools, where):
    def path(name):
        return os.path.join(where, name)

    def write(name, text):
        with open(path(name), "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        return path(name)

    def run(*command, stdin=None):
        return subprocess.run([os.path.join(tools, command[0]), *command[1:]], capture_output=True, input=stdin)

    def verify(status, what, *arguments, says=b"", stdin=None):
        done = run("reshard", "verify", *arguments, stdin=stdin)
        check(done.returncode == status, f"{what}: exit {done.returncode}", done.stdout + done.stderr)
        check(says in done.stdout + done.stderr, f"{what}: says {says}", done.stdout + done.stderr)
        return done.stdout

    train, same, infer = write("train.layout", TRAIN), write("same.layout", SAME), write("infer.layout", INFER)
    cluster, plan = write("cluster.yaml", CLUSTER), path("p.plan")
    made = run("reshardc", train, infer, "-o", plan)
    check(made.returncode == 0, "reshardc", made.stderr)
    with open(plan, "rb") as file:
        good = file.read()

    verify(0, "a good plan", plan, says=b"proved")
    verify(0, "from standard input", "-", stdin=good, says=b"proved")
    verify(0, "help", "--help", says=b"Exit status")
    verify(1, "truncated", write("t.plan", good[:-1]), says=b"rule")
    verify(1, "extended", write("x.plan", good + b"\0"), says=b"rule")
    verify(1, "edited", write("e.plan", good[:5000] + bytes([good[5000] ^ 1]) + good[5001:]), says=b"rule")
    verify(1, "empty", write("n.plan", b""))
    verify(2, "not there", path("none.plan"))
    verify(2, "no plan")
    verify(2, "an unknown option", plan, "--no-such")
    verify(2, "half of a pair", plan, "--train", train, says=b"go together")
    verify(2, "a define alone", plan, "-D", "TP=2")

    pair = ("--train", train, "--infer", infer)
    verify(0, "its inputs", plan, *pair, says=b"the training layout means what")
    check(on_terminal(os.path.join(tools, "reshard"), "verify", plan, *pair) == 0, "its inputs, on a terminal")
    verify(0, "its inputs, respelt", plan, "--train", same, "--infer", infer, says=b"the training layout means what")
    verify(0, "its inputs, with a define that changes nothing", plan, *pair, "-D", "infer.TP=4")
    verify(1, "another inference side", plan, *pair, "-D", "infer.TP=2", says=b"the inference layout does NOT mean")
    verify(1, "another cluster", plan, *pair, "--cluster", cluster, says=b"the cluster does NOT mean")
    made = run("reshardc", train, infer, "-o", path("c.plan"), "--cluster", cluster)
    check(made.returncode == 0, "reshardc with a cluster", made.stderr)
    verify(1, "a cluster that is not given", path("c.plan"), *pair, says=b"no --cluster was given, so the default")
    verify(0, "a cluster that is given", path("c.plan"), *pair, "--cluster", cluster)
    verify(1, "inputs that do not compile", plan, "--train", write("bad.layout", "mesh"), "--infer", infer,
           says=b"do not compile")
    verify(2, "inputs that are not there", plan, "--train", path("none.layout"), "--infer", infer)

    said = json.loads(verify(0, "JSON", plan, "--json", *pair))
    check(said["proved"] is True and said["violations"] == {}, "JSON: proved", said)
    check(said["inputs"] == {"train": True, "infer": True, "cluster": True}, "JSON: inputs", said)
    figures = said["figures"]
    check(figures["elements"] == 64 and figures["bytes"] == 256 and figures["tensors"] == 1, "JSON: figures", said)
    check(figures["excused"] == 16, "JSON: what a skip excuses on four ranks", said)

    # A compiler with a bug makes a plan with right seals.
    bad = path("bug.plan")
    made = run("reshardc", train, infer, "-o", bad, "--seed-bug", "2")
    check(made.returncode == 0, "reshardc with a bug", made.stderr)
    verify(1, "a flow forgotten", bad, says=b"a wanted element is not delivered: tensor \"w\"")
    said = json.loads(verify(1, "a flow forgotten, JSON", bad, "--json"))
    cover = said["violations"].get("cover", {})
    check(said["proved"] is False and cover.get("tensor") == "w" and cover.get("file") == "infer.layout" and
          cover.get("line") == 4 and cover.get("buffer") == "w" and cover.get("rank") in (2, 3, 4, 5), "JSON: cover", said)


main()
