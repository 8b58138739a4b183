#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""plans/library against what Megatron-core, vLLM and SGLang do, written again in numpy.

Makes a small random model, cuts it as Megatron does, reshards it with the library's layouts, and compares each buffer
with what vLLM would have loaded. Nothing here reads a layout: rank grids, row orders and paddings are spelled out.
In: the tools, the library. Out: exit 0 or 1.
"""
import argparse
import itertools
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy as np

H, D, FFN, V = 8, 4, 24, 70  # hidden, head size, feed-forward size, vocabulary


def logical(model, rng):
    """The checkpoint under its Hugging Face names: random bits."""
    shapes = {"model.embed_tokens.weight": (V, H), "model.norm.weight": (H,)}
    if not model["TIED"]:
        shapes["lm_head.weight"] = (V, H)
    heads = model["G"] * model["Q"]
    for layer in range(model["L"]):
        hf = f"model.layers.{layer}"
        shapes |= {f"{hf}.input_layernorm.weight": (H,), f"{hf}.post_attention_layernorm.weight": (H,),
                   f"{hf}.self_attn.q_proj.weight": (heads * D, H), f"{hf}.self_attn.k_proj.weight": (model["G"] * D, H),
                   f"{hf}.self_attn.v_proj.weight": (model["G"] * D, H), f"{hf}.self_attn.o_proj.weight": (H, heads * D)}
        if model["QKNORM"]:
            shapes |= {f"{hf}.self_attn.q_norm.weight": (D,), f"{hf}.self_attn.k_norm.weight": (D,)}
        mlps = [f"{hf}.mlp.experts.{e}" for e in range(model["E"])] or [f"{hf}.mlp"]
        if model["E"]:
            shapes[f"{hf}.mlp.gate.weight"] = (model["E"], H)
        for mlp in mlps:
            shapes |= {f"{mlp}.gate_proj.weight": (FFN, H), f"{mlp}.up_proj.weight": (FFN, H), f"{mlp}.down_proj.weight": (H, FFN)}
    return {name: rng.integers(1, 1 << 16, shape).astype("<u2") for name, shape in shapes.items()}


def catalogue(model, weights):
    lines = ["# SPDX-License-Identifier: Apache-2.0", "reshard-model: 1", "name: small", "dtype: bf16",
             f"constants: {{{', '.join(f'{k}: {v}' for k, v in model.items())}, V: {V}, D: {D}}}", "tensors:"]
    return "\n".join(lines + [f'  - {{name: {n}, shape: {list(w.shape)}}}' for n, w in weights.items()]) + "\n"


def part(array, axis, index, count):
    size = array.shape[axis] // count
    assert size * count == array.shape[axis]
    return np.take(array, range(index * size, (index + 1) * size), axis)


def padded(array, rows, value):
    return np.concatenate([array, np.full((rows - len(array), *array.shape[1:]), value, array.dtype)])


def megatron(model, way, w):
    """Per rank, {buffer: array}. Garbage (0xEEEE) where Megatron pads."""
    tp_size, cp_size, dp_size, pp_size, vpp, ep_size, etp_size = (way[k] for k in ("TP", "CP", "DP", "PP", "VPP", "EP", "ETP"))
    world = tp_size * cp_size * dp_size * pp_size
    ranks = [{} for _ in range(world)]
    unit = way["PADV"] * tp_size
    vocabulary = -(-V // unit) * unit
    firsts = list(itertools.accumulate(way["stages"], initial=0))
    for rank, buffers in enumerate(ranks):
        tp = rank % tp_size
        pp = rank // (tp_size * cp_size * dp_size)
        etp = rank % etp_size
        ep = rank // etp_size % ep_size

        def vocab(name):
            return part(padded(w[name], vocabulary, 0xEEEE), 0, tp, tp_size)

        def glu(mlp, index, count):
            return np.concatenate([part(w[f"{mlp}.{n}_proj.weight"], 0, index, count) for n in ("gate", "up")])

        if pp == 0:
            buffers["vp0." * (vpp > 1) + "embedding.word_embeddings.weight"] = vocab("model.embed_tokens.weight")
        if pp == pp_size - 1:
            last = f"vp{vpp - 1}." * (vpp > 1)
            buffers[f"{last}decoder.final_layernorm.weight"] = w["model.norm.weight"]
            if not model["TIED"]:
                buffers[f"{last}output_layer.weight"] = vocab("lm_head.weight")
            elif pp_size > 1:
                buffers[f"{last}output_layer.weight"] = vocab("model.embed_tokens.weight")
        for virtual in range(vpp):
            chunk = virtual * pp_size + pp
            for local, layer in enumerate(range(firsts[chunk], firsts[chunk + 1])):
                hf = f"model.layers.{layer}"
                to = (f"vp{virtual}." if vpp > 1 else "") + f"decoder.layers.{local}"
                rows = []
                for g in range(model["G"]):
                    rows += [part(w[f"{hf}.self_attn.{n}_proj.weight"], 0, g, model["G"]) for n in "qkv"]
                buffers[f"{to}.self_attention.linear_qkv.weight"] = part(np.concatenate(rows), 0, tp, tp_size)
                buffers[f"{to}.self_attention.linear_qkv.layer_norm_weight"] = w[f"{hf}.input_layernorm.weight"]
                buffers[f"{to}.self_attention.linear_proj.weight"] = part(w[f"{hf}.self_attn.o_proj.weight"], 1, tp, tp_size)
                if model["QKNORM"]:
                    for n in "qk":
                        buffers[f"{to}.self_attention.{n}_layernorm.weight"] = w[f"{hf}.self_attn.{n}_norm.weight"]
                norm = w[f"{hf}.post_attention_layernorm.weight"]
                if not model["E"]:
                    buffers[f"{to}.mlp.linear_fc1.layer_norm_weight"] = norm
                    buffers[f"{to}.mlp.linear_fc1.weight"] = glu(f"{hf}.mlp", tp, tp_size)
                    buffers[f"{to}.mlp.linear_fc2.weight"] = part(w[f"{hf}.mlp.down_proj.weight"], 1, tp, tp_size)
                    continue
                buffers[f"{to}.pre_mlp_layernorm.weight"] = norm
                buffers[f"{to}.mlp.router.weight"] = w[f"{hf}.mlp.gate.weight"]
                here = model["E"] // ep_size
                for i in range(here):
                    expert = f"{hf}.mlp.experts.{ep * here + i}"
                    buffers[f"{to}.mlp.experts.linear_fc1.weight{i}"] = glu(expert, etp, etp_size)
                    buffers[f"{to}.mlp.experts.linear_fc2.weight{i}"] = part(w[f"{expert}.down_proj.weight"], 1, etp, etp_size)
    return ranks


def engine(way):
    """SGLang has experts that are cut as well as divided; vLLM has not."""
    return "vllm" if way["EP"] in (1, way["TP"]) else "sglang"


def inference(model, way, w):
    tp_size, dp_size, pp_size, ep_size = (way[k] for k in ("TP", "DP", "PP", "EP"))
    ranks = [{} for _ in range(tp_size * dp_size * pp_size)]
    counts = [model["L"] // pp_size] * pp_size
    for i in range(2, model["L"] % pp_size + 2):  # the remainder goes to the stages before the last
        counts[-i] += 1
    firsts = list(itertools.accumulate(counts, initial=0))
    kv_parts = min(tp_size, model["G"])
    for rank, buffers in enumerate(ranks):
        tp = rank % tp_size
        pp = rank // tp_size % pp_size
        moe_tp_size = tp_size // ep_size
        ep, moe_tp = tp // moe_tp_size, tp % moe_tp_size

        def vocab(name):
            return part(padded(w[name], -(-V // 64) * 64, 0), 0, tp, tp_size)

        def glu(mlp, index, count):
            return np.concatenate([part(w[f"{mlp}.{n}_proj.weight"], 0, index, count) for n in ("gate", "up")])

        if pp == 0:
            buffers["model.embed_tokens.weight"] = vocab("model.embed_tokens.weight")
        if pp == pp_size - 1:
            buffers["model.norm.weight"] = w["model.norm.weight"]
            if not model["TIED"]:
                buffers["lm_head.weight"] = vocab("lm_head.weight")
            elif pp_size > 1:
                buffers["model.embed_tokens.weight"] = vocab("model.embed_tokens.weight")  # the module that is tied
        for layer in range(firsts[pp], firsts[pp + 1]):
            hf = f"model.layers.{layer}"
            kv = tp * kv_parts // tp_size
            buffers[f"{hf}.self_attn.qkv_proj.weight"] = np.concatenate(
                [part(w[f"{hf}.self_attn.q_proj.weight"], 0, tp, tp_size)]
                + [part(w[f"{hf}.self_attn.{n}_proj.weight"], 0, kv, kv_parts) for n in "kv"])
            buffers[f"{hf}.self_attn.o_proj.weight"] = part(w[f"{hf}.self_attn.o_proj.weight"], 1, tp, tp_size)
            for n in ["input_layernorm", "post_attention_layernorm"] + ["self_attn.q_norm", "self_attn.k_norm"] * model["QKNORM"]:
                buffers[f"{hf}.{n}.weight"] = w[f"{hf}.{n}.weight"]
            if not model["E"]:
                buffers[f"{hf}.mlp.gate_up_proj.weight"] = glu(f"{hf}.mlp", tp, tp_size)
                buffers[f"{hf}.mlp.down_proj.weight"] = part(w[f"{hf}.mlp.down_proj.weight"], 1, tp, tp_size)
                continue
            buffers[f"{hf}.mlp.gate.weight"] = w[f"{hf}.mlp.gate.weight"]
            slots = way["slots"]
            mine = [s for s in np.array_split(range(len(slots)), ep_size)[ep]]
            experts = [f"{hf}.mlp.experts.{slots[s]}" for s in mine]
            to = f"{hf}.mlp.experts" + ".routed_experts" * (engine(way) == "vllm")
            buffers[f"{to}.w13_weight"] = np.stack([glu(x, moe_tp, moe_tp_size) for x in experts])
            buffers[f"{to}.w2_weight"] = np.stack([part(w[f"{x}.down_proj.weight"], 1, moe_tp, moe_tp_size) for x in experts])
    return ranks


def save(path, arrays):
    header, at = {}, 0
    for name, array in arrays.items():
        header[name] = {"dtype": "BF16", "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(np.ascontiguousarray(a).tobytes() for a in arrays.values()))


def load(path):
    data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + size])
    return {name: np.frombuffer(data, "<u2", int(np.prod(t["shape"])), 8 + size + t["data_offsets"][0]).reshape(t["shape"])
            for name, t in header.items() if name != "__metadata__"}


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\nexit {done.returncode}\n{done.stdout}{done.stderr}")


def write(directory, name, params, *includes):
    path = directory / f"{name}.layout"
    lines = [f"param {k} = {v};" for k, v in params.items()] + [f'include "{i}";' for i in includes]
    path.write_text("\n".join(['model "small.yaml";', *lines, ""]))
    return path


def layouts(train, infer, directory):
    kind = engine(infer)
    slots = [infer["slots"]]
    params = dict(infer, ENGINES=infer["DP"], DP=1, SLOTS=slots)
    if kind == "vllm":
        params["EP"] = int(infer["EP"] > 1)
    del params["slots"]
    return (write(directory, "megatron", train, "megatron/gqa.inc"),
            write(directory, kind, params, f"{kind}/grid.inc", "vllm/gqa.inc"))


def check(args, name, model, train, infer):
    rng = np.random.default_rng(sum(name.encode()))
    weights = logical(model, rng)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        (scratch / "small.yaml").write_text(catalogue(model, weights))
        (scratch / "in").mkdir()
        (scratch / "out").mkdir()
        run(args.bin / "reshardc", *layouts(train, infer, scratch), "-I", args.library, "-o", scratch / "plan")
        run(args.bin / "reshard", "verify", scratch / "plan")
        for rank, buffers in enumerate(megatron(model, train, weights)):
            save(scratch / "in" / f"train-{rank}.safetensors", buffers)
        run(args.bin / "reshard", "run", scratch / "plan", "--in", scratch / "in", "--out", scratch / "out")
        for rank, buffers in enumerate(inference(model, infer, weights)):
            got = load(scratch / "out" / f"infer-{rank}.safetensors")
            if sorted(got) != sorted(buffers):
                raise SystemExit(f"{name}: rank {rank} has other buffers: {sorted(set(got) ^ set(buffers))}")
            for buffer, right in buffers.items():
                if not np.array_equal(got[buffer], right):
                    raise SystemExit(f"{name}: rank {rank}, {buffer}:\n{got[buffer]}\nexpected\n{right}")
    print(f"ok   {name}")


def megatron_way(**changes):
    return dict(TP=1, CP=1, DP=1, PP=1, VPP=1, EP=1, ETP=1, TP_PP_DP=0, PADV=4, EXPERTS='"each"', stages=[4]) | changes


def engine_way(**changes):
    return dict(TP=1, DP=1, PP=1, EP=1, slots=[]) | changes


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--library", type=pathlib.Path, required=True)
    args = parser.parse_args()
    dense = dict(L=4, G=2, Q=2, E=0, QKNORM=1, TIED=1)
    moe = dict(L=4, G=2, Q=4, E=4, QKNORM=0, TIED=0)
    check(args, "dense, one to one", dense, megatron_way(), engine_way())
    check(args, "dense, TP2 PP2 DP2 to TP4 DP2: kv heads shared", dense,
          megatron_way(TP=2, PP=2, DP=2, stages=[2, 2]), engine_way(TP=4, DP=2))
    check(args, "dense, TP8, mid-head, to TP2 PP3", dict(dense, Q=1, TIED=0, L=5),
          megatron_way(TP=8, stages=[5]), engine_way(TP=2, PP=3))
    check(args, "dense, tied on two stages of the engine", dense,
          megatron_way(TP=2, CP=2, PP=2, stages=[3, 1]), engine_way(TP=2, PP=2))
    check(args, "dense, virtual pipeline", dense,
          megatron_way(PP=2, VPP=2, stages=[1, 1, 1, 1]), engine_way(TP=2))
    experts = [0, 1, 2, 3]
    check(args, "experts, EP2 to TP4", moe, megatron_way(TP=2, DP=2, EP=2, stages=[4]), engine_way(TP=4, slots=experts))
    check(args, "experts, EP4 PP2 to EP2 TP4", moe,
          megatron_way(TP=2, DP=2, PP=2, EP=4, stages=[3, 1]), engine_way(TP=4, EP=2, DP=2, slots=experts))
    check(args, "experts, ETP2 EP2, redundant slots", moe,
          megatron_way(TP=4, EP=2, ETP=2, stages=[4]), engine_way(TP=2, EP=2, slots=[0, 1, 1, 2, 3, 0]))


if __name__ == "__main__":
    main()
