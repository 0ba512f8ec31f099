"""Granite 3 (IBM 2024): Llama with four numbers that scale what flows through it.

They keep the activations of all sizes alike, so what was tuned on a small model holds for a large
one (Yang et al. 2022: muP).
"""

from typing import Any

from torch import Tensor

from mini_vllm.models.config_fields import HFConfig
from mini_vllm.models.decoder import DecoderLayer
from mini_vllm.models.llama import LlamaForCausalLM


class GraniteLayer(DecoderLayer):
    """Both blocks add a part of their output."""

    def scaled(self, hidden: Tensor) -> Tensor:
        """The same share for both."""
        return hidden * self.config.residual_multiplier


class GraniteForCausalLM(LlamaForCausalLM):
    """Embeddings, scores, blocks and logits are scaled."""

    layer_cls = GraniteLayer

    def attention_options(self, config: HFConfig, layer_idx: int) -> dict[str, Any]:
        """attention_multiplier takes the place of head_dim ** -0.5."""
        options = super().attention_options(config, layer_idx)
        return options | {"scale": config.attention_multiplier}

    def embed(self, input_ids: Tensor) -> Tensor:
        """The embeddings, scaled."""
        return super().embed(input_ids) * self.config.embedding_multiplier

    def compute_own_logits(self, hidden: Tensor) -> Tensor:
        """The logits, scaled."""
        return super().compute_own_logits(hidden) / self.config.logits_scaling
