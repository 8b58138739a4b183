#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training loop: four FSDP2 trainers, two vLLM engines of two ranks each, ten refits, every weight checked.

    python3 training_loop.py                                                      # ranks are threads, numpy
    mpiexec.mpich -n 8 python3 training_loop.py --backend mpi                     # ranks are processes, numpy
    torchrun --nproc-per-node 8 training_loop.py --backend nccl                   # ranks are GPUs, torch

Compiles the library's own Qwen3-8B pair, with a small model in place of the catalogue. What stands here for a trainer and
an engine is what a real one would do: bind once, then refit after each step. With `--tensors torch` the first two hold
torch tensors, too.

In: the repository, built. Out: one line per refit, and one per engine rank at the end; exit 0, or 1 at the first wrong weight.
"""

import argparse
import os
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
PAIR = "fsdp/qwen3-8b-fsdp2.layout", "vllm/qwen3-8b.layout"
SMALL = dict(
    L=2, H=16, V=100, G=2, Q=2, D=4, I=24
)  # layers, hidden, vocabulary, kv heads, queries per head, head, inner
TRAINERS, ENGINES, TP, REFITS = 4, 2, 2, 10


def compile_small(scratch):
    """The library's Qwen3-8B, FSDP2 to vLLM, on a model of SMALL size. A job would compile once and give each rank the
    file; here each rank compiles for itself, since the same inputs give the same plan."""
    library = scratch / "library"
    shutil.copytree(ROOT / "plans" / "library", library)
    catalogue = library / "models" / "qwen3-8b.yaml"
    text = catalogue.read_text()
    for name, value in SMALL.items():
        text, changed = re.subn(rf"(?m)^  {name}: \d+", f"  {name}: {value}", text)
        assert changed == 1, name
    catalogue.write_text(text)
    train, infer = (library / part for part in PAIR)
    sizes = {"train.DP": TRAINERS, "infer.ENGINES": ENGINES, "infer.TP": TP}
    options = [word for name, value in sizes.items() for word in ("-D", f"{name}={value}")]
    return tools.compile(train, infer, scratch / "plan", *options)


# ---- tensors: BF16, of torch on some device, or of numpy, which has no such type: 16 bits each


class Numpy:
    def make(self, bits):
        return bits.copy()

    def write(self, tensor, bits):
        tensor[...] = bits

    def bits(self, tensor):
        return tensor


class Torch:
    def __init__(self, device):
        import torch

        self.torch, self.device = torch, device

    def make(self, bits):
        return self.torch.from_numpy(bits.view(np.int16).copy()).view(self.torch.bfloat16).to(self.device)

    def write(self, tensor, bits):
        tensor.copy_(self.make(bits))

    def bits(self, tensor):
        return tensor.cpu().view(self.torch.int16).numpy().view(np.uint16)


# ---- the trainer: weights cut along their first dimension


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
    side = "train"

    def __init__(self, rank, tensors):
        self.rank, self.use = rank, tensors
        self.tensors = {name: tensors.make(shard(array, rank)) for name, array in weights(0).items()}

    def step(self, number):
        """An optimizer writes in place: the addresses that were bound stay."""
        for name, array in weights(number).items():
            self.use.write(self.tensors[name], shard(array, self.rank))

    def check(self, step):
        """Nothing was written here."""


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
    side = "infer"

    def __init__(self, rank, tensors):
        self.rank, self.use = rank % TP, tensors
        self.tensors = {n: tensors.make(np.zeros_like(a)) for n, a in loaded(weights(0), self.rank).items()}

    def step(self, number):
        """It would generate, with the weights that it has."""

    def check(self, step):
        for name, right in loaded(weights(step), self.rank).items():
            if not (self.use.bits(self.tensors[name]) == right).all():
                raise SystemExit(f"engine rank {self.rank}: {name} is wrong after step {step}")


# ---- every rank's program


def say(line):
    sys.stdout.write(line + "\n")  # at once: other ranks may be threads
    sys.stdout.flush()


def program(context, tensors):
    me = Trainer(context.rank, tensors) if context.rank < TRAINERS else Engine(context.rank - TRAINERS, tensors)
    reshard.bind_module(context, me.side, me.tensors).check()
    context.prepare()
    for step in range(1, REFITS + 1):
        me.step(step)
        context.refit()  # returns at once; trainers leave their weights alone until wait has returned
        version = context.wait()  # all ranks agree that it is whole
        me.check(step)
        if context.rank == 0:
            say(f"refit {step}: version {version}")
    if me.side == "infer":
        say(f"engine rank {context.rank - TRAINERS}: {REFITS} refits, every weight right")


def run_threads(plan, tensors):
    reshard.host.run(plan, lambda context: program(context, tensors))


def run_mpi(plan, tensors):
    rank, world = reshard.mpi.init()
    if world != plan.world:
        raise SystemExit(
            f"{plan.world} processes are needed, not {world}: mpiexec -n {plan.world}, of the MPI that the backend was "
            f"built with ({reshard.mpi.version()})"
        )
    with reshard.Context(plan, rank, backend="mpi") as context:
        program(context, tensors)


def run_nccl(plan, tensors):
    """torchrun says who this process is; a store of torch is where the ranks meet."""
    import torch

    rank, world, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    torch.cuda.set_device(local)
    store = torch.distributed.TCPStore(
        os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]) + 1, world, is_master=rank == 0
    )
    meet = reshard.control.torch_store(store, rank, world)
    with reshard.Context(plan, rank, backend="nccl", all_gather=meet, device=local) as context:
        program(context, tensors)
    store.set(f"left/{rank}", b"")
    if rank == 0:
        store.wait([f"left/{r}" for r in range(world)])  # rank 0 has the store: it leaves last


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    runs = {"host": run_threads, "mpi": run_mpi, "nccl": run_nccl}
    p.add_argument("--backend", choices=runs, default="host")
    p.add_argument("--tensors", choices=("numpy", "torch"), default="numpy", help="with nccl always torch, on the GPU")
    a = p.parse_args()
    on_gpu = a.backend == "nccl"
    tensors = Torch("cuda" if on_gpu else "cpu") if on_gpu or a.tensors == "torch" else Numpy()
    with tempfile.TemporaryDirectory() as scratch:
        with reshard.Plan(compile_small(pathlib.Path(scratch))) as plan:
            runs[a.backend](plan, tensors)


if __name__ == "__main__":
    main()
