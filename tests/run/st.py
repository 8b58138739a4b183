# SPDX-License-Identifier: Apache-2.0
"""safetensors with the standard library alone: what the tests write and read."""
import json
import pathlib
import struct


def write(path, arrays, *, gap=b"", extra=None):
    """arrays: {name: (dtype word, shape, bytes)}; `gap`: bytes of an array of its own put before each, to misalign."""
    header, data = dict(extra or {}), b""
    for i, (name, (dtype, shape, raw)) in enumerate(arrays.items()):
        if gap:
            header[f"filler {i}"] = {"dtype": "U8", "shape": [len(gap)], "data_offsets": [len(data), len(data) + len(gap)]}
            data += gap
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


def read(path):
    """{name: (dtype word, shape, bytes)}; asserts what the format demands."""
    raw = pathlib.Path(path).read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    header, data = json.loads(raw[8 : 8 + length].decode()), raw[8 + length :]
    header.pop("__metadata__", None)
    at = 0
    for entry in sorted(header.values(), key=lambda e: e["data_offsets"]):
        begin, end = entry["data_offsets"]
        assert begin == at and end >= begin, (path, entry, at)
        at = end
    assert at == len(data), (path, at, len(data))
    return {
        name: (e["dtype"], e["shape"], data[e["data_offsets"][0] : e["data_offsets"][1]]) for name, e in header.items()
    }
