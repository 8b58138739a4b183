# SPDX-License-Identifier: Apache-2.0
"""The recorder against the loaders themselves: each loader runs once on values and once on tensors without values; the
recorded layout, compiled and refitted, must leave in every parameter what the loader left.

In: nothing; finds the tools as the package does. Out: exit 0, 1, or 77 with the reason where torch is missing.
"""
import contextlib
import io
import json
import pathlib
import re
import shutil
import struct
import sys
import tempfile

import support

torch = support.need("torch")
support.need("numpy")

import engine  # noqa: E402
import reshard  # noqa: E402
import reshard.record as recorder  # noqa: E402
from reshard import tools  # noqa: E402
from reshard.record import __main__ as command  # noqa: E402
from reshard.record.recorder import DTYPES  # noqa: E402


def values(checkpoint, seed=1):
    """Every element its own value, as far as the dtype goes."""
    torch.manual_seed(seed)
    out = {}
    for name, (dtype, shape) in checkpoint.items():
        count = 1
        for n in shape:
            count *= n
        flat = torch.randperm(count) + len(out) * 0.5 if dtype in ("f32", "f64", "i32", "i64") else torch.randn(count)
        out[name] = flat.reshape(shape).to(DTYPES[dtype])
    return out


def whole(checkpoint, names):
    """A training side that holds each tensor whole on one rank."""
    lines = [f'tensor "{n}" {checkpoint[n][0]} [{", ".join(map(str, checkpoint[n][1]))}];' for n in names]
    lines += ["mesh m [one: 1];", "on m {"] + [f'  buffer "{n}";' for n in names] + ["}"]
    return "\n".join(lines) + "\n"


def record_all(make, load, checkpoint, world):
    recordings = []
    for rank in range(world):
        with recorder.shapes_only():
            module = make(rank)
        recordings.append(recorder.record(module, lambda w: load(module, w), checkpoint, rank, world))
    return recordings


def check_loader(title, make, load, checkpoint, world, text_has=(), text_lacks=()):
    recordings = record_all(make, load, checkpoint, world)
    text = recorder.layout(recordings)
    for part in text_has:
        assert part in text, f"{title}: no {part!r} in\n{text}"
    for part in text_lacks:
        assert part not in text, f"{title}: {part!r} in\n{text}"
    weights = values(checkpoint)
    right = []
    for rank in range(world):
        module = make(rank)
        for p in module.parameters():
            p.data.fill_(-1 if p.dtype.is_floating_point else 1)  # what the loader leaves alone can be told
        load(module, weights)
        right.append(module)
    got = [make(rank) for rank in range(world)]
    for module, other in zip(got, right):
        for p, q in zip(module.parameters(), other.parameters()):
            p.data = torch.full_like(q.data, -1 if p.dtype.is_floating_point else 1)
    names = sorted({p.source[1] for r in recordings for b in r.buffers for p in b[3] if p.source[0] == "tensor"})
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        (scratch / "t.layout").write_text(whole(checkpoint, names))
        (scratch / "i.layout").write_text(text)
        try:
            tools.compile(scratch / "t.layout", scratch / "i.layout", scratch / "plan")
        except RuntimeError as error:
            raise AssertionError(f"{title}: {error}\n{text}")
        with reshard.Plan(scratch / "plan") as plan:
            def rank_of(context):
                if context.rank == 0:
                    reshard.bind_module(context, "train", {n: weights[n] for n in names}).check()
                else:
                    module = got[context.rank - 1]
                    reshard.bind_module(context, "infer", {n: dense(p) for n, p in module.named_parameters()}).check()
                context.prepare()
                context.refit()
                context.wait()
            reshard.host.run(plan, rank_of)
    for rank in range(world):
        for (name, a), b in zip(got[rank].named_parameters(), right[rank].parameters()):
            assert torch.equal(a.data, b.data), f"{title}: rank {rank}: {name}\n{a.data}\n{b.data}\n{text}"
    return recordings, text


