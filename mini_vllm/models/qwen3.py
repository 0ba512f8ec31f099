"""Qwen3, dense (Yang et al. 2025): the biases of Qwen2 are gone, and queries and keys are
normalised per head.

The norm bounds the attention scores, which keeps training stable. head_dim is a number of its own
(128 in all sizes) and not hidden_size / num_heads.
"""

from typing import Any

from mini_vllm.models.config_fields import HFConfig
from mini_vllm.models.decoder import DecoderModel


class Qwen3ForCausalLM(DecoderModel):
    """RMSNorm over each query and key head, before rotation; one weight [head_dim] for all heads of
    a layer.
    """

    def attention_options(self, config: HFConfig, layer_idx: int) -> dict[str, Any]:
        """The norm takes the eps of the other norms."""
        biases = {"qkv_bias": config.attention_bias, "o_bias": config.attention_bias}
        return (
            super().attention_options(config, layer_idx)
            | biases
            | {"qk_norm_eps": config.rms_norm_eps}
        )
