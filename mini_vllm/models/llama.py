"""Llama (Touvron et al. 2023), the plan that all others here vary: RMSNorm, rotary positions, GQA, SwiGLU, no biases.

Covers Llama 1, 2, 3 and 3.1 to 3.3 with their stretched rotary frequencies (rope_type "llama3").
"""

from typing import Any

from mini_vllm.errors import UnsupportedModelError
from mini_vllm.models.decoder import DecoderLayer, DecoderModel, window_of_layer
from mini_vllm.models.layers.mlp import GatedMLP
from mini_vllm.models.layers.self_attention import SelfAttention
from mini_vllm.models.weights import WeightLoader


class LlamaForCausalLM(DecoderModel):
    """Full attention in every layer. Biases only where the configuration asks for them."""

    def build_layer(self, config: Any, loader: WeightLoader, layer_idx: int) -> DecoderLayer:
        """attention_bias is for all four projections of attention, mlp_bias for all three of the MLP."""
        window = window_of_layer(config, layer_idx)
        if window is not None:  # transformers would attend to everything, over a cache that keeps a window
            raise UnsupportedModelError(f"sliding_window {window} is not supported in a Llama, only None")
        self_attn = SelfAttention(
            loader.at("self_attn"),
            self.attention_shape,
            layer_idx,
            qkv_bias=config.attention_bias,
            o_bias=config.attention_bias,
        )
        mlp = GatedMLP(loader.at("mlp"), self.hidden_size, config.intermediate_size, bias=config.mlp_bias)
        return DecoderLayer(loader, self_attn, mlp, config)
