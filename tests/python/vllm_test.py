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


if __name__ == "__main__":
    sys.exit(support.main(globals()))