def dense(p):
    """The memory of a parameter in its own order."""
    return p.data.permute(sorted(range(p.dim()), key=lambda d: -p.stride(d)))


# ---- an engine in vLLM's style


def test_engine():
    for world, changes in ((1, {}), (2, {}), (4, {}), (4, dict(ep=True, E=8)), (2, dict(V=64)), (4, dict(V=33)), (3, dict(
            heads=3, kv=3, I=6, F=6, C=6, V=50, pad=3)), (8, dict(heads=8, F=8, I=16, V=20, pad=64))):
        sizes = engine.SIZES | changes
        has = ["stack(e in 0..4"] if world < 4 else []
        recordings, text = check_loader(
            f"engine {world} {changes}", lambda rank: engine.Engine(sizes, rank, world),
            lambda module, w: module.load_weights(w.items()), engine.checkpoint(sizes), world,
            text_has=["for l in 0..2", "neg_exp", "add(", "pad(_, "] + has if changes.get("V") != 64 else has)
        if world == 4 and not changes:
            assert "@tp:share(2)" in text and "on m[" not in text, text
            check_by_hand(sizes, recordings)


HAND = """
param TP = 2;
{tensors}
mesh m [tp: TP];
let REP = max(1, TP / 2);
def col(w) = w[_ @tp, ..];
def kv(w)  = w[_ @tp:share(REP), ..];
on m {{
  buffer "embed.weight" = "embed.weight"[pad(_, 80) @tp, _];
  buffer "mamba.A" f32 = cast(neg_exp(col("mamba.A_log")));
  buffer "mamba.conv" = col("mamba.conv"[16, 1, 4]);
  buffer "mamba.norm" = add("mamba.norm", 1.0);
  for l in 0..2 {{
    let hf = "layers.{{l}}";
    for n in ["weight", "bias"] {{
      buffer "{{hf}}.qkv_proj.{{n}}" = cat(0, col("{{hf}}.q_proj.{{n}}"), kv("{{hf}}.k_proj.{{n}}"), kv("{{hf}}.v_proj.{{n}}"));
    }}
    buffer "{{hf}}.norm";
    buffer "{{hf}}.gate.weight";
    for n in ["o", "down"] {{ buffer "{{hf}}.{{n}}_proj.weight"[_, _ @tp]; }}
    buffer "{{hf}}.gate_up_proj.weight" = cat(0, col("{{hf}}.gate_proj.weight"), col("{{hf}}.up_proj.weight"));
    buffer "{{hf}}.experts.w13_weight" =
      stack(e in 0..4, cat(0, col("{{hf}}.experts.{{e}}.{first}_proj.weight"), col("{{hf}}.experts.{{e}}.{second}_proj.weight")));
    buffer "{{hf}}.experts.w2_weight" = stack(e in 0..4, "{{hf}}.experts.{{e}}.down_proj.weight"[_, _ @tp]);
  }}
}}
"""


def run_command(*arguments):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = command.main([str(a) for a in arguments])
    return status, out.getvalue(), err.getvalue()


