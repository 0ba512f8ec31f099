"""Qwen2 and Qwen2.5 (Yang et al. 2024): Llama with biases on the query, key and value projections.

The biases help attention carry over to longer texts than were trained on. Small sizes tie the head
to the embedding.
"""

from typing import Any

from mini_vllm.models.config_fields import HFConfig
from mini_vllm.models.decoder import DecoderModel


class Qwen2ForCausalLM(DecoderModel):
    """q, k and v have biases, o and the MLP have none; layers may differ in their window."""

    def attention_options(self, config: HFConfig, layer_idx: int) -> dict[str, Any]:
        """The bias is part of the architecture: config.json has no switch for it."""
        return super().attention_options(config, layer_idx) | {"qkv_bias": True}
