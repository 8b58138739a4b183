# SPDX-License-Identifier: Apache-2.0
"""A small inference engine in torch whose parameters and loaders are built as vLLM builds them: a weight_loader on each
parameter narrows the checkpoint's tensor to this rank's part and copies it into a part of the parameter.

In: sizes, a rank of `world`. Out: a module with load_weights(weights).
"""
import torch
from torch import nn


def parameter(*shape, dtype=torch.float32, **attributes):
    p = nn.Parameter(torch.empty(shape, dtype=dtype), requires_grad=False)
    for name, value in attributes.items():
        setattr(p, name, value)
    return p


class Linear(nn.Module):
    """Column parallel over dim 0, row parallel over dim 1, or whole."""

    def __init__(self, engine, rows, columns, dim):
        super().__init__()
        self.rank, self.world, self.dim = engine.rank, engine.world, dim
        shape = [rows, columns]
        if dim is not None:
            shape[dim] //= engine.world
        self.weight = parameter(*shape, weight_loader=self.load)

    def load(self, param, loaded):
        if self.dim is not None:
            size = param.shape[self.dim]
            loaded = loaded.narrow(self.dim, self.rank * size, size)
        assert param.shape == loaded.shape
        param.data.copy_(loaded)


class QKV(nn.Module):
    def __init__(self, engine, hidden, heads, kv_heads, size):
        super().__init__()
        self.rank, self.size = engine.rank, size
        self.q = heads // engine.world
        self.kv = max(1, kv_heads // engine.world)
        self.copies = max(1, engine.world // kv_heads)
        rows = (self.q + 2 * self.kv) * size
        self.weight = parameter(rows, hidden, weight_loader=self.load)
        self.bias = parameter(rows, weight_loader=self.load)

    def load(self, param, loaded, shard):
        start = {"q": 0, "k": self.q * self.size, "v": (self.q + self.kv) * self.size}[shard]
        rows = (self.q if shard == "q" else self.kv) * self.size
        part = self.rank if shard == "q" else self.rank // self.copies
        param.data.narrow(0, start, rows).copy_(loaded.narrow(0, part * rows, rows))


class GateUp(nn.Module):
    def __init__(self, engine, inner, hidden):
        super().__init__()
        self.rank, self.rows = engine.rank, inner // engine.world
        self.weight = parameter(2 * self.rows, hidden, weight_loader=self.load)

    def load(self, param, loaded, shard):
        mine = loaded.chunk(loaded.shape[0] // self.rows, dim=0)[self.rank]
        param.data[shard * self.rows:(shard + 1) * self.rows] = mine


class Experts(nn.Module):
    """w13 and w2 of all experts, cut inside, or with `ep` those of this rank, whole."""

    def __init__(self, engine, count, inner, hidden, ep=False):
        super().__init__()
        self.rank, self.ep = (0 if ep else engine.rank), ep
        self.count = count // engine.world if ep else count
        self.slots = torch.full((count,), -1, dtype=torch.int32)  # the map of experts: where each is on this rank
        first = engine.rank * self.count if ep else 0
        self.slots[first:first + self.count] = torch.arange(self.count, dtype=torch.int32)
        self.rows = inner if ep else inner // engine.world
        self.w13_weight = parameter(self.count, 2 * self.rows, hidden, weight_loader=self.load)
        self.w2_weight = parameter(self.count, hidden, self.rows, weight_loader=self.load)

    def load(self, param, loaded, expert, shard):
        slot = self.slots[expert].item()
        if slot == -1:
            return
        place = param.data[slot]
        if shard == "w2":
            place.copy_(loaded.narrow(1, self.rank * self.rows, self.rows))
            return
        half = place.narrow(0, 0 if shard == "w1" else self.rows, self.rows)
        half.copy_(loaded.narrow(0, self.rank * self.rows, self.rows))


class Embedding(nn.Module):
    """The vocabulary padded to a multiple, then cut; rows beyond it are zero."""

    def __init__(self, engine, vocabulary, hidden, multiple):
        super().__init__()
        padded = -(-vocabulary // multiple) * multiple
        self.rows = padded // engine.world
        self.start = engine.rank * self.rows
        self.weight = parameter(self.rows, hidden, weight_loader=self.load)

    def load(self, param, loaded):
        mine = loaded[self.start:self.start + self.rows]
        param[:mine.shape[0]].data.copy_(mine)
        param[mine.shape[0]:].data.fill_(0)


class Mamba(nn.Module):
    """A is -exp(A_log) in FP32; conv1d is stored with a dimension in the middle."""

    def __init__(self, engine, heads, channels, width):
        super().__init__()
        self.rank, self.world = engine.rank, engine.world
        self.A = parameter(heads // engine.world, dtype=torch.float32, weight_loader=self.load_a)
        self.conv = parameter(channels // engine.world, 1, width, weight_loader=self.load_conv)
        self.norm = parameter(channels, dtype=torch.float32, weight_loader=lambda p, w: p.data.copy_(w + 1.0))

    def load_a(self, param, loaded):
        size = param.shape[0]
        param.data.copy_(-torch.exp(loaded.narrow(0, self.rank * size, size).float()))

    def load_conv(self, param, loaded):
        size = param.shape[0]
        param.data.copy_(loaded[self.rank * size:(self.rank + 1) * size].unsqueeze(1))


class Layer(nn.Module):
    def __init__(self, engine, s):
        super().__init__()
        self.qkv_proj = QKV(engine, s["H"], s["heads"], s["kv"], s["D"])
        self.o_proj = Linear(engine, s["H"], s["heads"] * s["D"], 1)
        self.gate_up_proj = GateUp(engine, s["I"], s["H"])
        self.down_proj = Linear(engine, s["H"], s["I"], 1)
        self.gate = Linear(engine, s["E"], s["H"], None)
        self.experts = Experts(engine, s["E"], s["F"], s["H"], s.get("ep", False))
        self.norm = nn.Parameter(torch.empty(s["H"]), requires_grad=False)


class Engine(nn.Module):
    STACKED = [("qkv_proj", "q_proj", "q"), ("qkv_proj", "k_proj", "k"), ("qkv_proj", "v_proj", "v"),
               ("gate_up_proj", "gate_proj", 0), ("gate_up_proj", "up_proj", 1)]
    EXPERT = {"gate_proj": ("w13_weight", "w1"), "up_proj": ("w13_weight", "w3"), "down_proj": ("w2_weight", "w2")}

    def __init__(self, sizes, rank, world):
        super().__init__()
        self.rank, self.world = rank, world
        self.embed = Embedding(self, sizes["V"], sizes["H"], sizes["pad"])
        self.layers = nn.ModuleList(Layer(self, sizes) for _ in range(sizes["L"]))
        self.mamba = Mamba(self, sizes["heads"], sizes["C"], 4)
        self.register_buffer("inv_freq", torch.arange(4) / 4.0, persistent=False)

    def load_weights(self, weights):
        params = dict(self.named_parameters())
        for name, loaded in weights:
            if ".experts." in name:
                head, _, tail = name.partition(".experts.")
                expert, kind, _ = tail.split(".")
                target, shard = self.EXPERT[kind]
                p = params[f"{head}.experts.{target}"]
                p.weight_loader(p, loaded, int(expert), shard)
                continue
            for fused, part, shard in self.STACKED:
                if f".{part}." in name:
                    p = params[name.replace(part, fused)]
                    p.weight_loader(p, loaded, shard)
                    break
            else:
                p = params[name.replace("A_log", "A")]
                getattr(p, "weight_loader", lambda p, w: p.data.copy_(w))(p, loaded)


SIZES = dict(L=2, V=70, H=8, D=4, heads=4, kv=2, I=24, E=4, F=8, C=16, pad=16)


def checkpoint(s):
    """Names, dtypes and shapes of the model on disk."""
    out = {"embed.weight": ("f32", (s["V"], s["H"])), "mamba.A_log": ("bf16", (s["heads"],)),
           "mamba.conv": ("f32", (s["C"], 4)), "mamba.norm": ("f32", (s["C"],))}
    for l in range(s["L"]):
        at = f"layers.{l}"
        for n, heads in (("q", s["heads"]), ("k", s["kv"]), ("v", s["kv"])):
            out[f"{at}.{n}_proj.weight"] = ("f32", (heads * s["D"], s["H"]))
            out[f"{at}.{n}_proj.bias"] = ("f32", (heads * s["D"],))
        out[f"{at}.o_proj.weight"] = ("f32", (s["H"], s["heads"] * s["D"]))
        out[f"{at}.gate_proj.weight"] = out[f"{at}.up_proj.weight"] = ("f32", (s["I"], s["H"]))
        out[f"{at}.down_proj.weight"] = ("f32", (s["H"], s["I"]))
        out[f"{at}.gate.weight"], out[f"{at}.norm"] = ("f32", (s["E"], s["H"])), ("f32", (s["H"],))
        for e in range(s["E"]):
            out[f"{at}.experts.{e}.gate_proj.weight"] = out[f"{at}.experts.{e}.up_proj.weight"] = ("f32", (s["F"], s["H"]))
            out[f"{at}.experts.{e}.down_proj.weight"] = ("f32", (s["H"], s["F"]))
    return out


# ---- Qwen3 MoE under vLLM's own names, in BF16


class Dict(nn.Module):
    """Modules and parameters by name, as `a.b.c`."""

    def __init__(self, **parts):
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part) if isinstance(part, nn.Module) else self.register_parameter(name, part)


class Qwen(nn.Module):
    def __init__(self, s, rank, world, ep):
        super().__init__()
        self.rank, self.world, H, D = rank, world, s["H"], s["D"]
        heads = s["G"] * s["Q"]
        norm = lambda size: Dict(weight=parameter(size))
        layers = []
        for _ in range(s["L"]):
            qkv = QKV(self, H, heads, s["G"], D)
            del qkv.bias
            experts = Experts(self, s["E"], s["I"], H, ep)
            layers.append(Dict(
                input_layernorm=norm(H), post_attention_layernorm=norm(H),
                self_attn=Dict(qkv_proj=qkv, o_proj=Linear(self, H, heads * D, 1), q_norm=norm(D), k_norm=norm(D)),
                mlp=Dict(gate=Linear(self, s["E"], H, None), experts=Dict(routed_experts=experts))))
        self.model = Dict(embed_tokens=Embedding(self, s["V"], H, 64), layers=nn.ModuleList(layers), norm=norm(H))
        self.lm_head = Embedding(self, s["V"], H, 64)
        for p in self.parameters():
            p.data = p.data.bfloat16()

    def load_weights(self, weights):
        params = dict(self.named_parameters())
        for name, loaded in weights:
            head, experts, tail = name.partition(".experts.")
            if experts:
                expert, kind, _ = tail.split(".")
                target, shard = Engine.EXPERT[kind]
                p = params[f"{head}.experts.routed_experts.{target}"]
                p.weight_loader(p, loaded, int(expert), shard)
            elif name.split(".")[-2] in ("q_proj", "k_proj", "v_proj"):
                p = params[name.replace(name.split(".")[-2], "qkv_proj")]
                p.weight_loader(p, loaded, name.split(".")[-2][0])
            else:
                p = params[name]
                getattr(p, "weight_loader", lambda p, w: p.data.copy_(w))(p, loaded)


def qwen_checkpoint(s):
    H, D, kv = s["H"], s["D"], s["G"]
    out = {"model.embed_tokens.weight": (s["V"], H), "lm_head.weight": (s["V"], H), "model.norm.weight": (H,)}
    for l in range(s["L"]):
        at = f"model.layers.{l}"
        out |= {f"{at}.self_attn.q_proj.weight": (kv * s["Q"] * D, H), f"{at}.self_attn.k_proj.weight": (kv * D, H),
                f"{at}.self_attn.v_proj.weight": (kv * D, H), f"{at}.self_attn.o_proj.weight": (H, kv * s["Q"] * D),
                f"{at}.self_attn.q_norm.weight": (D,), f"{at}.self_attn.k_norm.weight": (D,), f"{at}.mlp.gate.weight": (s["E"], H),
                f"{at}.input_layernorm.weight": (H,), f"{at}.post_attention_layernorm.weight": (H,)}
        for e in range(s["E"]):
            mlp = f"{at}.mlp.experts.{e}"
            out |= {f"{mlp}.gate_proj.weight": (s["I"], H), f"{mlp}.up_proj.weight": (s["I"], H), f"{mlp}.down_proj.weight": (H, s["I"])}
    return {n: ("bf16", s) for n, s in out.items()}
