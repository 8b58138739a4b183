# SPDX-License-Identifier: Apache-2.0
"""Small models of the library's structure, and its own layouts on them: a copy of the library in a scratch directory,
with the model line of a layout exchanged. Moves arrays through the compiled plan.
"""
import pathlib
import re
import shutil
import sys
import tempfile

import numpy as np
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "library_train"))
import catalogue  # noqa: E402
import moves  # noqa: E402

GQA = dict(H=8, V=70, D=4, I=24, Q=2, G=2, L=4)
MLA = dict(L=5, H=8, V=70, N=4, QR=12, KR=8, NOPE=4, ROPE=2, VD=6, F=16, E=4, I=8)
GDN = dict(L=4, H=8, V=72, G=2, Q=2, D=4, GK=4, GV=8, GD=4, E=4, I=8, S=8, ATTN=[1, 3], GDN=[0, 2])
MAMBA = dict(L=6, H=8, V=72, G=2, Q=4, D=4, MH=8, MD=2, MG=4, MN=2, E=4, I=8, LAT=4, S=8)
MAMBA |= dict(MAMBA=[0, 3], MOE=[1, 4], ATTN=[2, 5])
# Its rules want VD = D: one tensor, g_proj, is of both kinds of attention.
KDA = MLA | dict(V=72, D=6, AN=6, LAT=4, KDA=[0, 1, 3], MLA=[2, 4])

MODELS = {  # layout and catalogue: kind, small constants
    "qwen3-0.6b": ("gqa", GQA | dict(E=0)), "qwen3-4b": ("gqa", GQA | dict(E=0)), "qwen3-8b": ("gqa", GQA | dict(E=0)),
    "llama-3.1-8b": ("gqa", GQA | dict(E=0)), "llama-3.1-405b": ("gqa", GQA | dict(E=0)),
    "qwen3-30b-a3b": ("gqa", GQA | dict(E=4)), "qwen3-235b-a22b": ("gqa", GQA | dict(E=4)),
    "deepseek-v3": ("mla", MLA | dict(DENSE=2)), "kimi-k2": ("mla", MLA), "qwen3.5-397b-a17b": ("gdn", GDN),
    "nemotron-3-ultra": ("mamba", MAMBA), "nemotron-3-super": ("mamba", MAMBA), "kimi-k3": ("kda", KDA),
}
WAY = {
    "vllm": dict(ENGINES=1, DP=1, PP=1, TP=1, EP=0, GATE_FP32=0, SPLIT_GATE=0, DRAFTER=0, FUSED_DECODE=1, MIN_ROWS=1),
    "sglang": dict(ENGINES=1, DP=1, PP=1, TP=1, EP=1, A2A=0, DENSE_TP1=0, DP_LM_HEAD=0, FUSED_SHARED=0),
}


def model(library, name, changes):
    """Its catalogue and random weights. Every f32 tensor can be told from its copy in BF16, but for o_norm."""
    small = catalogue.read(library / "models" / f"{name}.yaml", MODELS[name][1] | changes)
    shapes = catalogue.tensors(small)
    weights = catalogue.weights(shapes, lambda n: n.endswith("o_norm.weight"), lambda n: False, sum(name.encode()))
    for n, array in weights.items():
        if n.endswith(".A_log"):                  # small enough that its exponential is a number
            array[:] = np.random.default_rng(len(array)).normal(size=array.shape).astype("<f4").view("<u4")
    return small, weights


def engine_text(library, engine, name, way):
    """The library's own file for this model, with its model line and its map of the experts exchanged."""
    text = (library / engine / f"{name}.layout").read_text()
    text, models = re.subn(r"(?m)^model .*$", 'model "small.yaml";', text)
    assert models == 1
    if "slots" in way or "placement" in way:
        slots = f"[{way['placement']}]" if "placement" in way else way["slots"]
        text, maps = re.subn(r"(?m)^param SLOTS = .*?;", f"param SLOTS = {slots};", text)
        assert maps == 1
    return text


def engine_defines(text, way):
    """What the file has as a param, and what a param of grid.inc is changed to."""
    own = set(re.findall(r"param (\w+) =", text))
    grid = {"A2A", "DENSE_TP1", "DP_LM_HEAD", "stages"}
    return [f"-Dinfer.{k}={v}" for k, v in way.items() if k in own and k != "SLOTS" or k in grid and v]


class Scratch:
    """A copy of the library in which layouts for small.yaml can be written."""

    def __init__(self, args, small):
        self.args, self.temp = args, tempfile.TemporaryDirectory()
        self.dir = pathlib.Path(self.temp.name)
        for kind in ("megatron", "fsdp", "vllm", "sglang"):
            (self.dir / kind).mkdir()
            for file in (args.library / kind).glob("*.inc"):
                shutil.copy(file, self.dir / kind)
            (self.dir / kind / "small.yaml").write_text(yaml.safe_dump(small, sort_keys=False))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.temp.cleanup()

    def write(self, kind, text):
        path = self.dir / kind / "it.layout"
        path.write_text(text)
        return path

    def move(self, train, infer, arrays, defines):
        """{rank: buffers} of the inference side."""
        for d in ("in", "out"):
            shutil.rmtree(self.dir / d, ignore_errors=True)
            (self.dir / d).mkdir()
        for rank, buffers in enumerate(arrays):
            moves.save(self.dir / "in" / f"train-{rank}.safetensors", buffers)
        plan, bin_ = self.dir / "plan", self.args.bin
        moves.run(bin_ / "reshardc", train, infer, *defines, "-o", plan)
        moves.run(bin_ / "reshard", "verify", plan)
        moves.run(bin_ / "reshard", "run", plan, "--in", self.dir / "in", "--out", self.dir / "out")
        files = (self.dir / "out").glob("*")
        return {int(f.stem.split("-")[1]): moves.load(f) for f in files}


def same(what, got, right):
    """Every byte of every buffer of every rank."""
    assert sorted(got) == list(range(len(right))), (what, sorted(got))
    for rank, arrays in enumerate(right):
        flat = {n: a.reshape(-1) for n, a in got[rank].items()}
        moves.same(f"{what}: rank {rank}", flat, {n: np.ascontiguousarray(a).reshape(-1) for n, a in arrays.items()})
