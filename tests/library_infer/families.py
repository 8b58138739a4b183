# SPDX-License-Identifier: Apache-2.0
"""The models as vLLM and SGLang build them: which modules a layer has, what they are called, which tensors of the
checkpoint go where. Nothing here reads a layout.
"""
import numpy as np

import loaders
from engines import Sglang, Vllm
from loaders import column, row


class Gqa:
    """Qwen3, Qwen3-MoE, Llama."""

    def ends(self):
        self.embedding("model.embed_tokens.weight", "model.embed_tokens.weight")
        if self.last:
            self.put("model.norm.weight", self.w["model.norm.weight"])
        if self.c["TIED"]:
            self.tied("model.embed_tokens.weight")
        else:
            self.lm_head("lm_head.weight", "lm_head.weight")

    def layer(self, n):
        c, hf = self.c, f"model.layers.{n}"
        self.same(hf, hf, "input_layernorm.weight", "post_attention_layernorm.weight")
        a = f"{hf}.self_attn"
        self.qkv(f"{a}.qkv_proj.weight", a, c["G"] * c["Q"])
        self.row(f"{a}.o_proj.weight", f"{a}.o_proj.weight")
        if c["QKNORM"]:
            self.same(a, a, "q_norm.weight", "k_norm.weight")
        if not c["E"]:
            self.mlp(f"{hf}.mlp", f"{hf}.mlp", self.dense)
            return
        self.same(f"{hf}.mlp", f"{hf}.mlp", "gate.weight")
        self.experts(n, f"{hf}.mlp", lambda e, n: f"{hf}.mlp.experts.{e}.{n}_proj.weight", ("gate", "up", "down"))


class Mla:
    """DeepSeek-V3, Kimi-K2."""

    def ends(self):
        self.embedding("model.embed_tokens.weight", "model.embed_tokens.weight")
        self.lm_head("lm_head.weight", "lm_head.weight")
        if self.last:
            self.put("model.norm.weight", self.w["model.norm.weight"])

    def layer(self, n):
        c, hf = self.c, f"model.layers.{n}"
        to = hf
        if n >= c["L"]:                           # DeepSeekMTP._rewrite_spec_layer_name
            to = f"drafter.{hf}.mtp_block"
            names = (f"{x}.weight" for x in ("enorm", "hnorm", "eh_proj", "shared_head.norm"))
            self.same(f"drafter.{hf}", hf, *names)
        self.same(to, hf, "input_layernorm.weight", "post_attention_layernorm.weight")
        self.latent(f"{to}.self_attn", f"{hf}.self_attn")
        self.row(f"{to}.self_attn.o_proj.weight", f"{hf}.self_attn.o_proj.weight")
        to, m = f"{to}.mlp", f"{hf}.mlp"
        if n < c["DENSE"]:
            self.mlp(to, m, self.dense)
            return
        self.same(to, m, "gate.weight", "gate.e_score_correction_bias")
        if not self.way.get("FUSED_SHARED"):
            self.mlp(f"{to}.shared_experts", f"{m}.shared_experts", self.shared)

        def of(e, n):
            return f"{m}.shared_experts.{n}_proj.weight" if e == c["E"] else f"{m}.experts.{e}.{n}_proj.weight"

        self.experts(n - c["DENSE"], to, of, ("gate", "up", "down"))


class Gdn:
    """Qwen3.5. vLLM keeps the language model in a module of the multimodal one; SGLang strips that, and self_attn."""

    def ends(self):
        text = "model.language_model"
        self.embedding(f"{self.prefix}model.embed_tokens.weight", f"{text}.embed_tokens.weight")
        self.lm_head(f"{self.prefix}lm_head.weight", "lm_head.weight")
        if self.last:
            self.put(f"{self.prefix}model.norm.weight", self.w[f"{text}.norm.weight"])

    def layer(self, n):
        c, hf, to = self.c, f"model.language_model.layers.{n}", f"{self.prefix}model.layers.{n}"
        self.same(to, hf, "input_layernorm.weight", "post_attention_layernorm.weight")
        if n in c["ATTN"]:
            own = to + self.attention
            # q_proj counts each head twice: its query and its gate.
            self.qkv(f"{own}.qkv_proj.weight", f"{hf}.self_attn", 2 * c["G"] * c["Q"])
            self.same(own, f"{hf}.self_attn", "q_norm.weight", "k_norm.weight")
            self.row(f"{own}.o_proj.weight", f"{hf}.self_attn.o_proj.weight")
        else:
            self.linear(f"{to}.linear_attn", f"{hf}.linear_attn")
        self.same(f"{to}.mlp", f"{hf}.mlp", "gate.weight", "shared_expert_gate.weight")
        if not self.way.get("FUSED_SHARED"):
            self.mlp(f"{to}.mlp.shared_expert", f"{hf}.mlp.shared_expert", self.shared)

        def of(e, n):
            return f"{hf}.mlp.shared_expert.{n}_proj.weight" if e == c["E"] else f"{hf}.mlp.experts.{e}.{n}_proj.weight"

        self.experts(n, f"{to}.mlp", of, ("gate", "up", "down"))

    def linear(self, to, hf):
        c = self.c
        key, value = c["GK"] * c["GD"], c["GV"] * c["GD"]
        qkv, z, b, a = (self.w[f"{hf}.in_proj_{n}.weight"] for n in ("qkv", "z", "b", "a"))
        self.put(f"{to}.in_proj_qkvz.weight", loaders.merged([qkv, z], [key, key, value, value], *self.attn))
        self.put(f"{to}.in_proj_ba.weight", loaders.merged([b, a], [c["GV"]] * 2, *self.attn))
        sections = [(key, 0, False), (key, 0, False), (value, 0, False)]
        self.put(f"{to}.conv1d.weight", loaders.mamba_sections(self.w[f"{hf}.conv1d.weight"], sections, *self.attn))
        for n in ("A_log", "dt_bias"):
            self.column(f"{to}.{n}", f"{hf}.{n}")
        self.same(to, hf, "norm.weight")
        self.row(f"{to}.out_proj.weight", f"{hf}.out_proj.weight")


