#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`reshard show` and `reshard diff` on the tiny plan and on plans that differ from it in one thing.

In: the directory of the tools, the program that makes the plans, the directory of the goldens, [--update].
Out: one line per fault; exit 0 or 1.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

SAME = ["none", "line", "inputs", "pieces", "parts", "tensors"]
# What differs: the key of the JSON object and a word of the page.
DIFFERENT = {
    "elements": ("buffers", "holds other elements"),
    "dtype": ("tensors", "w f32 [4, 4] -> bf16 [4, 4]"),
    "skip": ("tensors", "skipped by train"),
    "tensor": ("tensors", "+ h0 bf16 [8]"),
    "name": ("buffers", "+ infer w f32 [4, 2], ranks 0-1"),
    "seat": ("ranks", "h1:0 in h1 -> h1:3 in h1"),
    "limit": ("limits", "max_ops"),
    "rates": ("rates_changed", "bandwidths"),
    "route": ("routes", "16 B over nvlink, other elements"),
    "round": ("schedule", "1 pair of ranks exchanges the same in other rounds"),
}
RANK_KEYS = """rank train_rank infer_rank host gpu domain network_out network_in nvlink_out nvlink_in local messages ops
    staging slice_bytes held_bytes""".split()

faults = []


def must(condition, text):
    if not condition:
        faults.append(text)


class Verbs:
    def __init__(self, tools, maker, work):
        self.tool, self.maker, self.work = pathlib.Path(tools) / "reshard", maker, pathlib.Path(work)

    def plan(self, what):
        path = self.work / f"{what}.plan"
        subprocess.run([self.maker, what, path], check=True)
        return str(path)

    def run(self, *args, stdin=None, env=None):
        return subprocess.run([self.tool, *args], stdin=stdin, capture_output=True, text=True, env=env)


def figures(ranks):
    keys = ["network_out", "network_in", "nvlink_out", "nvlink_in", "local", "messages", "ops", "staging"]
    return [[rank[key] for key in keys] for rank in ranks]


def check_show_json(verbs):
    tiny = verbs.plan("none")
    answer = verbs.run("show", tiny, "--json")
    must(answer.returncode == 0 and answer.stderr == "", "show --json: status or stderr")
    plan = json.loads(answer.stdout)
    for key in ["plan_id", "world", "rounds", "tensors", "coverage", "bytes", "seconds", "limits", "ranks"]:
        must(key in plan, f"show --json: no {key}")
    must(plan["bytes"] == {"wanted": 96, "local": 32, "nvlink": 16, "network": 48, "network_minimum": 48}, "show: bytes")
    must(plan["coverage"] == {"tensors": 2, "elements": 32, "bytes": 96, "deliveries": 32}, "show: coverage")
    must((plan["world"], plan["rounds"], plan["tensors"]) == (3, 2, 2), "show: world, rounds, tensors")
    must(all(key in rank for rank in plan["ranks"] for key in RANK_KEYS), "show: a rank lacks a key")
    # By hand: staged messages of 8 bytes, two per stream; a direct one of 16; a copy per message and descriptor.
    expected = [[32, 0, 16, 0, 0, 5, 9, 32], [16, 0, 0, 16, 32, 4, 10, 32], [0, 48, 0, 0, 0, 5, 9, 32]]
    must(figures(plan["ranks"]) == expected, f"show: figures are {figures(plan['ranks'])}")
    must([rank["train_rank"] for rank in plan["ranks"]] == [0, 1, None], "show: train ranks")
    must([rank["domain"] for rank in plan["ranks"]] == ["h0", "h0", "h1"], "show: domains")
    total = sum(rank["network_out"] for rank in plan["ranks"])
    must(total == sum(rank["network_in"] for rank in plan["ranks"]) == plan["bytes"]["network"], "show: sums")


def check_show_ops(verbs):
    tiny = verbs.plan("none")
    plan = json.loads(verbs.run("show", tiny, "--ops", "--rank", "0", "--json").stdout)
    must(len(plan["ranks"]) == 1 and plan["ranks"][0]["rank"] == 0, "show --rank: one rank")
    rounds = plan["ranks"][0]["rounds"]
    must([row["round"] for row in rounds] == [0, 1], "show --ops: rounds")
    must([len(row[key]) for row in rounds for key in ("copies", "sends", "receives")] == [2, 2, 0, 2, 3, 0],
         "show --ops: numbers")
    count = sum(len(row[key]) for row in rounds for key in ("copies", "sends", "receives"))
    must(count == plan["ranks"][0]["ops"], "show --ops: as many as `ops`")
    pack = rounds[1]["copies"][1]
    must(pack["staging"] == 24 and pack["bytes"] == 8 and pack["peer"] == 2, "show --ops: a pack")
    must(pack["place"]["buffer"] == "w" and pack["place"]["loops"][0]["stride"] == 16, "show --ops: its strides")
    direct = [send for send in rounds[1]["sends"] if "buffer" in send["place"]]
    must(direct == [{"peer": 2, "bytes": 16, "place": {"buffer": "b", "gid": 1, "offset": 0}}], "show --ops: direct")
    self_copy = json.loads(verbs.run("show", tiny, "--ops", "--rank", "1", "--json").stdout)["ranks"][0]["rounds"][0]
    copies = [row for row in self_copy["copies"] if row["kind"] == "copy"]
    must(len(copies) == 1 and copies[0]["from"]["buffer"] == "w" and copies[0]["to"]["buffer"] == "w_t",
         "show --ops: a local copy")


