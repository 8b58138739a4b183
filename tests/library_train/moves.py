# SPDX-License-Identifier: Apache-2.0
"""One layout against the arrays that a framework would hold, both ways: read from it as the training side, and written
to it as the inference side. The other side holds every tensor whole on one rank.
"""
import json
import pathlib
import struct
import subprocess
import tempfile

import numpy as np
import yaml

WORDS = {"u2": "BF16", "u4": "F32"}
WHOLE = 'model "small.yaml";\nmesh m [one: 1];\non m { for n in tensors("*") { buffer "{n}"; } }\n'


def save(path, arrays):
    header, at = {}, 0
    for name, array in arrays.items():
        place = [at, at + array.nbytes]
        header[name] = {"dtype": WORDS[array.dtype.str[1:]], "shape": list(array.shape), "data_offsets": place}
        at += array.nbytes
    text = json.dumps(header).encode()
    data = b"".join(np.ascontiguousarray(a).tobytes() for a in arrays.values())
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def load(path):
    data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + size])
    types = {v: "<" + k for k, v in WORDS.items()}
    out = {}
    for name, t in header.items():
        if name != "__metadata__":
            begin, end = t["data_offsets"]
            out[name] = np.frombuffer(data[8 + size + begin : 8 + size + end], types[t["dtype"]]).reshape(t["shape"])
    return out


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\nexit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def same(what, got, right):
    if sorted(got) != sorted(right):
        raise SystemExit(f"{what}: not both have {sorted(set(got) ^ set(right))}")
    for name, array in right.items():
        if got[name].dtype != array.dtype or not np.array_equal(got[name], array):
            raise SystemExit(f"{what}, {name}:\n{got[name]}\nexpected\n{array}")


class Pair:
    """A scratch directory with a small catalogue, a layout of it, and the layout that holds everything whole."""

    def __init__(self, args, scratch, small, text):
        self.args, self.dir = args, scratch
        (scratch / "small.yaml").write_text(yaml.safe_dump(small, sort_keys=False))
        (scratch / "it.layout").write_text(text)
        for kind in ("megatron", "fsdp"):
            self.copy(args.library / kind, scratch / "written" / kind)
        (scratch / "whole.layout").write_text(WHOLE)

    @staticmethod
    def copy(library, place):
        """As an inference side, where `replica` is not said."""
        place.mkdir(parents=True)
        for file in library.glob("*.inc"):
            (place / file.name).write_text(file.read_text().replace(" replica ", " "))

    def move(self, train, infer, arrays, defines):
        """The arrays of every inference rank, made from those of every training rank."""
        place = pathlib.Path(tempfile.mkdtemp(dir=self.dir))
        for d in ("in", "out"):
            (place / d).mkdir()
        for rank, buffers in enumerate(arrays):
            save(place / "in" / f"train-{rank}.safetensors", buffers)
        library = self.args.library if train == "it.layout" else self.dir / "written"
        includes = [x for d in ("megatron", "fsdp") for x in ("-I", library / d)]
        run(self.args.bin / "reshardc", self.dir / train, self.dir / infer, *includes, *defines, "-o", place / "plan")
        run(self.args.bin / "reshard", "run", place / "plan", "--in", place / "in", "--out", place / "out")
        files = sorted((place / "out").glob("*"), key=lambda f: int(f.stem.split("-")[1]))
        return {int(f.stem.split("-")[1]): load(f) for f in files}


def check(args, name, small, text, weights, ranks, defines=(), *, partly=None, blank=None):
    """ranks: what the framework holds on each rank. partly: what the whole tensors are where training does not hold all
    of them. blank: padding in those arrays as the inference side has it."""
    with tempfile.TemporaryDirectory() as scratch:
        pair = Pair(args, pathlib.Path(scratch), small, text)
        there = pair.move("it.layout", "whole.layout", ranks, [f"-Dtrain.{d}" for d in defines])
        same(f"{name}: the whole", there[0], weights | (partly or {}))
        back = pair.move("whole.layout", "it.layout", [weights], [f"-Dinfer.{d}" for d in defines])
        held = {r: a for r, a in enumerate(ranks) if a}
        assert sorted(back) == sorted(held), name
        for rank, arrays in held.items():
            same(f"{name}: rank {rank}", back[rank], {n: blank(n, a) if blank else a for n, a in arrays.items()})
    print(f"ok   {name}", flush=True)