class Mamba:
    """Nemotron-3."""

    def ends(self):
        self.embedding("model.embed_tokens.weight", "backbone.embeddings.weight")
        self.lm_head("lm_head.weight", "lm_head.weight")
        if self.last:
            self.put("model.norm_f.weight", self.w["backbone.norm_f.weight"])

    def layer(self, n):
        c, to, hf = self.c, f"model.layers.{n}", f"backbone.layers.{n}"
        self.same(to, hf, "norm.weight")
        to, hf = f"{to}.mixer", f"{hf}.mixer"
        if n in c["MAMBA"]:
            self.mamba(to, hf)
        elif n in c["ATTN"]:
            self.qkv(f"{to}.qkv_proj.weight", hf, c["G"] * c["Q"])
            self.row(f"{to}.o_proj.weight", f"{hf}.o_proj.weight")
        else:
            gate = self.w[f"{hf}.gate.weight"]
            self.put(f"{to}.gate.weight", loaders.f32_of_bf16(gate) if self.way.get("GATE_FP32") else gate)
            self.same(to, hf, "gate.e_score_correction_bias", "fc1_latent_proj.weight", "fc2_latent_proj.weight")
            shared = [self.w[f"{hf}.shared_experts.{n}_proj.weight"] for n in ("up", "down")]
            self.put(f"{to}.shared_experts.up_proj.weight", column(shared[0], *self.shared))
            self.put(f"{to}.shared_experts.down_proj.weight", row(shared[1], *self.shared))
            self.experts(c["MOE"].index(n), to, lambda e, n: f"{hf}.experts.{e}.{n}_proj.weight", ("up", None, "down"))

    def mamba(self, to, hf):
        c, (rank, size) = self.c, self.attn
        inner, heads = (c["MH"] * c["MD"], 0, False), (c["MH"], 0, False)
        group = loaders.group_section(c["MG"], c["MN"], size)
        projected, sections = self.w[f"{hf}.in_proj.weight"], [inner, inner, group, group, heads]
        if self.way.get("SPLIT_GATE"):            # _split_fused_in_proj_weight
            self.put(f"{to}.gate_proj.weight", column(projected[: c["MH"] * c["MD"]], rank, size))
            projected, sections = projected[c["MH"] * c["MD"] :], sections[1:]
        self.put(f"{to}.in_proj.weight", loaders.mamba_sections(projected, sections, rank, size))
        for name in ("conv1d.weight", "conv1d.bias"):
            self.put(f"{to}.{name}", loaders.mamba_sections(self.w[f"{hf}.{name}"], [inner, group, group], rank, size))
        self.put(f"{to}.A", loaders.minus_exp(column(self.w[f"{hf}.A_log"], rank, size)))
        self.put(f"{to}.D", loaders.bf16_of_f32(column(self.w[f"{hf}.D"], rank, size)))
        for n in ("dt_bias", "norm.weight"):
            self.column(f"{to}.{n}", f"{hf}.{n}")
        self.row(f"{to}.out_proj.weight", f"{hf}.out_proj.weight")


