#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""reshardc and the frame of reshard from the outside: exit codes, streams, files, colour, JSON."""

import argparse
import json
import os
import pty
import re
import resource
import signal
import subprocess
import sys
import tempfile

TRAIN = """tensor "w" f32 [8, 8];
param TP = 2;
mesh gpus [tp: TP];
on gpus { buffer "w" = "w"[8 @tp, 8]; }
"""
INFER = """tensor "w" f32 [8, 8];
mesh gpus [tp: 4];
on gpus { buffer "w" = "w"[8, 8 @tp]; }
"""
MODEL = 'reshard-model: 1\ndtype: f32\ntensors: [{name: w, shape: [8, 8]}]\n'
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


class Case:
    def __init__(self, bin_dir, where):
        self.bin, self.where = bin_dir, where

    def path(self, name):
        return os.path.join(self.where, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as out:
            out.write(text)
        return name

    def read(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()

    def run(self, *args, tool="reshardc", stdin=b"", env=None, stdout=subprocess.PIPE, preexec_fn=None):
        full = dict(os.environ, LC_ALL="C")
        full.pop("NO_COLOR", None)
        full.update(env or {})
        done = subprocess.run([os.path.join(self.bin, tool), *args], cwd=self.where, input=stdin, stdout=stdout,
                              stderr=subprocess.PIPE, env=full, timeout=30, check=False, preexec_fn=preexec_fn)
        return done.returncode, done.stdout, done.stderr.decode("utf-8", "replace")

    def want(self, status, words, *args, **more):
        code, out, err = self.run(*args, **more)
        text = (out or b"").decode("utf-8", "replace") + err
        check(code == status, f"{args}: exit {code}, not {status}", text)
        for word in [words] if isinstance(words, str) else words:
            check(word in text, f"{args}: '{word}' is not in the output", text)
        return out, err


def usage(c):
    c.want(0, ["Usage: reshardc", "Exit status", "--staging"], "--help")
    c.want(0, "reshardc 0.", "--version")
    c.want(0, "mesh has no axis", "--explain", "RS0031")
    c.want(0, "mesh has no axis", "--explain=31")
    c.want(2, "no such code", "--explain=RS9999")
    c.want(2, ["TRAIN and INFER", "Try 'reshardc --help'."])
    c.want(2, "TRAIN and INFER", "a", "-o", "p")
    c.want(2, "'c' is one input too many", "a", "b", "c", "-o", "p")
    c.want(2, "-o PLAN", "a", "b")
    c.want(2, "Try 'reshardc --help'.", "a", "b", "--nonsense")
    c.want(2, "only one input", "-", "-", "-o", "p")
    c.want(2, "standard output", "a", "b", "-o", "-", "--json")
    c.want(2, "from 1 B to less than 8 EiB", "a", "b", "-o", "p", "--staging=12furlongs")
    c.want(2, "from 1 B to less than 8 EiB", "a", "b", "-o", "p", "--staging=9EiB")
    c.want(2, "a number from 2", "a", "b", "-o", "p", "--max-ops=1")
    c.want(2, "did you mean 'layout'", "a", "b", "--dump=layuot")
    c.want(2, "did you mean 'resolve'", "a", "b", "--stop-after=resolv")
    c.want(2, "NAME=VALUE", "a", "b", "-o", "p", "-D", "TP")
    c.want(2, "-o -, --json", "a", "b", "--dump=ast", "--json")
    with open("/dev/full", "wb") as full:
        c.want(2, "cannot write standard output", "--help", stdout=full)


def frame_of_reshard(c):
    c.want(0, ["Usage: reshard VERB", "show"], "--help", tool="reshard")
    c.want(0, "reshard 0.", "--version", tool="reshard")
    c.want(2, "a verb is missing", tool="reshard")
    c.want(2, "did you mean 'show'", "shwo", tool="reshard")
    c.want(2, "no verb 'frobnicate'", "frobnicate", tool="reshard")
    out, _ = c.want(0, "", "--help", tool="reshard")
    for line in out.decode().split("Verbs:\n")[1].split("\n\n")[0].splitlines():
        verb = line.split()[0]
        c.want(0, verb, verb, "--help", tool="reshard")
        c.want(0, verb, "help", verb, tool="reshard")
        c.want(2, "nonsense", verb, "--nonsense", tool="reshard")


def compiles(c):
    c.write("t", TRAIN)
    c.write("i", INFER)
    out, err = c.want(0, "", "t", "i", "-o", "p")
    check(out == b"", "stdout is empty after -o FILE", out)
    check("coverage: 1 tensor, 64 elements, 256 B (" in err.splitlines()[-1], "the last line states the coverage", err)
    check("\033" not in err, "no colour in a pipe", err)
    plan = c.read("p")
    check(plan[:8] == b"\211RESHARD", "the plan begins with its magic")
    check(c.run("t", "i", "-o", "-")[1] == plan, "-o - gives the same bytes")
    check(c.run("-", "i", "-o", "-", stdin=TRAIN.encode())[1][:8] == plan[:8], "TRAIN may be -")
    check(c.run("t", "-", "-o", "-", stdin=INFER.encode())[1][:8] == plan[:8], "INFER may be -")
    c.want(0, "pass", "t", "i", "-o", "/dev/null", "--stats")
    c.want(0, "", "t", "i", "-o", "q", "-D", "TP=4", "--staging=1MiB", "--chunk=4096", "--max-ops=16")
    check(c.read("q") != plan, "-D and limits make another plan")
    c.want(1, "TQ", "t", "i", "-o", "q", "-D", "TQ=4")
    c.want(2, "nowhere", "t", "i", "-o", "nowhere/p")
    c.want(2, "one of the inputs", "t", "i", "-o", "./t")
    c.want(2, "cannot write", "t", "i", "-o", ".")
    for form in ("ast", "layout", "placement", "flows", "cluster", "routes", "rounds", "plan"):
        out, _ = c.want(0, "", "t", "i", f"--dump={form}")
        check(out.strip() != b"", f"--dump={form} prints something")
    for stage in ("parse", "resolve", "place", "pair", "intersect", "topology", "route", "schedule", "lower", "emit"):
        out, err = c.want(0, "", "t", "i", f"--stop-after={stage}")
        check(out == b"" and (err == "" or stage == "emit"), f"--stop-after={stage} is silent", err)
    c.write("m.yaml", MODEL)
    c.write("c.yaml", CLUSTER)
    lines = "\n".join(TRAIN.splitlines()[1:]), "\n".join(INFER.splitlines()[1:])
    c.write("t2", lines[0])
    c.write("i2", lines[1])
    c.want(0, "1 tensor", "t2", "i2", "--model", "m.yaml", "--cluster=c.yaml", "-o", "p2")
    c.want(1, "bad.yaml:1:1: error[RS0309]", "t2", "i2", "--model=m.yaml", "--cluster", c.write("bad.yaml", "x: 1"), "-o", "p2")


def small_files():
    """A disk that is full after 8 KiB, by error, not by signal."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))


def full_disk(c):
    """A plan that does not fit leaves the one before, and nothing else."""
    c.write("t", TRAIN)
    c.write("i", INFER)
    c.run("t", "i", "-o", "p")
    before, files = c.read("p"), sorted(os.listdir(c.where))
    _, err = c.want(2, ["cannot write", "too large"], "t", "i", "-o", "p", preexec_fn=small_files)
    check("coverage" not in err, "no coverage is claimed", err)
    out, _ = c.want(2, '"trouble"', "t", "i", "-o", "p", "--json", preexec_fn=small_files)
    check(json.loads(out)["plan_id"] is None, "and no plan in the JSON", out)
    check(c.read("p") == before and sorted(os.listdir(c.where)) == files, "whole or not at all", os.listdir(c.where))
    c.want(2, "cannot write", "t", "i", "-o", "/dev/full")


def limits(c):
    """Limits that cost time are named, and what is said to do does."""
    c.write("t", 'tensor "w" f32 [4096, 1024];\nmesh m [x: 4];\non m { buffer "w" = "w"[4096 @x, 1024]; }\n')
    c.write("i", 'tensor "w" f32 [4096, 1024];\nmesh m [x: 4];\non m { buffer "w" = "w"[4096, 1024 @x]; }\n')
    apart = ["--cluster=c.yaml"]
    c.write("c.yaml", CLUSTER.split("hosts:")[0] + 'hosts:\n  - {names: "h[0-7]", gpus: 1, nics: 1}\ntrain: "h[0-3]"\ninfer: "h[4-7]"\n')
    _, err = c.want(0, "", "t", "i", "-o", "p", *apart)
    check("note:" not in err, "no limit costs anything by default", err)
    for limits, wanted in ((["--staging=64KiB"], r"--staging=\d+MiB"), (["--max-ops=3"], r"--max-ops=\d+")):
        _, err = c.want(0, "the limits cost time", "t", "i", "-o", "p", *limits, *apart)
        would = re.search(rf"cost time: ({wanted}) would do with (\d+) rounds, where there are \d+\n", err)
        check(would is not None, "the limit and what would do are named", err)
        _, err = c.want(0, "", "t", "i", "-o", "p", would.group(1), *apart)
        rounds = json.loads(c.want(0, "", "t", "i", "-o", "p", "--json", would.group(1), *apart)[0])["rounds"]
        check("note:" not in err and rounds == int(would.group(2)), f"{would.group(1)} does", f"{rounds}: {err}")
    # What goes from buffer to buffer takes no staging, and does not count.
    for side in "ti":
        c.write(f"mixed.{side}", 'tensor "v" f32 [4096, 4096];\n' + c.read(side).decode().replace('buffer "w"', 'buffer "v" = "v"[4096 @x, 4096]; buffer "w"'))
    rounds = json.loads(c.want(0, "", "mixed.t", "mixed.i", "-o", "p", "--json", *apart)[0])["rounds"]
    same = json.loads(c.want(0, "", "mixed.t", "mixed.i", "-o", "p", "--json", "--staging=2MiB", *apart)[0])["rounds"]
    check(rounds == same, "room for what is staged is enough", f"{rounds} rounds, {same} with less staging")
    _, err = c.want(1, "--max-peers=4 would do", "t", "i", "-o", "p", "--max-peers=3", *apart)
    c.want(0, "", "t", "i", "-o", "p", "--max-peers=4", *apart)


def forgotten(c):
    """A tensor that is declared, and that no buffer and no skip names, is said once; nothing else is."""
    names = [f"t{n}" for n in range(5)]
    declared = "".join(f'tensor "{name}" f32 [8]; ' for name in names)
    mesh = "mesh m [tp: 2]; on m { %s }"
    c.write("ft", declared + mesh % 'buffer "t0"; buffer "t1";')
    c.write("fi", declared + mesh % 'buffer "t1";' + ' skip "t[02]";')
    c.write("fa", declared + mesh % 'buffer "t0"; buffer "t1";' + ' skip "t0";' + ' skip "t[234]";')
    c.write("f1", 'tensor "t1" f32 [8]; ' + mesh % 'buffer "t1";')
    c.write("f5", declared + mesh % "".join(f'buffer "{name}";' for name in names))
    c.write("f2", declared + 'tensor "lm_head.weight" f32 [9]; ' + mesh % "".join(f'buffer "{n}";' for n in names))
    note = "note: %s in no buffer and no skip of either layout: %s\n"
    _, err = c.want(0, note % ("2 of the 5 tensors are", "t3, t4"), "ft", "fi", "-o", "p")
    check(err.count("note:") == 1, "said once", err)
    c.want(0, note % ("1 of the 6 tensors is", "lm_head.weight"), "f2", "f5", "-o", "p")
    c.write("f3", declared + mesh % 'buffer "t1";')
    c.want(0, note % ("4 of the 5 tensors are", "t0, t2, t3 and 1 more"), "f1", "f3", "-o", "p")
    for pair in (("ft", "fa"), ("f1", "f1"), ("f5", "f5")):
        _, err = c.want(0, "coverage", *pair, "-o", "p")
        check("note:" not in err, f"{pair}: nothing is forgotten", err)


def whole_words(c):
    """A stream that many rounds share is cut where words of its slots end: what lies aligned stays so in every turn."""
    for side, cut in (("t", '"w"[_ @tp, _]'), ("i", '"w"[_, _ @tp]')):
        c.write(side, 'tensor "w" bf16 [10006, 1010]; mesh m [tp: 2]; on m { buffer "w" = %s; }' % cut)
    out, _ = c.want(0, "", "t", "i", "-o", "p", "--chunk=1000000", "--dump=rounds")
    cuts = [(int(n), int(q)) for n, q in re.findall(r"(\d+) bytes: .* quantum (\d+)", out.decode())]
    check(len(cuts) == 4 and all(q < n for n, q in cuts), "streams take several rounds", out)
    check(all(q % 128 == 0 for _, q in cuts), "cuts are multiples of 128", out)
    c.want(0, "", "verify", "p", tool="reshard")


def few_operations(c):
    """However few operations a round may have, more rounds do: also where pieces are passed on from rank to rank, from
    domain to domain."""
    c.write("two", 'tensor "w" f32 [4096, 64]; mesh m [tp: 2]; on m { buffer "w"[_ @tp, _]; }')
    for n, cut in enumerate(('"w"', '"w"[_, _ @tp]', 'permute("w"[_ @tp, _], 1, 0)')):
        c.write(f"many{n}", 'tensor "w" f32 [4096, 64]; mesh m [dp: 6, tp: 8]; on m { buffer "w" = %s; }' % cut)
    c.write("twice", 'tensor "w" f32 [4096, 64]; mesh m [dp: 6, tp: 8]; on m { buffer "a" = "w"; buffer "b" = permute("w", 1, 0); }')
    _, err = c.want(1, ["error[RS0230]", "raise --max-ops"], "two", "twice", "-o", "p", "--max-ops=2")
    check("--staging" not in err, "only the limit that is too small is named", err)
    pairs = [("t3", "i3"), ("two", "many0"), ("two", "many1"), ("two", "many2")]
    for train, infer in pairs:
        for ops in (2, 3, 5):
            c.want(0, "", train, infer, "-o", "p", f"--max-ops={ops}")
            c.want(0, "", "verify", "p", tool="reshard")
            out, _ = c.want(0, "", "show", "p", "--json", tool="reshard")
            check(json.loads(out)["limits"]["max_ops"] == ops, f"{infer}: {ops} operations", out)
            c.want(0, "right", "run", "p", "--mode", "staged", "--delay-seed", "1", "--repeat", "1", tool="reshard")


def states_replicas(c):
    """The plan says which places are replicas: verify has no use for it, its readers have."""
    c.write("t8", 'tensor "w" f32 [8];\nmesh m [pp: 2];\non m[pp = 0] { buffer "a" = "w"; }\n'
            'on m[pp = 1] { buffer "b" = replica "w"; }\n')
    c.write("i8", 'tensor "w" f32 [8];\nmesh m [x: 1];\non m { buffer "w"; }\n')
    out, _ = c.want(0, "", "t8", "i8", "--dump=plan")
    pieces = [line.split()[-1] for line in out.decode().splitlines() if line.startswith("    piece ")]
    check(pieces == ["1)", "replica", "1)"], "pieces of the plan that are replicas", str(pieces))


def all_of_a_file(c):
    """What is wrong with each file alone comes in one run: names, cuts, shapes. What a mistake brings with it does not."""
    c.write("t5", 'tensor "w" f32 [8, 8];\ntensor "v" f33 [8];\nmesh m [tp: 3];\nlet n = k;\n'
            'on m { buffer "w"[_ @tp, _]; buffer "u" = "w"[n]; buffer "v"; buffer "x"; buffer "f" = "w"[63]; }\n')
    c.write("i5", 'tensor "w" f32 [8, 8];\nmesh m [tp: 3];\non m { buffer "w"[_, _ @tp]; }\n')
    _, err = c.want(1, "", "t5", "i5", "-o", "p")
    heard = re.findall(r"(.5:\d+):\d+: error\[(RS\d+)\]", err)
    check(heard == [("t5:2", "RS0063"), ("t5:4", "RS0020"), ("t5:5", "RS0060"), ("t5:5", "RS0201"), ("t5:5", "RS0200"),
                    ("i5:3", "RS0201")], "all errors of both files, once each", err)
    c.write("t6", 'include "gone";\nmesh m [tp: N];\n' + INFER)
    _, err = c.want(1, "RS0015", "t6", "i5", "-o", "p")
    check("RS0020" not in err, "what a missing include would have defined is not missing too", err)
    _, err = c.want(1, "RS0020", "t5", "i5", "--stop-after=resolve")
    check("RS0201" not in err, "resolve alone", err)


def once_for_a_loop(c):
    """A statement that fails is reported once, with the loop values, whatever stage finds it; each one that fails is."""
    def heard(train, infer, *words):
        c.write("t7", train), c.write("i7", infer)
        _, err = c.want(1, list(words), "t7", "i7", "-o", "p")
        return re.findall(r"(.7:\d+):\d+: error\[(RS\d+)\]", err)
    mesh = "mesh m [x: 3];\n"
    nine = 'for l in 0..9 { tensor "v{l}" f32 [%s]; }\n'
    each = 'on m { for l in 0..9 { buffer "v{l}"%s; } }\n'
    good = mesh + nine % "8 + l" + each % ""
    cut = heard(mesh + nine % "8 + l" + each % "[_ @x]", good, "at l = 0")  # 8, 10 and 11 are uneven
    check(cut == [("t7:3", "RS0201")], "a cut", str(cut))
    both = heard(mesh + nine % "8" + "def f(w) = w[7];\n" + 'on m {\nbuffer "a" = "v0"[7];\nbuffer "b" = "v1"[7];\n'
                 'buffer "c" = f("v2");\n}', mesh + nine % "8" + each % "", "t7:7:8: note: in buffer 'c'")
    check(both == [("t7:5", "RS0200"), ("t7:6", "RS0200"), ("t7:3", "RS0200")], "statements that are alike", str(both))
    cast = heard(mesh + nine % "8 + l" + each.replace('"v{l}"%s', '"v{l}" bf16 = "v{l}"'), good, "at l = 0")
    check(cast == [("t7:3", "RS0204")], "a dtype", str(cast))
    lack = heard(mesh + 'tensor "u" f32 [1];\non m { buffer "u"; }', good, "at l = 0", "8 more: 'v1', 'v2', 'v3', 'v4', ...")
    check(lack == [("t7:3", "RS0222"), ("i7:3", "RS0221")], "what nobody supplies", str(lack))
    twice = heard(good + 'on m { for l in 2..5 { buffer "u{l}" = "v{l}"; } }', good, "at l = 2", "2 more: 'v3', 'v4'")
    check(twice == [("t7:3", "RS0223")], "what is supplied twice", str(twice))
    shape = heard(mesh + nine % "8" + each % "", good)  # v0 agrees
    check(shape == [("i7:2", "RS0220")], "declarations that disagree", str(shape))


def too_many_pieces(c):
    """Cuts whose blocks do not nest leave as many pieces as the product of their periods; regular ones stay few."""
    one = 'tensor "w" u8 [%d]; mesh m [a: 2, b: 2];\non m {%s }\n' % (10**9, '\n buffer "%s" = "w"[_ %s];')
    two = one.replace(" }", '\n buffer "y" = "w"[_ @a:cyclic(1000003)]; }')
    whole = one % ("w", "")
    cases = {"place": (one % ("w", "@a:cyclic(3) @b:cyclic(1000003)"), whole, ["t6:3:34: ", "at a = 0, b = 0"]),
             "pair": (one % ("w", "@a:cyclic(3)"), one % ("v", "@b:cyclic(1000003)"), ["i6:3:9: ", "t6:3:9: note"]),
             "intersect": (whole, two % ("x", "@a:cyclic(3)"), ["i6:", "t6:3:9: note"])}
    for stage, (train, infer, words) in cases.items():
        c.write("t6", train), c.write("i6", infer)
        _, err = c.want(1, ["error[RS0209]", "do not nest", "larger block"] + words, "t6", "i6", "-o", "p", "--stats")
        check(err.count("error[") == 1, "one message of " + stage, err)
        check(re.search("^%s " % stage, err, re.M) is not None, "said by " + stage, err)
        after = {"place": "pair", "pair": "intersect", "intersect": "topology"}[stage]
        check(re.search("^%s " % after, err, re.M) is None, "nothing after " + stage, err)
    c.want(0, "2^19", "--explain", "RS0209")
    large = 'tensor "w" u8 [%d]; mesh m [a: 8, b: 4]; on m { buffer "w" = "w"[_ %s]; }'
    c.write("t6", large % (1 << 45, "@a:cyclic(4096) @b:cyclic(8)")), c.write("i6", large % (1 << 45, "@b:cyclic(64) @a"))
    c.want(0, "", "t6", "i6", "--stop-after=intersect")


def rejects(c):
    c.write("t", TRAIN)
    c.write("i", INFER)
    c.write("bad", INFER.replace("@tp", "@tq"))
    c.run("t", "i", "-o", "p")
    before = c.read("p"), os.stat(c.path("p")).st_mtime_ns
    out, err = c.want(1, "bad:3:", "t", "bad", "-o", "p")
    check("^" in err and "error[RS0031]" in err and out == b"", "a caret, a code, on stderr", err)
    check((c.read("p"), os.stat(c.path("p")).st_mtime_ns) == before, "an older plan is untouched")
    check(not [f for f in os.listdir(c.where) if "tmp" in f], "no temporary file is left", str(os.listdir(c.where)))
    c.want(2, ["missing", "No such file"], "missing", "i", "-o", "p")
    c.want(2, ["missing", "No such file"], "t", "missing", "-o", "p")
    c.want(2, ["missing", "No such file"], "t", "i", "-o", "p", "--model=missing")
    c.want(2, ["missing", "No such file"], "t", "i", "-o", "p", "--cluster=missing")
    c.want(1, ["inc:1:", "missing"], c.write("inc", 'include "missing";\n' + TRAIN), "i", "-o", "p")
    c.write("m.yaml", MODEL.replace("f32", "f33"))
    for side, text in (("t2", TRAIN), ("i2", INFER)):
        c.write(side, 'model "m.yaml";\n' + "\n".join(text.splitlines()[1:]))
    _, err = c.want(1, "m.yaml:2:8: error[RS0320]", "t2", "i2", "-o", "p")
    check(err.count("error[") == 1, "a model that both sides read is wrong once", err)
    _, err = c.want(1, ["error[RS0230]", "raise --staging"], "t", "i", "-o", "p", "--staging=8")
    check("--max-ops" not in err, "only the limit that is too small is named", err)
    big = 'tensor "w" u8 [%d]; mesh m [tp: %%d]; on m { buffer "w" = "w"[_ @tp]; }' % (6 << 21)
    c.write("t4", big % 2), c.write("i4", big % 3)
    c.want(1, ["error[RS0232]", "rounds would be needed"], "t4", "i4", "-o", "p", "--chunk=1")
    c.write("t3", 'tensor "w" f32 [63, 5]; mesh m [dp: 2, tp: 3]; on m { buffer "w"[_ @tp, _]; }')
    c.write("i3", 'tensor "w" f32 [63, 5]; mesh m [tp: 7]; on m { buffer "a" = slice("w", 0, 10, 30);'
            ' buffer "b" = permute("w", 1, 0)[_, _ @tp:cyclic(2)]; }')
    few_operations(c)
    too_many_pieces(c)
    states_replicas(c)
    all_of_a_file(c)
    once_for_a_loop(c)
    c.want(1, "", "t", "bad", "-o", "never")
    check(not os.path.exists(c.path("never")), "no plan after a refusal")


def directories(c):
    """The same files give the same bytes, wherever the compiler is started and however their paths are spelled."""
    os.makedirs(c.path("one/parts"))
    os.mkdir(c.path("two"))
    c.write("one/side", 'include "parts/w";\n' + "\n".join(TRAIN.splitlines()[1:]))
    c.write("one/parts/w", 'include "../../two/w";\n')
    c.write("two/w", TRAIN.splitlines()[0] + "\n")
    c.write("two/side", 'include "w";\ninclude "on";\n')
    c.write("one/on", "\n".join(INFER.splitlines()[1:]))
    plans = []
    for where, train, infer, include in ((".", "one/side", "two/side", "one"), (".", "./one/../one/side", "two//side", "two/../one"),
                                         ("one", "side", "../two/side", "."), ("two", c.path("one/side"), "./side", c.path("one")),
                                         ("/", c.path("one/side"), c.path("two/side"), c.path("one"))):
        there = Case(c.bin, c.path(where))
        there.want(0, "", train, infer, "-I", include, "-o", c.path("p"))
        plans.append(c.read("p"))
    check(len(set(plans)) == 1, "one plan from any directory", [hash(p) for p in plans])
    check(b"two" not in c.read("p") and b"one" not in c.read("p"), "the plan does not say where its inputs lay")
    c.write("one/on", "\n".join(INFER.splitlines()[1:]).replace("@tp", "@tq"))
    c.want(1, "one/on:2:", "./one/side", "two/side", "-I", "one", "-o", "p")


def json_object(c):
    c.write("t", TRAIN)
    c.write("i", INFER)
    c.write("bad", INFER.replace("@tp", "@tq"))
    out, _ = c.want(0, "", "t", "i", "-o", "p", "--json")
    got = json.loads(out)
    check(got["schema"] == "reshardc/1" and got["status"] == "compiled" and got["plan"] == "p", "json", out)
    check(len(got["plan_id"]) == 32 and got["plan_bytes"] == len(c.read("p")), "json: plan", out)
    check(got["world"] == 6 and got["train_world"] == 2 and got["infer_world"] == 4, "json: worlds", out)
    check(got["coverage"] == {"tensors": 1, "elements": 64, "bytes": 256, "deliveries": 64}, "json: coverage", out)
    check(got["bytes"]["wanted"] == 256 and got["bytes"]["network_minimum"] == 256, "json: bytes", out)
    check(got["seconds"]["compile"] > 0 and got["passes"] and got["stats"]["tensors"] > 0, "json: figures", out)
    check(got["diagnostics"] == [], "json: no diagnostics", out)
    out, _ = c.want(1, "", "t", "bad", "-o", "p", "--json")
    bad = json.loads(out)
    check(bad["status"] == "rejected" and bad["plan"] is None and set(bad) == set(got), "json: rejected", out)
    check(bad["diagnostics"][0]["code"] == "RS0031" and bad["diagnostics"][0]["severity"] == "error", "json: code", out)
    out, _ = c.want(0, "", "t", "i", "--stop-after=place", "--json")
    check(json.loads(out)["status"] == "stopped", "json: stopped", out)
    c.write("bytes", 'tensor "w\udcff" f32 [8];'.encode("utf-8", "surrogateescape").decode("latin-1"))
    with open(c.path("bytes"), "wb") as f:
        f.write(b'tensor "w\xff" f33 [8];\n')
    out, _ = c.want(1, "", "bytes", "i", "-o", "p", "--json")
    check("\ufffd" in json.loads(out)["diagnostics"][0]["text"], "json: bytes that are not UTF-8", out)


def colour(c):
    c.write("t", TRAIN)
    c.write("bad", INFER.replace("@tp", "@tq"))
    for env, expected in (({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False),
                          ({"TERM": "xterm", "NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)):
        main, sub = pty.openpty()
        full = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
        full.update(env)
        child = subprocess.Popen([os.path.join(c.bin, "reshardc"), "t", "bad", "-o", "p"], cwd=c.where, stderr=sub,
                                 stdout=subprocess.DEVNULL, env=full)
        os.close(sub)
        text = b""
        try:
            while chunk := os.read(main, 65536):
                text += chunk
        except OSError:  # the other end is closed
            pass
        child.wait(timeout=30)
        os.close(main)
        check((b"\033[" in text) == expected, f"colour with {env}", text)
        plain = text.replace(b"\033[", b"")
        check(b"RS0031" in plain, "the message is there", text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    bin_dir = os.path.abspath(parser.parse_args().bin)
    for test in (usage, frame_of_reshard, compiles, full_disk, limits, forgotten, whole_words, rejects, directories, json_object, colour):
        with tempfile.TemporaryDirectory() as where:
            test(Case(bin_dir, where))
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
