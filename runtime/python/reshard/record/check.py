# SPDX-License-Identifier: Apache-2.0
"""Holds a layout written by hand against what a loader was seen to do.

In: a layout, recordings of all ranks. Out: the differences. Both are compiled against the same training side, which holds
every tensor whole, and the plans are compared by meaning: `reshardc`, `reshard diff`.
"""
import json
import pathlib
import tempfile

from .. import tools
from .emit import layout, read_elements
from .text import Loops, indent, quote


def _training(recordings):
    """Every tensor that the loader read, whole, on one rank."""
    tensors, used = recordings[0].tensors, read_elements(recordings)
    names = [n for n in tensors if n in used]
    declared = [(n, f"tensor {quote(n)} {tensors[n][0]} [{', '.join(map(str, tensors[n][1]))}];") for n in names]
    lines = Loops().fold(declared) + ["mesh whole [one: 1];", "on whole {"]
    lines += indent(Loops().fold([(n, f"buffer {quote(n)};") for n in names])) + ["}"]
    return "\n".join(lines) + "\n"


def _same(hand, recorded, limit=20):
    """What differs between two plans, of what they say about inference buffers."""
    done = tools.run("reshard", "diff", recorded, hand, "--json")
    if done.returncode == 2:
        raise RuntimeError(done.stderr.strip())
    found = json.loads(done.stdout)
    out = []
    world = found["world"]["infer"]
    if world["old"] != world["new"]:
        out.append(f"the loader was recorded on {world['old']} ranks, the layout has {world['new']}")
    for kind, text in (("removed", "the loader fills it, the layout lacks it"),
                       ("added", "the layout has it, the loader fills no such buffer"), ("changed", None)):
        for b in found["buffers"][kind]:
            if b["side"] != "infer":
                continue
            why = text or "; ".join(_changed(b, what) for what in b["what"])
            out.append(f"buffer '{b['name']}' on ranks {_ranks(b['ranks'])}: {why}")
    if len(out) > limit:
        out[limit:] = [f"and {len(out) - limit} more"]
    return out


def _changed(b, what):
    if what == "elements":
        return "it holds other elements"
    return f"{what} {b['new'][what]} in the layout, {b['old'][what]} in the engine"


def _ranks(ranks):
    ranks = [r if not isinstance(r, dict) else r.get("infer_rank") for r in ranks]
    return ", ".join(map(str, ranks[:8])) + (" ..." if len(ranks) > 8 else "")


def check(path, recordings, options=()):
    """A list of differences, empty if the layout says what the loader does. `options` go to reshardc with the layout, such
    as ("-D", "TP=2")."""
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        train, recorded = scratch / "checkpoint.layout", scratch / "recorded.layout"
        train.write_text(_training(recordings))
        recorded.write_text(layout(recordings))
        done = tools.run("reshardc", train, recorded, "-o", scratch / "recorded.plan")
        if done.returncode:
            raise RuntimeError(f"the recorded layout does not compile:\n{done.stderr.strip()}")
        done = tools.run("reshardc", train, path, "-o", scratch / "hand.plan", *options)
        if done.returncode == 1:
            return [f"the layout does not fit the checkpoint that was recorded:\n{done.stderr.strip()}"]
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        return _same(scratch / "hand.plan", scratch / "recorded.plan")
