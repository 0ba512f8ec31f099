"""Llama (Touvron et al. 2023), the plan that the other models vary: RMSNorm, rotary positions, GQA,
SwiGLU, no biases.

Covers Llama 1, 2, 3 and 3.1 to 3.3 with their stretched rotary frequencies (rope_type "llama3").
"""

from typing import Any

from mini_vllm.models.config_fields import HFConfig
from mini_vllm.models.decoder import DecoderModel


class LlamaForCausalLM(DecoderModel):
    """Full attention in every layer. Biases only where the configuration asks for them."""

    def attention_options(self, config: HFConfig, layer_idx: int) -> dict[str, Any]:
        """attention_bias is for all four projections."""
        biases = {"qkv_bias": config.attention_bias, "o_bias": config.attention_bias}
        return super().attention_options(config, layer_idx) | biases

    def mlp_bias(self, config: HFConfig) -> bool:
        """For all three projections of the MLP."""
        return bool(config.mlp_bias)
