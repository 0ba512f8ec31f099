"""The models that mini_vllm runs, by the name that a checkpoint's config.json gives its architecture.

A new model is one file that says how it differs from its kin, and one line in the registry.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from mini_vllm.errors import UnsupportedModelError, shown
from mini_vllm.models.decoder import DecoderModel
from mini_vllm.models.llama import LlamaForCausalLM
from mini_vllm.models.mistral import MistralForCausalLM
from mini_vllm.models.qwen2 import Qwen2ForCausalLM
from mini_vllm.models.qwen3 import Qwen3ForCausalLM
from mini_vllm.models.shard import WHOLE, Shard
from mini_vllm.models.weights import Checkpoint, WeightLoader

__all__ = ["MODELS", "DecoderModel", "Shard", "load_model"]

MODELS: Mapping[str, type[DecoderModel]] = {
    model.__name__: model for model in (LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM)
}


def load_model(
    path: Path, hf_config: Any, *, dtype: torch.dtype, device: torch.device, shard: Shard = WHOLE
) -> DecoderModel:
    """The checkpoint's model, its weights in dtype on device; of layers that are cut, the part of this shard.

    Errors: UnsupportedModelError, and InvalidParameterError for heads that cannot be shared out among the shards, both
    before a weight is read; WeightsMismatchError when model and checkpoint do not have exactly the same tensors; the
    errors of Checkpoint.
    """
    architectures = hf_config.architectures or ["(none given)"]
    if architectures[0] not in MODELS:
        raise UnsupportedModelError(f"architecture {shown(architectures[0])} is not one of: {', '.join(MODELS)}")
    checkpoint = Checkpoint(path)
    model = MODELS[architectures[0]](hf_config, WeightLoader(checkpoint, dtype, device, shard))
    checkpoint.finish()
    return model.eval()
