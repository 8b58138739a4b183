# SPDX-License-Identifier: Apache-2.0
"""Cases with right values written by hand, and the driver that holds the tools to them.

A case gives two layouts and what every rank holds before and after, as arrays of ids: small numbers that its author
wrote down. Nothing here computes where an element goes. `grid(7, 2, 3)` is [[7, 8, 9], [10, 11, 12]]; `P` is a place of
padding or of a gap. Each case is replayed twice with different bits per id, staged and fused.
"""
import json
import pathlib
import resource
import struct
import subprocess
import tempfile

import numpy as np

LINKS = ("links:\n  nvlink: {bandwidth: 450e9, latency: 2e-6}\n  network: {bandwidth: 50e9, latency: 5e-6}\n"
         "  memory: {bandwidth: 3.3e12}\n")
P = -1  # padding or a gap: garbage on the training side, zero on the inference side
CASES = []
SLOW = False  # a build that is not held to times
SIZES = {"bool": 1, "u8": 1, "i8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "i64": 8, "u64": 8, "f16": 2, "bf16": 2,
         "f32": 4, "f64": 8, "f8e4m3": 1, "f8e5m2": 1}
SPELLED = {"bool": "BOOL", "f8e4m3": "F8_E4M3", "f8e5m2": "F8_E5M2"}


def case(name, **fields):
    CASES.append((name, fields))


def grid(start, *shape):
    return np.arange(start, start + int(np.prod(shape, dtype=np.int64))).reshape(shape)


def row(*ids):
    return np.array(ids, dtype=np.int64)


def join(*parts, axis=0):
    return np.concatenate(parts, axis)


class Fault(Exception):
    pass


