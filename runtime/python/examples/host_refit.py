#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training loop on numpy: four FSDP2 trainers, two vLLM engines of two ranks each, ten refits, every weight checked.

    python3 runtime/python/examples/host_refit.py

Compiles the library's own Qwen3-8B pair, with a small model in place of the catalogue, and plays it on the host
backend: each rank is a thread. What stands here for a trainer and an engine is what a real one would do: bind once, then refit after
each step.

In: the repository, built. Out: one line per refit; exit 0, or 1 at the first wrong weight.
"""

import pathlib
import re
import shutil
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))  # runs without being installed, too
import reshard  # noqa: E402
from reshard import tools  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
SMALL = dict(
    L=2, H=16, V=100, G=2, Q=2, D=4, I=24
)  # layers, hidden, vocabulary, kv heads, queries per head, head, inner
TRAINERS, ENGINES, TP, REFITS = 4, 2, 2, 10


def compile_small(scratch):
    """The library's Qwen3-8B, FSDP2 to vLLM, on a model of SMALL size."""
    library = scratch / "library"
    shutil.copytree(ROOT / "plans" / "library", library)
    catalogue = library / "models" / "qwen3-8b.yaml"
    text = catalogue.read_text()
    for name, value in SMALL.items():
        text, changed = re.subn(rf"(?m)^  {name}: \d+", f"  {name}: {value}", text)
        assert changed == 1, name
    catalogue.write_text(text)
    return tools.compile(
        library / "fsdp" / "qwen3-8b-fsdp2.layout",
        library / "vllm" / "qwen3-8b.layout",
        scratch / "plan",
        "-D",
        f"train.DP={TRAINERS}",
        "-D",
        f"infer.ENGINES={ENGINES}",
        "-D",
        f"infer.TP={TP}",
    )


# ---- the trainer: BF16 weights (numpy has no such type: 16 bits each), cut along their first dimension


def shapes():
    H, V, G, Q, D, I = (SMALL[k] for k in "HVGQDI")
    out = {"model.embed_tokens.weight": (V, H), "lm_head.weight": (V, H), "model.norm.weight": (H,)}
    for l in range(SMALL["L"]):
        a, m = f"model.layers.{l}.self_attn", f"model.layers.{l}.mlp"
        out |= {
            f"{a}.q_proj.weight": (G * Q * D, H),
            f"{a}.k_proj.weight": (G * D, H),
            f"{a}.v_proj.weight": (G * D, H),
            f"{a}.o_proj.weight": (H, G * Q * D),
            f"{a}.q_norm.weight": (D,),
            f"{a}.k_norm.weight": (D,),
            f"{m}.gate_proj.weight": (I, H),
            f"{m}.up_proj.weight": (I, H),
            f"{m}.down_proj.weight": (H, I),
            f"model.layers.{l}.input_layernorm.weight": (H,),
            f"model.layers.{l}.post_attention_layernorm.weight": (H,),
        }
    return out


def weights(step):
    """The whole model after this step."""
    rng = np.random.default_rng(step)
    return {name: rng.integers(0, 2**16, shape, dtype=np.uint16) for name, shape in shapes().items()}


def shard(array, rank):
    """torch.chunk: parts of ceil(n / TRAINERS) rows, the last ones shorter."""
    rows = -(-len(array) // TRAINERS)
    return array[rank * rows : (rank + 1) * rows]


class Trainer:
    def __init__(self, rank):
        self.rank = rank
        self.shards = {name: shard(array, rank).copy() for name, array in weights(0).items()}

    def step(self, number):
        """An optimizer writes in place: the addresses that were bound stay."""
        for name, array in weights(number).items():
            self.shards[name][...] = shard(array, self.rank)


# ---- the engine: fused, cut over TP, the vocabulary padded to a multiple of 64


def loaded(whole, rank):
    """What vLLM's own loader would leave on this rank."""

    def part(array, dim=0):
        return np.split(array, TP, axis=dim)[rank]

    def vocabulary(array):
        padded = np.zeros((-(-len(array) // 64) * 64, array.shape[1]), array.dtype)
        padded[: len(array)] = array
        return part(padded)

    out = {}
    for name, array in whole.items():
        stem = name.replace(".weight", "")
        if stem.endswith(("embed_tokens", "lm_head")):
            out[name] = vocabulary(array)
        elif stem.endswith("q_proj"):
            fused = [part(whole[name.replace("q_proj", p)]) for p in ("q_proj", "k_proj", "v_proj")]
            out[name.replace("q_proj", "qkv_proj")] = np.concatenate(fused)
        elif stem.endswith("gate_proj"):
            out[name.replace("gate_proj", "gate_up_proj")] = np.concatenate(
                [part(array), part(whole[name.replace("gate_proj", "up_proj")])]
            )
        elif stem.endswith(("o_proj", "down_proj")):
            out[name] = part(array, 1)
        elif not stem.endswith(("k_proj", "v_proj", "up_proj")):
            out[name] = array
    return out


class Engine:
    def __init__(self, rank):
        self.rank = rank % TP
        self.tensors = {name: np.zeros_like(array) for name, array in loaded(weights(0), self.rank).items()}

    def check(self, step):
        for name, right in loaded(weights(step), self.rank).items():
            if not (self.tensors[name] == right).all():
                raise SystemExit(f"engine rank {self.rank}: {name} is wrong after step {step}")


# ---- every rank's program


def program(context):
    train = context.rank < TRAINERS
    me = Trainer(context.rank) if train else Engine(context.rank - TRAINERS)
    if train:
        reshard.bind_module(context, "train", me.shards).check()
    else:
        reshard.bind_module(context, "infer", me.tensors).check()
    context.prepare()
    for step in range(1, REFITS + 1):
        if train:
            me.step(step)
        context.refit()  # returns at once; trainers leave their weights alone until wait has returned
        version = context.wait()  # all ranks agree that it is whole
        if not train:
            me.check(step)
        if context.rank == 0:
            print(f"refit {step}: version {version}", flush=True)
    return sum(a.nbytes for a in (me.shards if train else me.tensors).values())


def main():
    with tempfile.TemporaryDirectory() as scratch:
        with reshard.Plan(compile_small(pathlib.Path(scratch))) as plan:
            print(plan)
            held = reshard.host.run(plan, program)
    print(f"{REFITS} refits of {sum(held[TRAINERS:])} bytes in {ENGINES * TP} inference ranks, every weight right")


if __name__ == "__main__":
    main()