def check_by_hand(sizes, recordings):
    """`check` agrees with a layout written by hand, and sees a wrong one, wrong sizes, a missing buffer."""
    tensors = "\n".join(f'tensor "{n}" {d} [{", ".join(map(str, s))}];' for n, (d, s) in engine.checkpoint(sizes).items())
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        files = []
        for r in recordings:
            files.append(scratch / f"rank{r.rank}.json")
            r.save(files[-1])
            again = recorder.Recording.load(files[-1])
            assert (again.buffers, again.tensors) == (r.buffers, r.tensors)
        right, wrong = (HAND.format(tensors=tensors, first=a, second=b) for a, b in (("gate", "up"), ("up", "gate")))
        hand = scratch / "hand.layout"
        for text, defines, status, says in (
                (right, "TP=4", 0, "says what the loader does"),
                (wrong, "TP=4", 1, "buffer 'layers.0.experts.w13_weight' on ranks 0-3: it holds other elements"),
                (right, "TP=2", 1, "the loader was recorded on 4 ranks, the layout has 2"),
                (right.replace('  buffer "mamba.norm" = add("mamba.norm", 1.0);\n', 'skip "mamba.norm";\n'), "TP=4", 1, "skip"),
                (right.replace("add(\"mamba.norm\", 1.0)", "add(\"mamba.norm\", 2.0)"), "TP=4", 1, "mamba.norm"),
                (right.replace('buffer "{hf}.norm";', 'buffer "{hf}.norms" = "{hf}.norm";'), "TP=4", 1, "lacks it")):
            hand.write_text(text)
            got, out, err = run_command("check", hand, *files, "-D", defines)
            assert got == status and (says in out or says == "skip"), (got, out, err)
        status, out, err = run_command("write", *files)
        assert status == 0 and out == recorder.layout(recordings), err
        status, out, err = run_command("write", *files[1:])
        assert status == 1 and "one for each of 0 to 2" in err, err
        files[0].write_text(json.dumps({"reshard-recording": 2}))
        status, out, err = run_command("check", hand, *files)
        assert status == 2 and "reads version 1" in err, err


# ---- the library's own layout


QWEN = dict(L=2, H=8, V=70, G=2, Q=2, D=4, I=8, E=4)


def small_library(scratch):
    """The library with Qwen3-30B-A3B at this size."""
    shutil.copytree(support.ROOT / "plans" / "library", scratch / "library")
    catalogue = scratch / "library" / "models" / "qwen3-30b-a3b.yaml"
    text = catalogue.read_text()
    for name, value in QWEN.items():
        text, changed = re.subn(rf"(?m)^  {name}: \d+", f"  {name}: {value}", text)
        assert changed == 1, name
    catalogue.write_text(text)
    return scratch / "library" / "vllm" / "qwen3-30b-a3b.layout"


def test_library():
    """plans/library/vllm says what a loader in vLLM's style does, at the same parallelism only."""
    with tempfile.TemporaryDirectory() as scratch:
        shipped = small_library(pathlib.Path(scratch))
        for world, ep in ((1, 0), (2, 0), (4, 0), (2, 1), (4, 1)):
            recordings = record_all(lambda rank: engine.Qwen(QWEN, rank, world, ep), lambda m, w: m.load_weights(w.items()),
                                    engine.qwen_checkpoint(QWEN), world)
            options = ("-D", "ENGINES=1", "-D", f"TP={world}", "-D")
            assert recorder.check(shipped, recordings, options + (f"EP={ep}",)) == []
            if world > 1:
                found = recorder.check(shipped, recordings, options + (f"EP={1 - ep}",))
                assert len(found) == 2 * QWEN["L"] and all("routed_experts.w" in f for f in found), found


# ---- loaders of all kinds, on one parameter


class One(torch.nn.Module):
    def __init__(self, *shape, dtype=torch.float32):
        super().__init__()
        self.p = engine.parameter(*shape, dtype=dtype)


W = {"w": ("f32", (8, 6))}
AB = {"a": ("f32", (4, 6)), "b": ("f32", (4, 6))}


def rope(w):
    return w.view(2, 2, 2, 6).transpose(1, 2).reshape(8, 6)


def set_(m, value):
    m.p.data = value


def zeros_first(m, w):
    buffer = torch.zeros(10, 6)
    buffer[2:] = w["w"]
    m.p.data.copy_(buffer)


def moved(m, w):
    m.p.data.copy_(w["w"].to("cuda:0", non_blocking=True).cuda() if m.p.is_meta else w["w"])


@torch.inference_mode()
def inference(m, w):
    m.p.data.copy_(w["w"].t().contiguous().t())


