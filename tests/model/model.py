# SPDX-License-Identifier: Apache-2.0
"""`reshard model`: a checkpoint's headers become a catalogue that, read back by the compiler, has the same tensors.
Usage: model.py RESHARDC RESHARD"""
import json
import os
import struct
import subprocess
import sys
import tempfile

RESHARDC, RESHARD = sys.argv[1:3]
SIZES = {"BF16": 2, "F32": 4, "F8_E4M3": 1, "I64": 8}
WORDS = {"BF16": "bf16", "F32": "f32", "F8_E4M3": "f8e4m3", "I64": "i64"}


def write_file(path, tensors):
    """A safetensors file of these (name, dtype, shape), its data a hole."""
    header, at = {}, 0
    for name, dtype, shape in tensors:
        size = SIZES[dtype]
        for extent in shape:
            size *= extent
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + at)


def checkpoint(directory, files, index=True, break_index=None):
    os.makedirs(directory)
    weight_map = {}
    for number, tensors in enumerate(files):
        name = f"model-{number + 1:05}-of-{len(files):05}.safetensors"
        write_file(os.path.join(directory, name), tensors)
        weight_map.update({tensor[0]: name for tensor in tensors})
    if break_index:
        weight_map.update(break_index)
    if index:
        with open(os.path.join(directory, "model.safetensors.index.json"), "w") as file:
            json.dump({"metadata": {}, "weight_map": weight_map}, file)


def run(*command):
    return subprocess.run(command, capture_output=True, text=True)


def read_back(work, catalogue):
    """The tensors of a catalogue as the compiler sees them: {name: (dtype, shape)}."""
    path = os.path.join(work, "side.layout")
    with open(path, "w") as file:
        file.write(f'model "{os.path.basename(catalogue)}"; mesh m [r: 1];\n'
                   'on m { for n in tensors("*") { buffer "{n}"; } }\n')
    plan = os.path.join(work, "plan.bin")
    made = run(RESHARDC, path, path, "-o", plan)
    assert made.returncode == 0, made.stderr
    shown = json.loads(run(RESHARD, "show", plan, "--json", "--tensor", "*").stdout)
    return {t["name"]: (t["dtype"], t["shape"]) for t in shown["tensor_list"]}


def moe(layers, experts):
    tensors = [("model.embed_tokens.weight", "BF16", [128, 16]), ("model.norm.weight", "BF16", [16])]
    for l in range(layers):
        tensors.append((f"model.layers.{l}.input_layernorm.weight", "BF16", [16]))
        if l == 0:
            tensors.append(("model.layers.0.mlp.up_proj.weight", "BF16", [48, 16]))
            continue
        tensors.append((f"model.layers.{l}.mlp.gate.e_score_correction_bias", "F32", [experts]))
        tensors += [(f"model.layers.{l}.mlp.experts.{e}.up_proj.weight", "BF16", [8, 16]) for e in range(experts)]
    return tensors


def test_round_trip(work):
    tensors = moe(12, 20)
    checkpoint(os.path.join(work, "tiny"), [tensors[:70], tensors[70:200], tensors[200:]])
    catalogue = os.path.join(work, "tiny.yaml")
    made = run(RESHARD, "model", os.path.join(work, "tiny"), "-o", catalogue)
    assert made.returncode == 0, made.stderr
    text = open(catalogue).read()
    assert "model.layers.{l}.mlp.experts.{e}.up_proj.weight\", for: {l: 1..12, e: 0..20}" in text, text
    assert len([line for line in text.splitlines() if line.startswith("  - ")]) == 6, text
    assert read_back(work, catalogue) == {n: (WORDS[d], s) for n, d, s in tensors}


def test_uneven_families(work):
    """Numbers that are no product, leading zeros, names with braces and quotes, scalars, a single file without index."""
    tensors = [(f"a.{i}.{j}.w", "BF16", [2]) for i in range(3) for j in range(i + 1)]
    tensors += [("b.{x}.w", "F32", []), ('c."q".w', "I64", [3]), ("d.007.w", "BF16", [1]), ("e.5.w", "F8_E4M3", [4])]
    tensors += [(f"layers.{i}.layers.{j}.experts.{k}.s", "F32", [1]) for i in (0, 2) for j in (1, 3, 4) for k in range(2)]
    checkpoint(os.path.join(work, "odd"), [tensors], index=False)
    catalogue = os.path.join(work, "odd.yaml")
    made = run(RESHARD, "model", os.path.join(work, "odd") + "/", "-o", catalogue)
    assert made.returncode == 0, made.stderr
    assert read_back(work, catalogue) == {n: (WORDS[d], s) for n, d, s in tensors}


def test_refusals(work):
    tensors = moe(2, 2)
    checkpoint(os.path.join(work, "lie"), [tensors], break_index={"ghost": "model-00001-of-00001.safetensors"})
    cases = [("lie", 1, "ghost")]
    checkpoint(os.path.join(work, "twice"), [tensors, tensors[:1]], index=False)
    cases.append(("twice", 1, "model.embed_tokens.weight"))
    os.makedirs(os.path.join(work, "empty"))
    cases.append(("empty", 2, "no .safetensors"))
    cases.append(("missing", 2, "missing"))
    checkpoint(os.path.join(work, "escape"), [tensors], break_index={"x": "../x.safetensors"})
    cases.append(("escape", 1, "'x'"))
    for name, status, said in cases:
        output = os.path.join(work, name + ".yaml")
        made = run(RESHARD, "model", os.path.join(work, name), "-o", output)
        assert made.returncode == status and said in made.stderr, (name, made.returncode, made.stderr)
        assert not os.path.exists(output), name


def main():
    for test in (test_round_trip, test_uneven_families, test_refusals):
        with tempfile.TemporaryDirectory() as work:
            test(work)
        print("ok", test.__name__)


main()
