# SPDX-License-Identifier: Apache-2.0
"""What Megatron-core holds on each rank, in numpy: its rank order, its division of the layers, and how Megatron Bridge
fuses the tensors of a checkpoint for it. Nothing here reads a layout.

A `way` has TP CP DP PP VPP EP ETP TP_PP_DP PADV EXPERTS, what a family needs, and `split`, how layers are divided.
"""
import re

import numpy as np

from catalogue import GAP, bf16, f32
from sharded import bucket


def part(array, axis, index, count):
    assert array.shape[axis] % count == 0, (array.shape, axis, count)
    return np.split(array, count, axis)[index]


# --- ranks: parallel_state.RankGenerator ---


def coordinates(rank, order, sizes):
    """Leftmost in the order is fastest."""
    out = {}
    for axis in order.split("-"):
        out[axis] = rank % sizes.get(axis, 1)
        rank //= sizes.get(axis, 1)
    assert rank == 0
    return out


def grids(rank, way):
    order = "tp-cp-ep-pp-dp" if way["TP_PP_DP"] else "tp-cp-ep-dp-pp"
    world = way["TP"] * way["CP"] * way["DP"] * way["PP"]
    dense = coordinates(rank, order, {"tp": way["TP"], "cp": way["CP"], "dp": way["DP"], "pp": way["PP"]})
    copies = world // (way["ETP"] * way["EP"] * way["PP"])
    expert = coordinates(rank, order, {"tp": way["ETP"], "ep": way["EP"], "dp": copies, "pp": way["PP"]})
    assert dense["pp"] == expert["pp"]
    return dense, expert


# --- layers: get_num_layers_to_build, get_transformer_layer_offset, PipelineParallelLayerLayout ---


def unroll(text):
    """Ett|(tt|)*2L -> Ett|tt|tt|L"""
    text = text.replace(",", "")
    text = re.sub(r"\(([^)]+)\)\*(\d+)", lambda m: m[1] * int(m[2]), text)
    return re.sub(r"(.)\*(\d+)", lambda m: m[1] * int(m[2]), text)


def by_parts(parts, letters, way, pp, vp):
    counts = [sum(c in letters for c in p) for p in parts]
    assert len(counts) == way["PP"] * way["VPP"]
    chunk = vp * way["PP"] + pp
    return sum(counts[:chunk]), counts[chunk]