def twice(m, w):
    m.p.data.zero_()
    m.p.data.copy_(w["a"][:, :1].expand(4, 6))
    m.p.data[1:3] = w["b"][1:3]
    m.p.data[2:, 4:] = w["a"][2:, 2:4]


CASES = [  # title, checkpoint, shape of p, loader
    ("copy", W, (8, 6), lambda m, w: m.p.data.copy_(w["w"])),
    ("transpose", W, (6, 8), lambda m, w: m.p.data.copy_(w["w"].t())),
    ("transposed parameter", W, (6, 8), lambda m, w: m.p.data.t().copy_(w["w"])),
    ("flat", W, (48,), lambda m, w: m.p.data.copy_(w["w"].reshape(-1))),
    ("flat range", W, (29,), lambda m, w: m.p.data.copy_(w["w"].view(-1)[9:38])),
    ("flat range of a transpose", W, (29,), lambda m, w: m.p.data.copy_(w["w"].t().reshape(-1)[9:38])),
    ("merge", W, (4, 12), lambda m, w: m.p.data.copy_(w["w"].view(4, 12))),
    ("uneven merge", W, (16, 3), lambda m, w: m.p.data.copy_(w["w"].view(16, 3))),
    ("cat", AB, (8, 6), lambda m, w: m.p.data.copy_(torch.cat([w["b"], w["a"]]))),
    ("cat of columns", AB, (4, 12), lambda m, w: m.p.data.copy_(torch.cat([w["b"], w["a"]], dim=1))),
    ("stack", AB, (2, 4, 6), lambda m, w: m.p.data.copy_(torch.stack([w["b"], w["a"]]))),
    ("stack inside", AB, (4, 2, 6), lambda m, w: m.p.data.copy_(torch.stack([w["b"], w["a"]], dim=1))),
    ("interleave", AB, (8, 6), lambda m, w: (m.p.data[0::2].copy_(w["a"]), m.p.data[1::2].copy_(w["b"]))),
    ("interleaved stack", AB, (8, 6), lambda m, w: m.p.data.copy_(torch.stack([w["a"], w["b"]], 1).reshape(8, 6))),
    ("rope permutation", W, (8, 6), lambda m, w: m.p.data.copy_(rope(w["w"]))),
    ("split", W, (8, 6), lambda m, w: [m.p.data[:, 2 * i:2 * i + 2].copy_(x) for i, x in enumerate(w["w"].split(2, 1)[::-1])]),
    ("chunks, contiguous", W, (4, 6), lambda m, w: m.p.data.copy_(w["w"].chunk(2)[1].contiguous().clone())),
    ("unbind", W, (6,), lambda m, w: m.p.data.copy_(w["w"].unbind(0)[3])),
    ("packed experts", {"w": ("f32", (3, 6, 8))}, (3, 4, 6), lambda m, w: m.p.data.copy_(w["w"].transpose(1, 2)[:, 0::2])),
    ("heads", {"w": ("f32", (12, 5))}, (2, 5, 4), lambda m, w: m.p.data.copy_(w["w"].view(2, 6, 5)[:, 2:].transpose(1, 2))),
    ("rows by index", W, (3, 6), lambda m, w: m.p.data.copy_(w["w"][torch.tensor([5, 0, 2])])),
    ("index_select", W, (8, 3), lambda m, w: m.p.data.copy_(w["w"].index_select(1, torch.tensor([5, 0, 2])))),
    ("index assignment", AB, (8, 6), lambda m, w: m.p.data.__setitem__(torch.tensor([6, 1, 4, 3]), w["a"])),
    ("index_copy", AB, (8, 6), lambda m, w: m.p.data.index_copy_(0, torch.tensor([6, 1, 4, 3]), w["a"])),
    ("mask", W, (8, 6), lambda m, w: m.p.data.copy_(w["w"]).__setitem__(torch.tensor([True, False] * 4), 0)),
    ("repeat", AB, (8, 6), lambda m, w: m.p.data.copy_(w["a"].repeat(2, 1))),
    ("repeat_interleave", AB, (8, 6), lambda m, w: m.p.data.copy_(w["a"].repeat_interleave(2, 0))),
    ("expand", AB, (3, 4, 6), lambda m, w: m.p.data.copy_(w["a"].expand(3, 4, 6))),
    ("scalar for all", {"w": ("f32", ())}, (4,), lambda m, w: m.p.data.fill_(w["w"])),
    ("scalar", {"w": ("f32", ())}, (), lambda m, w: m.p.data.copy_(w["w"])),
    ("element", {"w": ("f32", (1,))}, (3,), lambda m, w: m.p.data.__setitem__(2, w["w"][0])),
    ("pad", W, (10, 8), lambda m, w: m.p.data.copy_(torch.nn.functional.pad(w["w"], (0, 2, 0, 2)))),
    ("pad before", W, (10, 7), lambda m, w: m.p.data.copy_(torch.nn.functional.pad(w["w"], (1, 0, 2, 0)))),
    ("zeros and a slice", W, (10, 6), zeros_first),
    ("flip", W, (8, 6), lambda m, w: m.p.data.copy_(w["w"].flip(0))),
    ("roll", W, (8, 6), lambda m, w: m.p.data.copy_(w["w"].roll(2, 0))),
    ("overwritten", AB, (4, 6), twice),
    ("assigned data", W, (8, 6), lambda m, w: set_(m, w["w"][2:6].clone())),
    ("other devices", W, (8, 6), moved),
    ("to and back", W, (8, 6), lambda m, w: m.p.data.copy_(w["w"].double().float())),
    ("partly", W, (10, 6), lambda m, w: m.p.data[3:7].copy_(w["w"][:4])),
    ("diagonal", W, (6,), lambda m, w: m.p.data.copy_(w["w"].diagonal())),
    ("windows", W, (6, 3, 6), lambda m, w: m.p.data.copy_(w["w"].unfold(0, 3, 1).transpose(1, 2))),
    ("bits and back", W, (8, 6), lambda m, w: m.p.data.view(torch.int32).copy_(w["w"].view(torch.int32))),
    ("value of a fill", W, (8, 6), lambda m, w: m.p.data.copy_(w["w"][int(torch.zeros(1).item()):])),
    ("inference mode", W, (8, 6), inference),
    ("foreach", AB, (4, 6), lambda m, w: torch._foreach_copy_([m.p.data], [w["b"]])),
]


