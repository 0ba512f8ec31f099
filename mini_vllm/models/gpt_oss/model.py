"""gpt-oss (OpenAI 2025): windows and layers that see all in turn, sinks in each, and experts.

A softmax gives all of its weight away. A head that has nothing to look at gives it to the first
tokens, which a window has lost. So each head has learned a sink: one score more, without a value.
"""

from dataclasses import replace
from typing import Any, ClassVar

import torch

from mini_vllm.models.config_fields import POSITIVE, HFConfig, check_values
from mini_vllm.models.decoder import DecoderModel
from mini_vllm.models.gpt_oss.experts import OssExperts, OssRouter
from mini_vllm.models.layers.self_attention import AttentionShape, SelfAttention
from mini_vllm.models.moe.router import check_experts
from mini_vllm.models.weights import WeightLoader

VALUES = {"swiglu_alpha": POSITIVE, "swiglu_limit": POSITIVE}


class SinkAttention(SelfAttention):
    """Attention with a sink for each query head. vLLM: OAIAttention."""

    def __init__(
        self, loader: WeightLoader, shape: AttentionShape, layer_idx: int, **options: Any
    ) -> None:
        super().__init__(loader, shape, layer_idx, **options)
        shard = loader.shard.of_attention(shape.num_kv_heads)
        sinks = {"sinks": (shape.num_heads,)}
        self.sinks = replace(loader, shard=shard).load(sinks, 0, dtype=torch.float32)
        self.spec = replace(self.spec, sinks=self.sinks)


class GptOssForCausalLM(DecoderModel):
    """Projections have biases. Experts are stored in four bits, or plainly."""

    attention_cls: ClassVar[type[SelfAttention]] = SinkAttention
    quant_method: ClassVar[str] = "mxfp4"

    def __init__(self, config: Any, loader: WeightLoader) -> None:
        check_values(loader.checkpoint.path / "config.json", vars(config), VALUES)
        check_experts(config, loader)
        super().__init__(config, loader)

    def attention_options(self, config: HFConfig, layer_idx: int) -> dict[str, Any]:
        biases = {"qkv_bias": config.attention_bias, "o_bias": config.attention_bias}
        return super().attention_options(config, layer_idx) | biases

    def build_mlp(self, config: Any, loader: WeightLoader, layer_idx: int) -> OssExperts:
        sizes = config.hidden_size, config.num_experts, config.num_experts_per_tok
        router = OssRouter(loader.at("router"), *sizes)
        experts, numbers = loader.at("experts"), (config.swiglu_alpha, config.swiglu_limit)
        return OssExperts(experts, router, config.intermediate_size, *numbers)