def ops_of(verbs, what, rank):
    answer = verbs.run("show", verbs.plan(what), "--ops", "--rank", str(rank), "--json")
    return json.loads(answer.stdout)["ranks"][0]


def check_show_relay(verbs):
    for what, rank, peer, place in [("relay", 1, 2, {"staging": 32}), ("again", 2, 2, {"staging": 32}),
                                    ("relay-direct", 1, 2, {"buffer": "b", "gid": 3, "offset": 0}),
                                    ("again-direct", 2, 2, {"buffer": "b", "gid": 3, "offset": 0})]:
        shown = ops_of(verbs, what, rank)
        sends = [(row["round"], send) for row in shown["rounds"] for send in row["sends"] if "relay" in send]
        must(sends == [(1, {"peer": peer, "bytes": 16, "place": place, "relay": 0})], f"show {what}: sends {sends}")
        into = [receive["place"] for receive in shown["rounds"][0]["receives"] if receive["bytes"] == 16]
        must(into == [place], f"show {what}: passed on from elsewhere than it landed: {into}")
        streams = [stream for stream in shown["streams"] if "relay" in stream]
        must([(s["dir"], s["peer"], s["relay"], s["round0"]) for s in streams] == [("out", peer, 0, 1)],
             f"show {what}: streams {streams}")
        count = sum(len(row[key]) for row in shown["rounds"] for key in ("copies", "sends", "receives"))
        must(count == shown["ops"], f"show {what}: as many operations as `ops`")
        must((shown["peers"], shown["local"]) == (2, 16), f"show {what}: peers and local bytes")
        page = verbs.run("show", verbs.plan(what), "--ops", "--rank", str(rank)).stdout
        must(re.search(rf"16 B  send to {peer}, from \S+( 32)?, relayed from 0\n", page), f"show {what}: the page is\n{page}")


def check_diff_relay(verbs):
    """Who brings it is a difference of routes; staged or not is one too, tags are none."""
    page = verbs.run("diff", verbs.plan("none"), verbs.plan("relay")).stdout
    must("train 1 + infer 0    -> infer 1              16 B over network -> 32 B over network" in page, f"diff relay: the page is\n{page}")
    for old, new in [("none", "relay"), ("relay", "relay-direct"), ("again", "again-direct"), ("none", "again")]:
        answer = verbs.run("diff", verbs.plan(old), verbs.plan(new), "--json")
        must(answer.returncode == 1 and json.loads(answer.stdout)["routes"]["changed"], f"diff {old} {new}: same routes")
    same = verbs.run("diff", verbs.plan("relay"), verbs.plan("relay-tag"), "--json")
    must(same.returncode == 0, f"diff relay-tag: {same.stdout}")


def check_show_tensor(verbs):
    tiny = verbs.plan("none")
    plan = json.loads(verbs.run("show", tiny, "--tensor", "[b]", "--json").stdout)
    must([row["name"] for row in plan["tensor_list"]] == ["b"], "show --tensor: names")
    homes = plan["tensor_list"][0]
    must([home["ranks"] for home in homes["train"] + homes["infer"]] == [[0, 1], [0, 1]], "show --tensor: ranks")
    must([home["elements"] for home in homes["infer"]] == [8], "show --tensor: elements, padding left out")
    must(json.loads(verbs.run("show", tiny, "--tensor", "x*", "--json").stdout)["tensor_list"] == [], "show: no tensor")


def check_show_exits(verbs):
    tiny = verbs.plan("none")
    with open(tiny, "rb") as plan:
        must(verbs.run("show", "-", stdin=plan).returncode == 0, "show -: status")
    broken = verbs.work / "broken.plan"
    broken.write_bytes(pathlib.Path(tiny).read_bytes()[:-1])
    must(verbs.run("show", str(broken)).returncode == 1, "show: a truncated plan is no plan")
    must("truncated" in verbs.run("show", str(broken)).stderr, "show: says that it is truncated")
    for args in [["show"], ["show", "none.plan"], ["show", tiny, "--rank", "3"], ["show", tiny, "--rank", "x"],
                 ["show", tiny, "--what"], ["diff", tiny], ["diff", tiny, "none.plan"], ["diff", "-", "-"]]:
        answer = verbs.run(*args)
        must(answer.returncode == 2 and answer.stderr and not answer.stdout, f"{args}: status {answer.returncode}")
    must(verbs.run("diff", tiny, str(broken)).returncode == 1, "diff: a truncated plan is no plan")


