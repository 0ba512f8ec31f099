"""SmolLM3 (Hugging Face 2025): Llama in which every fourth layer does not turn queries and keys.

Such a layer knows the order of tokens from the layers below it alone (NoPE, Yang et al. 2025).
That helps with texts longer than those of the training.
"""

from typing import Any

from mini_vllm.errors import UnsupportedModelError
from mini_vllm.models.config_fields import HFConfig
from mini_vllm.models.llama import LlamaForCausalLM


class SmolLM3ForCausalLM(LlamaForCausalLM):
    """no_rope_layers has 1 for each layer with rotation, and 0 for each without it."""

    def attention_options(self, config: HFConfig, layer_idx: int) -> dict[str, Any]:
        """Biases only where the configuration asks for them."""
        rotated = config.no_rope_layers
        if len(rotated) != config.num_hidden_layers:
            raise UnsupportedModelError(
                f"no_rope_layers has {len(rotated)} entries for {config.num_hidden_layers} layers"
            )
        options = super().attention_options(config, layer_idx)
        return options | {"is_rotated": rotated[layer_idx] == 1}