def test_loaders():
    failed = []
    for title, checkpoint, shape, load in CASES:
        try:
            check_loader(title, lambda rank: One(*shape), load, checkpoint, 1)
        except Exception as error:
            failed.append(f"{title}: {type(error).__name__}: {error}")
    assert not failed, "\n\n".join(failed)


def test_casts():
    half, single = {"w": ("bf16", (8, 6))}, W
    for title, checkpoint, dtype, load in (
            ("up", half, torch.float32, lambda m, w: m.p.data.copy_(w["w"])),
            ("down", single, torch.bfloat16, lambda m, w: m.p.data.copy_(w["w"])),
            ("to", single, torch.bfloat16, lambda m, w: m.p.data.copy_(w["w"].to(m.p.dtype))),
            ("through f32", half, torch.float16, lambda m, w: m.p.data.copy_(w["w"].float().half())),
            ("neg_exp", half, torch.float32, lambda m, w: m.p.data.copy_(w["w"].float().exp().neg())),
            ("add", half, torch.bfloat16, lambda m, w: m.p.data.copy_((w["w"].float() + 0.5).bfloat16()))):
        check_loader(title, lambda rank: One(8, 6, dtype=dtype), load, checkpoint, 1,
                     text_has=["cast("] if title not in ("add",) else ["add("])


