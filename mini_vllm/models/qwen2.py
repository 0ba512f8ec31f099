"""Qwen2 and Qwen2.5 (Yang et al. 2024): Llama with biases on the query, key and value projections.

The biases help attention carry over to longer texts than were trained on. Small sizes tie the head to the embedding.
"""

from typing import Any

from mini_vllm.models.decoder import DecoderLayer, DecoderModel, window_of_layer
from mini_vllm.models.layers.mlp import GatedMLP
from mini_vllm.models.layers.self_attention import SelfAttention
from mini_vllm.models.weights import WeightLoader


class Qwen2ForCausalLM(DecoderModel):
    """q, k and v have biases, o and the MLP have none; layers may differ in their window."""

    def build_layer(self, config: Any, loader: WeightLoader, layer_idx: int) -> DecoderLayer:
        """The bias is part of the architecture: config.json has no switch for it."""
        self_attn = SelfAttention(
            loader.at("self_attn"),
            self.attention_shape,
            layer_idx,
            qkv_bias=True,
            sliding_window=window_of_layer(config, layer_idx),
        )
        mlp = GatedMLP(loader.at("mlp"), self.hidden_size, config.intermediate_size)
        return DecoderLayer(loader, self_attn, mlp, config)