def cpu_seconds():
    """What the tools have used so far: a busy machine is no reason to fail."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def need(condition, text):
    if not condition:
        raise Fault(text)


def encode(ids, dtype, fill, padding):
    """The bytes of an array of ids. fill 0: bits id + 1; 1: all bits set less id; "raw": ids are bit patterns."""
    unsigned = np.dtype(f"<u{SIZES[dtype]}")
    ids = np.asarray(ids)
    if fill == "raw":
        bits = np.where(ids == P, 0, ids).astype(unsigned)
    elif dtype == "bool":
        bits = ((ids + (fill or 0)) % 2).astype(unsigned)
    else:
        top = np.iinfo(unsigned).max
        if ids.size:
            need(int(ids.max()) < min(int(top) - 1, 2**31), f"the case has ids too large for {dtype}")
        bits = np.array([v + 1 if fill == 0 else int(top) - max(v, 0) for v in ids.ravel().tolist()], unsigned)
        bits = bits.reshape(ids.shape)
    return np.where(ids == P, unsigned.type(padding), bits).astype(unsigned)


def write_safetensors(path, tensors):
    header, blobs, at = {}, [], 0
    for name, (dtype, array) in tensors.items():
        blob = array.tobytes()
        header[name] = {"dtype": SPELLED.get(dtype, dtype.upper()), "shape": list(array.shape),
                        "data_offsets": [at, at + len(blob)]}
        at += len(blob)
        blobs.append(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def read_safetensors(path):
    data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    base = 8 + size
    return {name: (t["dtype"], t["shape"], data[base + t["data_offsets"][0]:base + t["data_offsets"][1]])
            for name, t in header.items()}


class Plan:
    """A compiled plan and what the tools say about it."""

    def __init__(self, tools, path, text):
        self.tools, self.path, self.text = tools, path, text
        self.json = json.loads(tools.run("reshard", "show", path, "--json", ok=0).stdout)
        self.ranks = self.json["ranks"]

    def train(self, r):
        return next(x for x in self.ranks if x["train_rank"] == r)

    def infer(self, r):
        return next(x for x in self.ranks if x["infer_rank"] == r)

    def sent(self, r):
        return self.train(r)["network_out"] + self.train(r)["nvlink_out"]

    def received(self, r):
        return self.infer(r)["network_in"] + self.infer(r)["nvlink_in"]

    def messages(self):
        """Messages in all: each is counted at both its ends."""
        return sum(r["messages"] for r in self.ranks) // 2


class Tools:
    def __init__(self, bin_dir, directory):
        self.bin, self.dir = pathlib.Path(bin_dir).resolve(), directory

    def run(self, tool, *args, ok=None, env=None):
        done = subprocess.run([str(self.bin / tool), *map(str, args)], capture_output=True, text=True, cwd=self.dir,
                              timeout=60, env=env)
        need(done.returncode >= 0, f"{tool} {args} died of signal {-done.returncode}\n{done.stderr}")
        if ok is not None:
            need(done.returncode == ok, f"{tool} {' '.join(map(str, args))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def write(self, name, text):
        (self.dir / name).write_text(text)
        return name

    def layouts(self, fields):
        head = fields.get("tensors", "")
        train = self.write("train.layout", head + fields["train"])
        infer = self.write("infer.layout", head + fields["infer"])
        args = [train, infer] + list(fields.get("options", []))
        if "cluster" in fields:
            args += ["--cluster", self.write("cluster.yaml", fields["cluster"])]
        return args

    def compile(self, fields, out="plan"):
        done = self.run("reshardc", *self.layouts(fields), "-o", out, ok=0)
        self.run("reshard", "verify", out, ok=0)
        return Plan(self, self.dir / out, done.stderr)

    def stats(self, fields):
        """The counts of the compile, as `reshardc --stats --json` prints them."""
        done = self.run("reshardc", *self.layouts(fields), "-o", "plan", "--stats", "--json", ok=0)
        return json.loads(done.stdout)["stats"]


def refused(tools, fields):
    (tools.dir / "plan").write_bytes(b"an older plan")
    done = tools.run("reshardc", *tools.layouts(fields), "-o", "plan")
    need(done.returncode == 1, f"exit {done.returncode}, not 1\n{done.stderr}")
    need((tools.dir / "plan").read_bytes() == b"an older plan", "the refusal touched the older plan")
    for text in fields["refused"]:
        need(text in done.stderr, f"the message lacks '{text}':\n{done.stderr}")
    need("^" in done.stderr or fields.get("placeless"), f"the message has no caret:\n{done.stderr}")


def side_dtype(fields, side, name):
    return fields.get(side + "_dtypes", {}).get(name) or fields.get("dtypes", {}).get(name) or fields.get("dtype", "i32")


def write_inputs(tools, fields, fill, directory):
    directory.mkdir()
    for rank, buffers in enumerate(fields["holds"]):
        if buffers is None:
            continue
        arrays = {n: (side_dtype(fields, "train", n), encode(a, side_dtype(fields, "train", n), fill, 0xEE))
                  for n, a in buffers.items()}
        write_safetensors(directory / f"train-{rank}.safetensors", arrays)


def check_outputs(fields, fill, directory):
    present = sorted(p.name for p in directory.iterdir())
    wanted = sorted(f"infer-{r}.safetensors" for r, b in enumerate(fields["wants"]) if b is not None)
    need(present == wanted, f"output files {present}, expected {wanted}")
    for rank, buffers in enumerate(fields["wants"]):
        if buffers is None:
            continue
        got = read_safetensors(directory / f"infer-{rank}.safetensors")
        need(sorted(got) == sorted(buffers), f"inference rank {rank} has buffers {sorted(got)}, expected {sorted(buffers)}")
        for name, ids in buffers.items():
            dtype = side_dtype(fields, "infer", name)
            right = encode(ids, dtype, fill, 0)
            spelled, shape, data = got[name]
            need(spelled == SPELLED.get(dtype, dtype.upper()), f"'{name}' has dtype {spelled}")
            need(shape == list(right.shape), f"'{name}' on inference rank {rank} has shape {shape}, expected {list(right.shape)}")
            found = np.frombuffer(data, right.dtype).reshape(right.shape)
            need(np.array_equal(found, right),
                 f"'{name}' on inference rank {rank}, fill {fill}:\n{found}\nexpected\n{right}")


MODES = {"fused": ["--mode", "fused"], "staged": ["--mode", "staged", "--delay-seed", "7"], "none": ["--mode", "none"]}


def replay(tools, fields, plan, modes=("fused", "staged")):
    fills = ["raw"] if fields.get("raw") else [0, 1]
    for number, (mode, fill) in enumerate((m, f) for m in modes for f in fills):
        given, taken = tools.dir / f"in{number}", tools.dir / f"out{number}"
        write_inputs(tools, fields, fill, given)
        taken.mkdir()
        tools.run("reshard", "run", plan.path, *MODES[mode], "--in", given, "--out", taken, ok=0)
        check_outputs(fields, fill, taken)


def check(tools, fields):
    if "refused" in fields:
        refused(tools, fields)
    if "holds" in fields:
        replay(tools, fields, tools.compile(fields))
    if "selfcheck" in fields:  # too big to write down: the tool's own keyed fill, every byte checked
        plan = tools.compile(fields)
        for mode in ("staged", "fused"):
            tools.run("reshard", "run", plan.path, "--mode", mode, ok=0)
    if "also" in fields:
        fields["also"](tools, fields)
    if "plan" in fields:
        fields["plan"](tools.compile(fields))


def check_idle_executor(tools, fields):
    """Values written down must not be there when nothing is copied."""
    if "holds" not in fields:
        return
    plan = tools.compile(fields)
    try:
        replay(tools, fields, plan, ["none"])
    except Fault as fault:
        need("expected" in str(fault), str(fault))  # for the values, not for some other reason
    else:
        raise Fault("the case passes on an executor that does nothing")


def main(bin_dir, wanted, check=check):
    failures = 0
    for name, fields in CASES:
        if wanted and name not in wanted:
            continue
        with tempfile.TemporaryDirectory() as directory:
            try:
                need(set(fields) & {"refused", "holds", "selfcheck", "also", "plan"}, "the case checks nothing")
                check(Tools(bin_dir, pathlib.Path(directory)), fields)
            except (Fault, LookupError, StopIteration, ValueError, OSError, subprocess.TimeoutExpired) as fault:
                failures += 1
                print(f"FAIL {name}: {type(fault).__name__} {fault}\n")
            else:
                print(f"ok   {name}")
    print(f"{len(CASES)} cases, {failures} failed")
    return 1 if failures or not CASES else 0