def refused(title, load, says, error, checkpoint=W, shape=(8, 6), dtype=torch.float32):
    with torch.device("meta"):
        module = One(*shape, dtype=dtype)
    try:
        recording = recorder.record(module, lambda w: load(module, w), checkpoint)
        text = recorder.layout([recording])
    except error as e:
        missing = [s for s in says if s not in str(e)]
        assert not missing, f"{title}: {missing} not in {e}"
        return
    raise AssertionError(f"{title}: was not refused\n{text}")


def test_refused():
    """What cannot be traced names the operation, the parameter and the loader's line."""
    lost = recorder.Untraced
    refused("sum", lambda m, w: m.p.data.copy_(w["w"].cumsum(0)), ["parameter 'p'", "aten.cumsum", "record_test.py:"], lost)
    refused("scaled", lambda m, w: m.p.data.copy_(w["w"] * 2), ["parameter 'p'", "aten.mul", "record_test.py:"], lost)
    refused("in place", lambda m, w: m.p.data.copy_(w["w"]).mul_(3), ["parameter 'p'", "aten.mul_"], lost)
    refused("sum of two", lambda m, w: m.p.data.copy_(w["a"] + w["b"]), ["parameter 'p'", "aten.add"], lost, AB, (4, 6))
    refused("value", lambda m, w: m.p.data.fill_(w["w"][0, 0].item()), ["_local_scalar_dense", "asks for a value"], lost)
    table = torch.zeros(3, dtype=torch.int32, device="meta")
    refused("table", lambda m, w: m.p.data[table[1].item()].copy_(w["w"][0]), ["record_test.py:", "shapes_only()"], lost)
    refused("accumulate", lambda m, w: m.p.data.index_put_((torch.tensor([1, 1]),), w["w"][:2], accumulate=True),
            ["parameter 'p'", "index_put_"], lost)
    refused("quantised", lambda m, w: m.p.data.copy_((w["w"] / 2).round()), ["parameter 'p'"], lost)
    hard = recorder.Unwritable
    refused("flip", lambda m, w: m.p.data.copy_(w["w"].half()), ["'p'", "f16", "rounded"], hard)
    refused("exp in bf16", lambda m, w: m.p.data.copy_(-w["w"].exp()), ["'p'", "computed in bf16"], hard, {"w": ("bf16", (8, 6))})
    refused("rounded twice", lambda m, w: m.p.data.copy_((w["w"].half() + 0.5)), ["'p'", "f16"], hard)
    refused("bits", lambda m, w: m.p.data.copy_(w["w"].view(torch.int32)), ["'p'", "read as i32"], hard, dtype=torch.int32)
    refused("other width", lambda m, w: m.p.data.copy_(w["w"].view(torch.int16)[:, :6]), ["float32 is viewed as int16"], lost)
    refused("to f8", lambda m, w: m.p.data.copy_(w["w"]), ["'p'", "converted to f8e4m3"], hard, dtype=torch.float8_e4m3fn)
    refused("exp", lambda m, w: m.p.data.copy_(w["w"].exp()), ["'p'", "exp"], hard)


def test_overwritten_computation():
    """What is computed and then overwritten is no trouble; nor is what is drawn at random."""
    def load(m, w):
        m.p.data.normal_()
        m.p.data.copy_(w["w"] * 2)
        m.p.data.copy_(w["w"])
    check_loader("overwritten", lambda rank: One(8, 6), load, W, 1)


def test_real_module():
    """A module that has memory is recorded, too; its values stay as they are."""
    module = One(8, 6)
    module.p.data.fill_(5)
    recording = recorder.record(module, lambda w: module.p.data.t().copy_(w["w"].t()), W)
    assert 'buffer "p" = "w";' in recorder.layout([recording]) and (module.p == 5).all()


