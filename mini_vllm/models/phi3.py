"""Phi-3 and Phi-4 (Abdin et al. 2024): Llama whose checkpoint has q, k and v in one matrix, and
gate and up in another.

Variants of a long context have factors for each pair of channels (rope_type "longrope"). Phi-4-mini
turns a part of each head.
"""

from typing import Any

from torch import nn

from mini_vllm.errors import InvalidParameterError
from mini_vllm.models.config_fields import HFConfig
from mini_vllm.models.decoder import DecoderModel
from mini_vllm.models.layers.mlp import GatedMLP
from mini_vllm.models.weights import WeightLoader


class Phi3ForCausalLM(DecoderModel):
    """No biases. The same window, or none, in every layer."""

    def attention_options(self, config: HFConfig, layer_idx: int) -> dict[str, Any]:
        """The matrices stay as the checkpoint has them."""
        options = {"is_fused": True, "channels": self.rotary.channels}
        return super().attention_options(config, layer_idx) | options

    def build_mlp(self, config: HFConfig, loader: WeightLoader, layer_idx: int) -> nn.Module:
        """A shard is refused: its part of such a matrix is no part of each projection."""
        if loader.shard.size > 1:
            raise InvalidParameterError(f"{loader.shard.size} shards of fused weights, only 1")
        return GatedMLP(loader, self.hidden_size, config.intermediate_size, is_fused=True)