def uneven(total, first, last, way, pp, vp):
    ranks, chunks = way["PP"], way["VPP"]
    middle = total - first - last
    assert middle % (ranks - 2 or 1) == 0
    each = middle // (ranks - 2) if ranks > 2 else 0
    count = (first if pp == 0 else last if pp == ranks - 1 else each) // chunks
    turn = first // chunks + middle // chunks + last // chunks  # layers of one turn through the pipeline
    return vp * turn + (first // chunks + (pp - 1) * (each // chunks) if pp else 0), count


def even(total, embedding, loss, way, pp, vp):
    total += embedding + loss
    per_rank = total // way["PP"]
    assert per_rank * way["PP"] == total and per_rank % way["VPP"] == 0
    count = per_rank // way["VPP"]
    offset = vp * (total // way["VPP"]) + pp * count
    begins, ends = pp == 0 and vp == 0, pp == way["PP"] - 1 and vp == way["VPP"] - 1
    return offset - (embedding and not begins), count - (embedding and begins) - (loss and ends)


def layers(total, way, pp, vp):
    kind, *how = way["split"]
    if kind == "layout":
        offset, count = by_parts(unroll(how[0]).split("|"), "t", way, pp, vp)
    elif kind == "pattern":
        offset, count = by_parts(how[0].split("|"), "M*E-", way, pp, vp)
    elif kind == "uneven":
        offset, count = uneven(total, *how, way, pp, vp)
    else:
        offset, count = even(total, *(how or (0, 0)), way, pp, vp)
    return range(offset, offset + count)


# --- parameters ---


class Rank:
    """The parameters and buffers of one rank. A family gives `ends`, `layer` and `expert`."""

    def __init__(self, c, w, way, rank):
        self.c, self.w, self.way, self.out = c, w, way, {}
        dense, expert = grids(rank, way)
        self.tp, self.pp, self.etp, self.ep = dense["tp"], dense["pp"], expert["tp"], expert["ep"]
        for vp in range(way["VPP"]):
            self.prefix = f"vp{vp}." if way["VPP"] > 1 else ""
            for local, layer in enumerate(layers(c["L"], way, self.pp, vp)):
                self.to = f"{self.prefix}decoder.layers.{local}."
                self.layer(layer)
            self.ends(vp)
        if self.pp == way["PP"] - 1:
            for depth in range(way.get("MTP_LAYERS", 0)):
                self.to = f"{self.prefix}mtp.layers.{depth}."
                self.prediction(c["L"] + depth)
                self.to += "mtp_model_layer."
                self.layer(c["L"] + depth)

    def col(self, name):
        return part(self.w[name], 0, self.tp, self.way["TP"])

    def row(self, name):
        return part(self.w[name], 1, self.tp, self.way["TP"])

    def glu(self, *names):
        return np.concatenate([self.col(n) for n in names])

    def put(self, name, array):
        assert self.to + name not in self.out
        self.out[self.to + name] = array

    def ends_of(self, vp, embed, norm, head, final):
        def vocab(name):
            unit = self.way["PADV"] * self.way["TP"]
            rows = -(-len(self.w[name]) // unit) * unit
            full = np.full((rows, self.w[name].shape[1]), GAP, "<u2")
            full[: len(self.w[name])] = self.w[name]
            return part(full, 0, self.tp, self.way["TP"])

        self.to = self.prefix
        last = self.pp == self.way["PP"] - 1 and vp == self.way["VPP"] - 1
        if self.pp == 0 and vp == 0 or last and self.way.get("MTP_LAYERS"):
            self.put("embedding.word_embeddings.weight", vocab(embed))
        if last:
            self.put(f"decoder.{final}.weight", self.w[norm])
            if head != embed or self.way["PP"] > 1:
                self.put("output_layer.weight", vocab(head))

    def qkv(self, heads, groups, q, k, v, gated=False):
        """merge_qkv_weights, then an even cut of the rows."""
        hidden = self.w[q].shape[1]
        q, k, v = (self.w[n] for n in (q, k, v))
        k, v = k.reshape(groups, -1, hidden), v.reshape(groups, -1, hidden)
        q = q.reshape(heads, -1, hidden)
        pieces = []
        for g in range(groups):
            mine = q[g * heads // groups : (g + 1) * heads // groups]
            if gated:
                half = mine.shape[1] // 2
                pieces += [mine[:, :half].reshape(-1, hidden), mine[:, half:].reshape(-1, hidden)]
            else:
                pieces.append(mine.reshape(-1, hidden))
            pieces += [k[g], v[g]]
        return part(np.concatenate(pieces), 0, self.tp, self.way["TP"])

    def sections(self, array, sizes):
        """MambaInProjMapping, GDNConv1dMapping: this rank's part of each section, joined."""
        assert sum(sizes) == len(array)
        cuts = np.split(array, np.cumsum(sizes)[:-1])
        return np.concatenate([part(s, 0, self.tp, self.way["TP"]) for s in cuts])

    def mlp(self, to, hf):
        self.put(f"{to}.linear_fc1.weight", self.glu(f"{hf}.gate_proj.weight", f"{hf}.up_proj.weight"))
        self.put(f"{to}.linear_fc2.weight", self.row(f"{hf}.down_proj.weight"))

    def experts(self, layer):
        """local id i of expert rank ep is ep * E/EP + i; ETP inside."""
        here, etp, count = self.c["E"] // self.way["EP"], self.etp, self.way["ETP"]
        fc1, fc2 = [], []
        for i in range(here):
            rows, columns = self.expert(layer, self.ep * here + i)
            fc1.append(np.concatenate([part(self.w[n], 0, etp, count) for n in rows]))
            fc2.append(part(self.w[columns], 1, etp, count))
        for n, mats in (("linear_fc1", fc1), ("linear_fc2", fc2)):
            if self.way["EXPERTS"] == "grouped":
                self.put(f"mlp.experts.{n}.weight", np.stack(mats))
            for i, mat in enumerate(mats):
                if self.way["EXPERTS"] == "each":
                    self.put(f"mlp.experts.{n}.weight{i}", mat)
                elif self.way["EXPERTS"] == "local":
                    self.put(f"mlp.experts.local_experts.{i}.{n}.weight", mat)

    def half(self, array):
        return bf16(array.view("<f4"))


class Gqa(Rank):
    coarse = near_one = staticmethod(lambda name: False)

    def ends(self, vp):
        head = "model.embed_tokens.weight" if self.c["TIED"] else "lm_head.weight"
        self.ends_of(vp, "model.embed_tokens.weight", "model.norm.weight", head, "final_layernorm")

    def layer(self, n):
        hf, w, c = f"model.layers.{n}", self.w, self.c
        names = [f"{hf}.self_attn.{x}_proj.weight" for x in "qkv"]
        self.put("self_attention.linear_qkv.weight", self.qkv(c["G"] * c["Q"], c["G"], *names))
        self.put("self_attention.linear_qkv.layer_norm_weight", w[f"{hf}.input_layernorm.weight"])
        self.put("self_attention.linear_proj.weight", self.row(f"{hf}.self_attn.o_proj.weight"))
        for x in "qk" * c["QKNORM"]:
            self.put(f"self_attention.{x}_layernorm.weight", w[f"{hf}.self_attn.{x}_norm.weight"])
        norm = w[f"{hf}.post_attention_layernorm.weight"]
        if not c["E"]:
            self.put("mlp.linear_fc1.layer_norm_weight", norm)
            self.mlp("mlp", f"{hf}.mlp")
            return
        self.put("pre_mlp_layernorm.weight", norm)
        self.put("mlp.router.weight", w[f"{hf}.mlp.gate.weight"])
        self.experts(n)

    def expert(self, n, e):
        hf = f"model.layers.{n}.mlp.experts.{e}"
        return [f"{hf}.gate_proj.weight", f"{hf}.up_proj.weight"], f"{hf}.down_proj.weight"


class Mla(Gqa):
    def ends(self, vp):
        self.ends_of(vp, "model.embed_tokens.weight", "model.norm.weight", "lm_head.weight", "final_layernorm")

    def prediction(self, n):
        """get_common_mapping_list with num_nextn_predict_layers; eh_proj is column parallel."""
        for to, x in (("enorm", "enorm"), ("hnorm", "hnorm"), ("final_layernorm", "shared_head.norm")):
            self.put(f"{to}.weight", self.w[f"model.layers.{n}.{x}.weight"])
        self.put("eh_proj.weight", self.col(f"model.layers.{n}.eh_proj.weight"))

    def layer(self, n):
        hf, w = f"model.layers.{n}", self.w
        a = f"{hf}.self_attn"
        down = f"{a}.q_a_proj.weight", f"{a}.kv_a_proj_with_mqa.weight"
        norm = w[f"{hf}.input_layernorm.weight"]
        if self.way["QKV_DOWN"]:  # FusedMLASelfAttention: column parallel, q_lora_rank / TP rows and the rest / TP
            self.put("self_attention.linear_qkv_down_proj.layer_norm_weight", norm)
            self.put("self_attention.linear_qkv_down_proj.weight", self.glu(*down))
        else:
            self.put("input_layernorm.weight", norm)
            self.put("self_attention.linear_q_down_proj.weight", w[down[0]])
            self.put("self_attention.linear_kv_down_proj.weight", w[down[1]])
        for x in ("q", "kv"):
            self.put(f"self_attention.linear_{x}_up_proj.layer_norm_weight", w[f"{a}.{x}_a_layernorm.weight"])
            self.put(f"self_attention.linear_{x}_up_proj.weight", self.col(f"{a}.{x}_b_proj.weight"))
        self.put("self_attention.linear_proj.weight", self.row(f"{a}.o_proj.weight"))
        norm = w[f"{hf}.post_attention_layernorm.weight"]
        if n < self.c["DENSE"]:
            self.put("mlp.linear_fc1.layer_norm_weight", norm)
            self.mlp("mlp", f"{hf}.mlp")
            return
        self.put("pre_mlp_layernorm.weight", norm)
        self.put("mlp.router.weight", w[f"{hf}.mlp.gate.weight"])
        self.put("mlp.router.expert_bias", w[f"{hf}.mlp.gate.e_score_correction_bias"])
        self.mlp("mlp.shared_experts", f"{hf}.mlp.shared_experts")
        self.experts(n)


class Gdn(Rank):
    coarse = staticmethod(lambda name: name.endswith("A_log"))
    near_one = staticmethod(lambda name: name.endswith("linear_attn.norm.weight"))
    text = "model.language_model"

    def ends(self, vp):
        embed, norm = f"{self.text}.embed_tokens.weight", f"{self.text}.norm.weight"
        self.ends_of(vp, embed, norm, "lm_head.weight", "final_layernorm")

    def layer(self, n):
        hf, w = f"{self.text}.layers.{n}", self.w
        self.attention(n, hf) if n in self.c["ATTN"] else self.linear(hf, f"{hf}.linear_attn")
        self.put("pre_mlp_layernorm.weight", w[f"{hf}.post_attention_layernorm.weight"])
        self.put("mlp.router.weight", w[f"{hf}.mlp.gate.weight"])
        self.mlp("mlp.shared_experts", f"{hf}.mlp.shared_expert")
        self.put("mlp.shared_experts.gate_weight", w[f"{hf}.mlp.shared_expert_gate.weight"])
        self.experts(n)

    def attention(self, n, hf):
        names = [f"{hf}.self_attn.{x}_proj.weight" for x in "qkv"]
        heads = self.c["G"] * self.c["Q"]
        self.put("self_attention.linear_qkv.weight", self.qkv(heads, self.c["G"], *names, gated=True))
        self.put("self_attention.linear_qkv.layer_norm_weight", self.w[f"{hf}.input_layernorm.weight"])
        self.put("self_attention.linear_proj.weight", self.row(f"{hf}.self_attn.o_proj.weight"))
        for x in "qk":
            self.put(f"self_attention.{x}_layernorm.weight", self.w[f"{hf}.self_attn.{x}_norm.weight"])

    def linear(self, hf, a):
        """_fuse_gdn_separate_to_grouped and merge_gdn_linear_weights: by key head, then the heads of each rank."""
        c, w = self.c, self.w
        hidden, keys, share = w[f"{a}.in_proj_z.weight"].shape[1], c["GK"], c["GV"] // c["GK"] * c["GD"]
        q, k, v = np.split(w[f"{a}.in_proj_qkv.weight"], [keys * c["GD"], 2 * keys * c["GD"]])
        parts = [q.reshape(keys, c["GD"], hidden), k.reshape(keys, c["GD"], hidden), v.reshape(keys, share, hidden),
                 w[f"{a}.in_proj_z.weight"].reshape(keys, share, hidden)]
        parts += [w[f"{a}.in_proj_{x}.weight"].reshape(keys, -1, hidden) for x in "ba"]
        tp = self.way["TP"]
        merged = np.concatenate([p.reshape(tp, -1, hidden) for p in parts], 1).reshape(-1, hidden)
        self.put("self_attention.in_proj.weight", part(merged, 0, self.tp, tp))
        self.put("self_attention.in_proj.layer_norm_weight", w[f"{hf}.input_layernorm.weight"])
        sizes = [keys * c["GD"], keys * c["GD"], c["GV"] * c["GD"]]
        self.put("self_attention.conv1d.weight", self.sections(w[f"{a}.conv1d.weight"], sizes))
        log = self.col(f"{a}.A_log")
        self.put("self_attention.A_log", log if self.way["A_FP32"] else self.half(log))
        self.put("self_attention.dt_bias", self.col(f"{a}.dt_bias"))
        self.put("self_attention.out_norm.weight", bf16(f32(w[f"{a}.norm.weight"]) - np.float32(1)))
        self.put("self_attention.out_proj.weight", self.row(f"{a}.out_proj.weight"))

    def expert(self, n, e):
        hf = f"{self.text}.layers.{n}.mlp.experts.{e}"
        return [f"{hf}.gate_proj.weight", f"{hf}.up_proj.weight"], f"{hf}.down_proj.weight"


class Mamba(Rank):
    coarse = staticmethod(lambda name: name.endswith(("A_log", ".D")))
    near_one = staticmethod(lambda name: False)

    def ends(self, vp):
        self.ends_of(vp, "backbone.embeddings.weight", "backbone.norm_f.weight", "lm_head.weight", "final_norm")

    def layer(self, n):
        hf = f"backbone.layers.{n}.mixer"
        norm = self.w[f"backbone.layers.{n}.norm.weight"]
        if n in self.c["MAMBA"]:
            self.put("mixer.in_proj.layer_norm_weight", norm)
            self.mamba(hf)
        elif n in self.c["ATTN"]:
            self.put("self_attention.linear_qkv.layer_norm_weight", norm)
            names = [f"{hf}.{x}_proj.weight" for x in "qkv"]
            self.put("self_attention.linear_qkv.weight", self.qkv(self.c["G"] * self.c["Q"], self.c["G"], *names))
            self.put("self_attention.linear_proj.weight", self.row(f"{hf}.o_proj.weight"))
        else:
            self.put("pre_mlp_layernorm.weight", norm)
            self.moe(n, hf)

    def mamba(self, hf):
        c, w = self.c, self.w
        inner, state = c["MH"] * c["MD"], c["MG"] * c["MN"]
        sizes = [inner, inner, state, state, c["MH"]]
        self.put("mixer.in_proj.weight", self.sections(w[f"{hf}.in_proj.weight"], sizes))
        for x in ("weight", "bias"):
            name = f"mixer.conv1d{self.way['CONV']}{x}"
            self.put(name, self.sections(w[f"{hf}.conv1d.{x}"], [inner, state, state]))
        for x in ("A_log", "D"):
            cut = self.col(f"{hf}.{x}")
            self.put(f"mixer.{x}", cut if self.way["A_FP32"] else self.half(cut))
        for x in ("dt_bias", "norm.weight"):
            self.put(f"mixer.{x}", self.col(f"{hf}.{x}"))
        self.put("mixer.out_proj.weight", self.row(f"{hf}.out_proj.weight"))

    def moe(self, n, hf):
        self.put("mlp.router.weight", self.w[f"{hf}.gate.weight"])
        self.put("mlp.router.expert_bias", self.w[f"{hf}.gate.e_score_correction_bias"])
        for x in ("fc1", "fc2"):
            self.put(f"mlp.{x}_latent_proj.weight", self.w[f"{hf}.{x}_latent_proj.weight"])
        self.put("mlp.shared_experts.linear_fc1.weight", self.col(f"{hf}.shared_experts.up_proj.weight"))
        self.put("mlp.shared_experts.linear_fc2.weight", self.row(f"{hf}.shared_experts.down_proj.weight"))
        self.experts(n)

    def expert(self, n, e):
        hf = f"backbone.layers.{n}.mixer.experts.{e}"
        return [f"{hf}.up_proj.weight"], f"{hf}.down_proj.weight"


class Kda(Rank):
    coarse = staticmethod(lambda name: name.endswith("o_norm.weight"))
    near_one = staticmethod(lambda name: False)
    text = "language_model.model"

    def ends(self, vp):
        embed, norm = f"{self.text}.embed_tokens.weight", f"{self.text}.norm.weight"
        self.ends_of(vp, embed, norm, "language_model.lm_head.weight", "final_layernorm")

    def layer(self, n):
        """The lists of KimiK3Bridge: replicated, column, row, gated."""
        hf, a = f"{self.text}.layers.{n}", f"{self.text}.layers.{n}.self_attn"
        if n in self.c["KDA"]:
            same, cut = ["f_a_proj.weight"], ["A_log", "dt_bias", "f_b_proj.weight", "b_proj.weight"]
            cut += [f"{x}_{y}.weight" for x in "qkv" for y in ("proj", "conv1d")]
            self.put("self_attention.o_norm.weight", self.half(self.w[f"{a}.o_norm.weight"]))
        else:
            same = [f"{x}.weight" for x in ("q_a_proj", "q_a_layernorm", "kv_a_proj_with_mqa", "kv_a_layernorm")]
            cut = ["q_b_proj.weight", "kv_b_proj.weight"]
        for x in same:
            self.put(f"self_attention.{x}", self.w[f"{a}.{x}"])
        for x in [*cut, "g_proj.weight"]:
            array = self.w[f"{a}.{x}"][: self.c["N"]] if x == "A_log" else self.w[f"{a}.{x}"]
            self.put(f"self_attention.{x}", part(array, 0, self.tp, self.way["TP"]))
        self.put("self_attention.o_proj.weight", self.row(f"{a}.o_proj.weight"))
        for x in ("input_layernorm", *(f"{y}_res_{z}" for y in ("self_attention", "mlp") for z in ("norm", "proj"))):
            self.put(f"{x}.weight", self.w[f"{hf}.{x}.weight"])
        self.put("pre_mlp_layernorm.weight", self.w[f"{hf}.post_attention_layernorm.weight"])
        if n == self.c["L"] - 1:
            for x in ("output_attn_res_norm", "output_attn_res_proj"):
                self.put(f"{x}.weight", self.w[f"{self.text}.{x}.weight"])
        self.mlp("mlp", f"{hf}.mlp") if n < self.c["DENSE"] else self.moe(n, f"{hf}.block_sparse_moe")

    def moe(self, n, hf):
        for to, x in (("router.weight", "gate.weight"), ("router.expert_bias", "gate.e_score_correction_bias"),
                      ("fc1_latent_proj.weight", "routed_expert_down_proj.weight"),
                      ("routed_expert_norm.weight", "routed_expert_norm.weight"),
                      ("fc2_latent_proj.weight", "routed_expert_up_proj.weight")):
            self.put(f"mlp.{to}", self.w[f"{hf}.{x}"])
        self.mlp("mlp.shared_experts", f"{hf}.shared_experts")
        self.experts(n)

    def expert(self, n, e):
        hf = f"{self.text}.layers.{n}.block_sparse_moe.experts.{e}"
        return [f"{hf}.w1.weight", f"{hf}.w3.weight"], f"{hf}.w2.weight"


def ranks(family, c, w, way):
    return [family(c, w, way, r).out for r in range(way["TP"] * way["CP"] * way["DP"] * way["PP"])]


ATTENTION = ("linear_proj.", "linear_qkv.layer_norm_weight", "linear_qkv.weight", "q_layernorm.", "k_layernorm.")
MODULES = ("embedding.", "decoder.layers.", *(f"self_attention.{x}" for x in ATTENTION),
           "mlp.linear_fc1.layer_norm_weight", "mlp.linear_fc1.weight", "mlp.linear_fc2.",
           "decoder.final", "output_layer.")


def module_order(name):
    """Where a parameter comes in named_parameters of a dense GPTModel."""
    layer = re.search(r"layers\.(\d+)\.(.*)", name)
    at = next(i for i, m in enumerate(MODULES) if (layer[2] if layer else name).startswith(m))
    return (1, int(layer[1]), at) if layer else (0 if at == 0 else 2, 0, at)


def distributed_optimizer(family, c, w, way):
    """The shard of each rank: DDP has a buffer for each model chunk, which the ranks of the dp-cp group share."""
    out, sharing = [], way["DP"] * way["CP"]
    for rank, held in enumerate(ranks(family, c, w, way)):
        dense, shards = grids(rank, way)[0], {}
        for vp in range(way["VPP"]):
            prefix = f"vp{vp}." if way["VPP"] > 1 else ""
            mine = {n[len(prefix) :]: a for n, a in held.items() if n.startswith(prefix)}
            mine = {n: mine[n] for n in sorted(mine, key=module_order)}
            index = dense["cp"] + way["CP"] * dense["dp"]
            shards[f"{prefix}bucket0"] = np.split(bucket(mine, sharing), sharing)[index]
        out.append(shards)
    return out
