# SPDX-License-Identifier: Apache-2.0
"""What a loader did on one rank, as data and as a file. Needs no torch.

In: a Recorder's result, or a JSON file. Out: a JSON file. Also the headers of a checkpoint.
"""

import dataclasses
import json
import math
import pathlib
import struct
from typing import Dict, List, Tuple

from .nest import Piece

_SAFETENSORS = {
    "BOOL": "bool",
    "U8": "u8",
    "I8": "i8",
    "I16": "i16",
    "U16": "u16",
    "I32": "i32",
    "U32": "u32",
    "I64": "i64",
    "U64": "u64",
    "F16": "f16",
    "BF16": "bf16",
    "F32": "f32",
    "F64": "f64",
    "F8_E4M3": "f8e4m3",
    "F8_E5M2": "f8e5m2",
}


def _plain(value):
    """A fill as JSON can say it: infinities and NaN as their names."""
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)


@dataclasses.dataclass
class Recording:
    rank: int
    world: int
    tensors: Dict[str, Tuple[str, Tuple[int, ...]]]  # of the checkpoint: dtype, shape
    buffers: List[Tuple[str, str, Tuple[int, ...], List[Piece]]]  # name, dtype, shape of its memory, what it holds
    unloaded: List[Tuple[str, str]]  # name, why it is in no layout

    def save(self, path):
        names = {name: i for i, name in enumerate(self.tensors)}
        text = {
            "reshard-recording": 1,
            "rank": self.rank,
            "world": self.world,
            "tensors": [[n, d, list(s)] for n, (d, s) in self.tensors.items()],
            "buffers": [[n, d, list(s), [_save_piece(p, names) for p in pieces]] for n, d, s, pieces in self.buffers],
            "unloaded": [list(u) for u in self.unloaded],
        }
        pathlib.Path(path).write_text(json.dumps(text, separators=(",", ":")) + "\n")

    @classmethod
    def load(cls, path):
        try:
            text = json.loads(pathlib.Path(path).read_text())
            if text["reshard-recording"] != 1:
                raise ValueError(f"version {text['reshard-recording']}; this package reads version 1")
            names = [t[0] for t in text["tensors"]]
            buffers = [(n, d, tuple(s), [_load_piece(p, names) for p in pieces]) for n, d, s, pieces in text["buffers"]]
            return cls(
                text["rank"],
                text["world"],
                {n: (d, tuple(s)) for n, d, s in text["tensors"]},
                buffers,
                [tuple(u) for u in text["unloaded"]],
            )
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise ValueError(f"{path} is not a recording: {error}") from error


def _save_piece(p, names):
    source = ["tensor", names[p.source[1]]] if p.source[0] == "tensor" else [_plain(v) for v in p.source]
    return [p.dst, [list(l) for l in p.loops], source, p.src, [list(v) for v in p.via]]


def _load_piece(row, names):
    dst, loops, source, src, via = row
    source = ("tensor", names[source[1]]) if source[0] == "tensor" else tuple(source)
    return Piece(dst, tuple(tuple(l) for l in loops), source, src, tuple(tuple(v) for v in via))


def headers(path):
    """The tensors of a safetensors file, or of all in a directory, from their headers: name to (dtype, shape)."""
    path, out = pathlib.Path(path), {}
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    if not files:
        raise FileNotFoundError(f"{path} has no *.safetensors")
    for file in files:
        with open(file, "rb") as stream:
            size = struct.unpack("<Q", stream.read(8))[0]
            table = json.loads(stream.read(size))
        for name, entry in table.items():
            if name == "__metadata__":
                continue
            if name in out:
                raise ValueError(f"{file}: tensor '{name}' is in another file, too")
            out[name] = (_SAFETENSORS.get(entry["dtype"], entry["dtype"]), tuple(entry["shape"]))
    return out