ENGINE_FILE = """
import engine
def make(rank, world):
    module = engine.Engine(engine.SIZES, rank, world)
    return module, lambda w: module.load_weights(w.items())
def lossy(rank, world):
    module, load = make(rank, world)
    def run(w):
        load(w)
        module.layers[1].norm.data.copy_(w["layers.1.norm"].softmax(0))
    return module, run
"""


def test_command():
    """`run` on a checkpoint's headers, `write` of what it kept; what cannot be traced ends with status 1 and its name."""
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        names = {n: {"dtype": d.upper(), "shape": list(s), "data_offsets": [0, 0]} for n, (d, s) in engine.checkpoint(engine.SIZES).items()}
        header = json.dumps(names).encode()
        (scratch / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
        (scratch / "my.py").write_text(ENGINE_FILE)
        run = lambda name, *a: run_command("run", f"{scratch / 'my.py'}:{name}", "--checkpoint", scratch, "--world", 2, *a)
        status, out, err = run("make", "-o", scratch / "i.layout", "--save", scratch)
        assert status == 0, err
        status, out, err = run_command("write", scratch / "rank0.json", scratch / "rank1.json")
        assert status == 0 and out == (scratch / "i.layout").read_text() and "@tp" in out, err
        status, out, err = run("lossy")
        assert status == 1 and "parameter 'layers.1.norm'" in err and "softmax" in err and "my.py:" in err, err
        assert run("nothing")[0] == 2
        done = tools.run("reshard", "layout", "check", scratch / "i.layout", scratch / "i.layout")
        assert done.returncode == 0, done.stderr


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(8)
        self.attn = torch.nn.Linear(8, 8)
        self.mlp = torch.nn.Linear(8, 16, bias=False)


class Plain(torch.nn.Module):
    """In the style of transformers: the checkpoint's names are the module's, and the head is tied."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(20, 8)
        self.h = torch.nn.ModuleList(Block() for _ in range(3))
        self.head = torch.nn.Linear(8, 20, bias=False)
        self.head.weight = self.embed.weight


def test_plain_copies():
    checkpoint = {n: ("f32", tuple(p.shape)) for n, p in Plain().named_parameters()}
    for assign in (False, True):
        with torch.device("meta"):
            module = Plain()
        recording = recorder.record(module, lambda w: module.load_state_dict(w, strict=False, assign=assign), checkpoint)
        text = recorder.layout([recording])
        for part in ('buffer "embed.weight";', "for l in 0..3 {", 'buffer "h.{l}.attn.bias";'):
            assert part in text, text
        assert (assign or "same memory as embed.weight" in text), text
    check_loader("load_state_dict", lambda rank: Plain(), lambda m, w: m.load_state_dict(w, strict=False), checkpoint, 1)


def test_docs():
    """The layout that docs/python.md shows is what is written."""
    shown = (support.ROOT / "docs" / "python.md").read_text().partition("```\nmesh m")[2].partition("```")[0]
    recordings = record_all(lambda rank: engine.Engine(engine.SIZES, rank, 4), lambda m, w: m.load_weights(w.items()),
                            engine.checkpoint(engine.SIZES), 4)
    text = recorder.layout(recordings).split("\n")
    assert shown.count("buffer") == 5 and not [l for l in ("mesh m" + shown).split("\n") if l not in text], shown


def test_unread():
    """What no rank reads is skipped, so that a training side may hold it."""
    checkpoint = W | {"layers.0.extra": ("f32", (2,)), "layers.1.extra": ("f32", (2,))}
    _, text = check_loader("unread", lambda rank: One(4, 6), lambda m, w: m.p.data.copy_(w["w"][:4]), W, 1,
                           text_has=['skip "w";'])
    with torch.device("meta"):
        module = One(8, 6)
    text = recorder.layout([recorder.record(module, lambda w: module.p.data.copy_(w["w"]), checkpoint)])
    assert 'for l in 0..2 { skip "layers.{l}.extra"; }' in text, text


if __name__ == "__main__":
    sys.exit(support.main(globals()))
