# SPDX-License-Identifier: Apache-2.0
"""The recorder on vLLM's own layers and their weight loaders, where vLLM is installed. No GPU, no kernels: layers are made
without values, and their ranks are told by hand.

In: nothing. Out: exit 0, 1, or 77 with the reason where vLLM or torch is missing.
"""
import os
import sys

import support

os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
torch = support.need("torch")
support.need("vllm")
linear = support.need("vllm.model_executor.layers.linear")
vocabulary = support.need("vllm.model_executor.layers.vocab_parallel_embedding")
parameter = support.need("vllm.model_executor.parameter")
config = support.need("vllm.config")

import reshard.record as recorder  # noqa: E402

H, D, HEADS, KV, I, V, WORLD = 16, 4, 8, 2, 24, 100, 4
CHECKPOINT = {n: ("bf16", s) for n, s in {
    "q_proj.weight": (HEADS * D, H), "k_proj.weight": (KV * D, H), "v_proj.weight": (KV * D, H),
    "q_proj.bias": (HEADS * D,), "k_proj.bias": (KV * D,), "v_proj.bias": (KV * D,), "gate_proj.weight": (I, H),
    "up_proj.weight": (I, H), "down_proj.weight": (H, I), "embed.weight": (V, H)}.items()}
RIGHT = """\
mesh m [tp: 4];
on m {
  buffer "qkv_proj.weight" = cat(0, "q_proj.weight"[_ @tp, _], "k_proj.weight"[_ @tp:share(2), _], "v_proj.weight"[_ @tp:share(2), _]);
  buffer "qkv_proj.bias" = cat(0, "q_proj.bias"[_ @tp], "k_proj.bias"[_ @tp:share(2)], "v_proj.bias"[_ @tp:share(2)]);
  buffer "gate_up_proj.weight" = cat(0, "gate_proj.weight"[_ @tp, _], "up_proj.weight"[_ @tp, _]);
  buffer "down_proj.weight" = "down_proj.weight"[_, _ @tp];
  buffer "embed.weight" = "embed.weight"[pad(_, 128) @tp, _];
}
"""


def play(rank):
    """vLLM asks its process group; here is none."""
    for module in (linear, vocabulary, parameter):
        for name, value in (("get_tensor_model_parallel_rank", rank), ("get_tensor_model_parallel_world_size", WORLD)):
            if hasattr(module, name):
                setattr(module, name, lambda value=value: value)


def make():
    module, as_bf16 = torch.nn.Module(), dict(params_dtype=torch.bfloat16)
    module.qkv_proj = linear.QKVParallelLinear(H, D, HEADS, KV, bias=True, prefix="qkv_proj", **as_bf16)
    module.gate_up_proj = linear.MergedColumnParallelLinear(H, [I, I], bias=False, prefix="gate_up_proj", **as_bf16)
    module.down_proj = linear.RowParallelLinear(I, H, bias=False, prefix="down_proj", **as_bf16)
    module.embed = vocabulary.VocabParallelEmbedding(V, H, prefix="embed", **as_bf16)
    return module


def load(module, weights):
    def put(param, name, *shard):
        param.weight_loader(param, weights[name], *shard)

    for shard in "qkv":
        put(module.qkv_proj.weight, f"{shard}_proj.weight", shard)
        put(module.qkv_proj.bias, f"{shard}_proj.bias", shard)
    put(module.gate_up_proj.weight, "gate_proj.weight", 0)
    put(module.gate_up_proj.weight, "up_proj.weight", 1)
    put(module.down_proj.weight, "down_proj.weight")
    put(module.embed.weight, "embed.weight")


def test_layers():
    recordings = []
    with config.set_current_vllm_config(config.VllmConfig()):
        for rank in range(WORLD):
            play(rank)
            with recorder.shapes_only():
                module = make()
            recordings.append(recorder.record(module, lambda w: load(module, w), CHECKPOINT, rank, WORLD))
    text = recorder.layout(recordings)
    assert text.endswith(RIGHT), text


# ---- routed experts


E = 8
EXPERTS = {f"experts.{e}.{kind}_proj.weight": ("bf16", (H, I) if kind == "down" else (I, H))
           for e in range(E) for kind in ("gate", "up", "down")}
CUT = [
    'buffer "w13_weight" = stack(e in 0..8, cat(0, "experts.{e}.gate_proj.weight"[_ @tp, _], "experts.{e}.up_proj.weight"[_ @tp, _]));',
    'buffer "w2_weight" = stack(e in 0..8, "experts.{e}.down_proj.weight"[_, _ @tp]);']
SPREAD = [
    "for r in 0..4 { on m[tp = r] {",
    'buffer "w13_weight" = stack(e in 2 * r..2 * r + 2, cat(0, "experts.{e}.gate_proj.weight", "experts.{e}.up_proj.weight"));',
    'buffer "w2_weight" = stack(e in 2 * r..2 * r + 2, "experts.{e}.down_proj.weight");']


def make_experts(rank, ep):
    """vLLM's own module. The kernels that it would choose for this machine do not matter, and there may be none."""
    from vllm.model_executor.layers import fused_moe
    from vllm.model_executor.layers.fused_moe import config as moe, unquantized_fused_moe_method as method
    from vllm.model_executor.layers.fused_moe.activation import MoEActivation
    from vllm.model_executor.layers.fused_moe.expert_map_manager import ExpertMapManager
    from vllm.model_executor.layers.fused_moe.oracle.unquantized import UnquantizedMoeBackend

    method.select_unquantized_moe_backend = lambda *a, **k: (UnquantizedMoeBackend.TRITON, None)
    ranks = moe.FusedMoEParallelConfig(
        tp_size=1 if ep else WORLD, pcp_size=1, dp_size=1, ep_size=WORLD if ep else 1, tp_rank=0 if ep else rank, pcp_rank=0,
        dp_rank=0, ep_rank=rank if ep else 0, sp_size=1, use_ep=ep, all2all_backend="allgather_reducescatter", enable_eplb=False)
    sizes = moe.FusedMoEConfig(
        num_experts=E, experts_per_token=2, hidden_dim=H, intermediate_size=I, num_local_experts=E // WORLD if ep else E,
        num_logical_experts=E, activation=MoEActivation.SILU, device="cpu", routing_method=moe.RoutingMethodType.Renormalize,
        moe_parallel_config=ranks, in_dtype=torch.bfloat16)
    return fused_moe.RoutedExperts("mlp.experts", torch.bfloat16, sizes, None,
                                   ExpertMapManager(64, 2, E, 0, None, ranks, "linear", False))


def load_experts(module, weights):
    for name, tensor in weights.items():
        _, expert, kind, _ = name.split(".")
        param = module.w2_weight if kind == "down_proj" else module.w13_weight
        shard = {"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}[kind]
        param.weight_loader(param, tensor, name, shard_id=shard, expert_id=int(expert))


def test_experts():
    """Every expert cut, or the experts spread: the map of experts keeps its values."""
    for ep, right in ((False, CUT), (True, SPREAD)):
        recordings = []
        with config.set_current_vllm_config(config.VllmConfig()):
            for rank in range(WORLD):
                try:
                    with recorder.shapes_only():
                        module = make_experts(rank, ep)
                except (ImportError, TypeError) as error:
                    raise support.Skip(f"this vLLM makes its experts otherwise: {error}")
                recordings.append(recorder.record(module, lambda w: load_experts(module, w), EXPERTS, rank, WORLD))
        lines = [line.strip() for line in recorder.layout(recordings).split("\n")]
        assert not [r for r in right if r not in lines], lines


if __name__ == "__main__":
    sys.exit(support.main(globals()))