def check_diff(verbs):
    tiny = verbs.plan("none")
    for what in SAME:
        for pair in ([tiny, verbs.plan(what)], [verbs.plan(what), tiny]):
            answer = verbs.run("diff", *pair, "--json")
            must(answer.returncode == 0 and json.loads(answer.stdout)["same"], f"diff {what}: not the same")
    for what, (key, words) in DIFFERENT.items():
        page, answer = (verbs.run("diff", tiny, verbs.plan(what), *json_) for json_ in ([], ["--json"]))
        back = verbs.run("diff", verbs.plan(what), tiny)
        must([page.returncode, answer.returncode, back.returncode] == [1, 1, 1], f"diff {what}: status")
        must(words in page.stdout, f"diff {what}: the page is\n{page.stdout}")
        changed, plain = json.loads(answer.stdout), json.loads(verbs.run("diff", tiny, tiny, "--json").stdout)
        must(not changed["same"] and changed[key] != plain[key], f"diff {what}: {key} tells nothing")
        others = [k for k in plain if k not in ("same", "old", "new", key) and plain[k] != changed[k]]
        # Another name is another route too: routes are told by buffers.
        must(others == (["routes"] if what == "name" else []), f"diff {what}: {others} differ as well")
    with open(tiny, "rb") as plan:
        must(verbs.run("diff", "-", tiny, stdin=plan).returncode == 0, "diff -: status")
    must(json.loads(verbs.run("diff", tiny, verbs.plan("inputs"), "--json").stdout)["inputs"][0]["kind"] == "train",
         "diff: a changed input is told")


def keys_of(value):
    if isinstance(value, dict):
        return set(value) | set().union(*(keys_of(item) for item in value.values()))
    return set().union(*(keys_of(item) for item in value)) if isinstance(value, list) else set()


def check_documented(verbs, page):
    tiny, known = verbs.plan("none"), set(re.findall(r"`(\w+)(?:\[\])?`", page.read_text()))
    answers = [["show", tiny, "--tensor", "*", "--ops", "--json"], ["show", tiny, "--rank", "0", "--ops", "--json"]]
    answers += [["show", verbs.plan(what), "--rank", "2", "--ops", "--json"] for what in ("again", "again-direct")]
    answers += [["diff", tiny, verbs.plan(what), "--json"] for what in [*SAME, *DIFFERENT, "relay", "again"]]
    keys = set().union(*(keys_of(json.loads(verbs.run(*args).stdout)) for args in answers))
    must(keys <= known, f"{page.name} does not tell of {sorted(keys - known)}")


def check_replicas(verbs):
    """Many ranks that hold the same many buffers: a short file, nearly all of it shared, with short slices."""
    tensors = "".join(f'tensor "{i}" bf16 [8, 8];\n' for i in range(8000))
    buffers = "".join(f'on gpus {{ buffer "{i}"; }}\n' for i in range(8000))
    for side, mesh in (("train", "x: 1"), ("infer", "x: 512")):
        (verbs.work / f"{side}.layout").write_text(f"{tensors}mesh gpus [{mesh}];\n{buffers}")
    plan = verbs.work / "replicas.plan"
    layouts = [verbs.work / "train.layout", verbs.work / "infer.layout"]
    made = subprocess.run([verbs.tool.with_name("reshardc"), *layouts, "-o", plan], capture_output=True, text=True)
    must(made.returncode == 0, f"replicas: reshardc says {made.stderr[:400]}")
    answer = verbs.run("show", str(plan), "--json")
    must(answer.returncode == 0, f"replicas: show says {answer.stderr}")
    shown = json.loads(answer.stdout or '{"ranks": [], "file_bytes": 0}')
    held = [rank["held_bytes"] for rank in shown["ranks"]]
    must(len(held) == 513 and sum(held) > 64 * shown["file_bytes"], f"replicas: {sum(held)} of {shown['file_bytes']} bytes")
    must(all(8 * rank["slice_bytes"] < 8000 for rank in shown["ranks"][:1]), "replicas: slices are not short")


def check_goldens(verbs, golden, update):
    tiny = verbs.plan("none")
    for name, args in {"show": ["show", tiny, "--rank", "1", "--ops", "--tensor", "*"],
                       "show-json": ["show", tiny, "--json"],
                       "show-relay": ["show", verbs.plan("again"), "--rank", "2", "--ops"],
                       "diff": ["diff", tiny, verbs.plan("seat")]}.items():
        text, path = verbs.run(*args).stdout, pathlib.Path(golden) / f"{name}.golden"
        if update:
            path.write_text(text)
        must(path.exists() and path.read_text() == text, f"{path.name} differs; the answer is\n{text}")


def main(tools, maker, golden, update=None):
    with tempfile.TemporaryDirectory() as work:
        verbs = Verbs(tools, maker, work)
        check_show_json(verbs)
        check_show_ops(verbs)
        check_show_relay(verbs)
        check_show_tensor(verbs)
        check_show_exits(verbs)
        check_diff(verbs)
        check_diff_relay(verbs)
        check_documented(verbs, pathlib.Path(__file__).resolve().parents[2] / "tools/SHOW.md")
        check_replicas(verbs)
        check_goldens(verbs, golden, update == "--update")
    print("\n".join(faults) or "show and diff tell what is there")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