class Kda:
    """Kimi-K3."""

    def ends(self):
        text = "language_model.model"
        self.embedding(f"{text}.embed_tokens.weight", f"{text}.embed_tokens.weight")
        self.lm_head("language_model.lm_head.weight", "language_model.lm_head.weight")
        if self.last:
            self.same(text, text, "norm.weight", "output_attn_res_norm.weight", "output_attn_res_proj.weight")

    def layer(self, n):
        c, hf = self.c, f"language_model.model.layers.{n}"
        self.same(hf, hf, *(f"{x}.weight" for x in (
            "input_layernorm", "post_attention_layernorm", "self_attention_res_norm", "self_attention_res_proj",
            "mlp_res_norm", "mlp_res_proj")))
        a = f"{hf}.self_attn"
        self.row(f"{a}.o_proj.weight", f"{a}.o_proj.weight")
        if n in c["KDA"]:
            self.delta(a)
        else:
            self.latent(a, a)
            self.column(f"{a}.g_proj.weight", f"{a}.g_proj.weight")
        if n < c["DENSE"]:
            self.mlp(f"{hf}.mlp", f"{hf}.mlp", self.shared if self.dense_as_shared else self.dense)
            return
        m, to = f"{hf}.block_sparse_moe", f"{hf}.{self.block}"
        self.same(to, m, "gate.weight", "gate.e_score_correction_bias",
                  *(f"routed_expert_{x}.weight" for x in ("down_proj", "norm", "up_proj")))
        self.mlp(f"{to}.shared_experts", f"{m}.shared_experts", self.shared)
        self.experts(n - c["DENSE"], to, lambda e, n: f"{m}.experts.{e}.{n}.weight", ("w1", "w3", "w2"))

    def delta_common(self, a):
        c, (rank, size) = self.c, self.attn
        own = loaders.divide(c["N"], size)
        self.column(f"{a}.f_b_proj.weight", f"{a}.f_b_proj.weight")
        self.column(f"{a}.dt_bias", f"{a}.dt_bias")
        self.put(f"{a}.o_norm.weight", loaders.bf16_of_f32(self.w[f"{a}.o_norm.weight"]))
        convs = [self.w[f"{a}.{n}_conv1d.weight"] for n in "qkv"]
        conv = np.concatenate([column(x, rank, size) for x in convs])
        return loaders.narrow(self.w[f"{a}.A_log"], 0, rank * own, own), convs, conv


class VllmKda(Kda, Vllm):
    block, dense_as_shared = "block_sparse_moe", True

    def expert_rows(self):
        """KimiMoE pads an expert's rows for TP ranks, however many then cut it."""
        tp, rows = self.way["TP"], self.c["I"]
        least = self.way["MIN_ROWS"]
        padded = least * tp if tp > 1 and rows // tp < least else rows
        return loaders.divide(padded, self.moe[1])

    def delta(self, a):
        c, (rank, size) = self.c, self.attn
        a_log, convs, conv = self.delta_common(a)
        wide = [self.w[f"{a}.{n}_proj.weight"] for n in ("q", "k", "v", "g")]
        f_a, beta = self.w[f"{a}.f_a_proj.weight"], self.w[f"{a}.b_proj.weight"]
        # The fifth output is the same on all ranks: it counts once for each, and each loads it as rank 0.
        local = 4 * (c["N"] * c["D"] // size) + c["D"] + c["N"] // size
        param = np.zeros((local + -local % 16, f_a.shape[1]), f_a.dtype)
        pieces = [column(x, rank, size) for x in wide] + [f_a, column(beta, rank, size)]
        param[:local] = np.concatenate(pieces)
        self.put(f"{a}.in_proj_qkvgfab.weight", param)
        self.put(f"{a}.conv1d.weight", conv)
        self.put(f"{a}.A_log", a_log)
        if self.way["FUSED_DECODE"]:
            flat = [column(x, rank, size).squeeze(1).T for x in convs]
            self.put(f"{a}.decode_conv1d_weight", np.stack(flat))
            self.put(f"{a}.decode_norm_weight", self.w[f"{a}.o_norm.weight"])


class SglangKda(Kda, Sglang):
    block, dense_as_shared = "mlp", False

    def delta(self, a):
        a_log, _, conv = self.delta_common(a)
        q, k, v, g = (self.w[f"{a}.{n}_proj.weight"] for n in ("q", "k", "v", "g"))
        if self.attn[1] == self.way["TP"]:
            self.put(f"{a}.fused_qkvg_proj.weight", loaders.merged([q, k, v, g], [len(q)] * 4, *self.attn))
        else:
            self.put(f"{a}.qkv_proj.weight", loaders.qkv(q, k, v, self.c["D"], self.c["N"], self.c["N"], *self.attn))
            self.column(f"{a}.g_proj.weight", f"{a}.g_proj.weight")
        self.same(a, a, "f_a_proj.weight")
        self.column(f"{a}.b_proj.weight", f"{a}.b_proj.weight")
        self.put(f"{a}.qkv_conv1d.weight", conv)
        self.put(f"{a}.A_log", a_log.reshape(1, 1, -1, 1))


def family(engine, kind, **names):
    base = {"vllm": Vllm, "sglang": Sglang}[engine]
    return type(f"{engine}{kind.__name__}", (kind, base), names)


FAMILIES = {
    ("vllm", "gqa"): family("vllm", Gqa), ("sglang", "gqa"): family("sglang", Gqa),
    ("vllm", "mla"): family("vllm", Mla), ("sglang", "mla"): family("sglang", Mla),
    ("vllm", "gdn"): family("vllm", Gdn, prefix="language_model.", attention=".self_attn"),
    ("sglang", "gdn"): family("sglang", Gdn, prefix="", attention=""),
    ("vllm", "mamba"): family("vllm", Mamba), ("sglang", "mamba"): family("sglang", Mamba),
    ("vllm", "kda"): VllmKda, ("sglang", "kda"): SglangKda,
}


def ranks(engine, kind, c, w, way):
    world = way["ENGINES"] * way["PP"] * way["TP"] * (way["DP"] if engine == "vllm" else 1)
    return [FAMILIES[engine, kind](c, w, way, r).out for r in range(world)]
