# SPDX-License-Identifier: Apache-2.0
"""What vLLM and SGLang hold on each rank, in numpy: which ranks form an engine, and the parameters of each model under
the names of the engine's own modules. Nothing here reads a layout.

A `way` has ENGINES DP PP TP EP; `slots`, what a balancer reports, or `placement`; for vLLM GATE_FP32
and FUSED_DECODE; for SGLang A2A DENSE_TP1 DP_LM_HEAD FUSED_SHARED.
"""
import numpy as np

import loaders
from loaders import column, row


class Rank:
    """One rank: its coordinates, and the parameters it has under their names. A family gives `ends` and `layer`."""

    def __init__(self, c, w, way, rank):
        self.c, self.w, self.way, self.out = c, w, way, {}
        self.place(rank)
        counts = way.get("stages") or self.partition(c["L"], way["PP"])
        begin = sum(counts[: self.pp])
        self.first, self.last = self.pp == 0, self.pp == way["PP"] - 1
        self.ends()
        for layer in range(begin, begin + counts[self.pp]):
            self.layer(layer)
        if self.last and way.get("DRAFTER"):
            for layer in range(c["L"], c["L"] + c["MTP"]):
                self.layer(layer)

    def put(self, name, array):
        assert name not in self.out, name
        self.out[name] = array

    def same(self, to, hf, *names):
        for n in names:
            self.put(f"{to}.{n}", self.w[f"{hf}.{n}"])

    def column(self, to, hf):
        self.put(to, column(self.w[hf], *self.attn))

    def row(self, to, hf):
        self.put(to, row(self.w[hf], *self.attn))

    def mlp(self, to, hf, where):
        gate, up, down = (self.w[f"{hf}.{n}_proj.weight"] for n in ("gate", "up", "down"))
        self.put(f"{to}.gate_up_proj.weight", loaders.merged([gate, up], [len(gate)] * 2, *where))
        self.put(f"{to}.down_proj.weight", row(down, *where))

    def embedding(self, to, hf):
        if self.first:
            self.put(to, loaders.vocabulary(self.w[hf], *self.attn))

    def lm_head(self, to, hf):
        if self.last:
            self.put(to, loaders.vocabulary(self.w[hf], *self.head))

    def qkv(self, to, hf, heads):
        q, k, v = (self.w[f"{hf}.{n}_proj.weight"] for n in "qkv")
        self.put(to, loaders.qkv(q, k, v, self.c["D"], heads, self.c["G"], *self.attn))

    def latent(self, a, hf):
        """q_a and kv_a are one parameter, whole; the others are cut by heads."""
        parts = [self.w[f"{hf}.{n}.weight"] for n in ("q_a_proj", "kv_a_proj_with_mqa")]
        self.put(f"{a}.{self.qkv_a}.weight", loaders.merged(parts, [len(p) for p in parts], 0, 1))
        self.same(a, hf, "q_a_layernorm.weight", "kv_a_layernorm.weight")
        for n in ("q_b_proj", "kv_b_proj"):
            self.column(f"{a}.{n}.weight", f"{hf}.{n}.weight")
        if self.absorbs:
            c = self.c
            own = self.out[f"{a}.kv_b_proj.weight"].reshape(-1, c["NOPE"] + c["VD"], c["KR"])
            self.put(f"{a}.w_kc", np.ascontiguousarray(own[:, : c["NOPE"]].transpose(0, 2, 1)))
            self.put(f"{a}.w_vc", np.ascontiguousarray(own[:, c["NOPE"] :]))

    def experts(self, number, to, of, names):
        """number: of this layer among those with experts. names: gate or None, up, down."""
        index, count = self.ep
        tables = self.way.get("slots")
        if tables:
            mine = loaders.physical_map(tables[number % len(tables)], index, count)
        elif self.way.get("placement") == "round_robin":
            mine = loaders.round_robin_map(self.c["E"], index, count)
        else:
            mine = loaders.linear_map(self.c["E"], index, count)
        if self.way.get("FUSED_SHARED"):
            mine = mine + [self.c["E"]]
        first, second, down = names
        where = *self.moe, self.expert_rows()
        w13 = [loaders.w13(self.w[of(e, first)], self.w[of(e, second)] if second else None, *where) for e in mine]
        self.put(f"{to}.{self.routed}.w13_weight", np.stack(w13))
        self.put(f"{to}.{self.routed}.w2_weight", np.stack([loaders.w2(self.w[of(e, down)], *where) for e in mine]))

    def expert_rows(self):
        """Of each half of w13, where they are not those of the tensor."""


class Vllm(Rank):
    qkv_a, routed, absorbs = "fused_qkv_a_proj", "experts.routed_experts", False

    def place(self, rank):
        """Tensor parallel ranks are neighbours, then pipeline stages, then data parallel ones, then other engines."""
        way = self.way
        rank, tp = divmod(rank, way["TP"])
        rank, self.pp = divmod(rank, way["PP"])
        rank, dp = divmod(rank, way["DP"])
        assert rank < way["ENGINES"]
        self.attn = self.head = tp, way["TP"]
        # flatten_tp_across_dp: expert layers see all ranks of a stage as one group.
        flat, size = dp * way["TP"] + tp, way["DP"] * way["TP"]
        use_ep = way["EP"] and size > 1
        self.ep, self.moe = ((flat, size), (0, 1)) if use_ep else ((0, 1), (flat, size))
        # use_sequence_parallel_moe
        self.scattered = bool(way["EP"]) and way["TP"] > 1 and way["DP"] > 1
        self.shared = (0, 1) if self.scattered else self.attn
        self.dense = self.attn

    @staticmethod
    def partition(layers, size):
        """get_pp_indices: the remainder goes to the stages before the last, backwards."""
        counts = [layers // size] * size
        for i in range(2, layers % size + 2):
            counts[-i] += 1
        return counts

    def tied(self, hf):
        """The last stage has the embedding module again, and its head is that module."""
        if self.last and not self.first:
            self.put("model.embed_tokens.weight", loaders.vocabulary(self.w[hf], *self.attn))


class Sglang(Rank):
    qkv_a, routed, absorbs = "fused_qkv_a_proj_with_mqa", "experts", True

    def place(self, rank):
        way = self.way
        rank, tp = divmod(rank, way["TP"])
        rank, self.pp = divmod(rank, way["PP"])
        assert rank < way["ENGINES"]
        attn, moe = loaders.divide(way["TP"], way["DP"]), loaders.divide(way["TP"], way["EP"])
        self.attn = tp % attn, attn
        self.ep, self.moe = (tp // moe, way["EP"]), (tp % moe, moe)
        everyone = tp, way["TP"]
        self.dense = (0, 1) if way.get("DENSE_TP1") else everyone
        self.shared = (0, 1) if way.get("A2A") else everyone
        self.head = self.attn if way.get("DP_LM_HEAD") else everyone

    @staticmethod
    def partition(layers, size):
        """get_pp_indices: the last stages have one more."""
        return [layers // size + (i >= size - layers % size) for i in range(size)]

    def tied(self, hf):
        """With several stages the head is a module of its own, which is sent the embedding."""
        if self.last and not self.first:
            self.put("lm_head.weight", loaders.vocabulary(self.w[hf], *self.head))
