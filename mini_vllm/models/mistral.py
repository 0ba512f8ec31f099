"""Mistral (Jiang et al. 2023): Llama whose tokens may see only a sliding window of the past.

A token still hears of older ones, from layer to layer: after k layers, from k windows back. Later releases (7B v0.3,
Nemo) set the window to null and are then Llama without options. Ministral has the window in some layers only.
"""

from typing import Any

from mini_vllm.models.decoder import DecoderLayer, DecoderModel, window_of_layer
from mini_vllm.models.layers.mlp import GatedMLP
from mini_vllm.models.layers.self_attention import SelfAttention
from mini_vllm.models.weights import WeightLoader


class MistralForCausalLM(DecoderModel):
    """The same window, or none, in every layer; with layer_types (Ministral), in those it names. No biases."""

    def build_layer(self, config: Any, loader: WeightLoader, layer_idx: int) -> DecoderLayer:
        """sliding_window counts the token itself: with 4096, it sees itself and 4095 before it."""
        self_attn = SelfAttention(
            loader.at("self_attn"), self.attention_shape, layer_idx, sliding_window=window_of_layer(config, layer_idx)
        )
        mlp = GatedMLP(loader.at("mlp"), self.hidden_size, config.intermediate_size)
        return DecoderLayer(loader, self_attn, mlp, config)
