"""Qwen3, dense (Yang et al. 2025): the biases of Qwen2 are gone, and queries and keys are normalised per head.

The norm bounds the attention scores, which keeps training stable. head_dim is a number of its own (128 in all sizes)
and not hidden_size / num_heads.
"""

from typing import Any

from mini_vllm.models.decoder import DecoderLayer, DecoderModel, window_of_layer
from mini_vllm.models.layers.mlp import GatedMLP
from mini_vllm.models.layers.self_attention import SelfAttention
from mini_vllm.models.weights import WeightLoader


class Qwen3ForCausalLM(DecoderModel):
    """RMSNorm over each query and key head, before rotation; one weight [head_dim] for all heads of a layer."""

    def build_layer(self, config: Any, loader: WeightLoader, layer_idx: int) -> DecoderLayer:
        """The norm takes the eps of the other norms."""
        self_attn = SelfAttention(
            loader.at("self_attn"),
            self.attention_shape,
            layer_idx,
            qkv_bias=config.attention_bias,
            o_bias=config.attention_bias,
            qk_norm_eps=config.rms_norm_eps,
            sliding_window=window_of_layer(config, layer_idx),
        )
        mlp = GatedMLP(loader.at("mlp"), self.hidden_size, config.intermediate_size)
        return DecoderLayer(loader, self_attn, mlp, config)
