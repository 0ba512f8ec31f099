"""The models that mini_vllm runs (registry.py), and how a checkpoint is read, without torch up to its weights."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mini_vllm.models.registry import MODELS as MODELS
    from mini_vllm.models.registry import DecoderModel as DecoderModel
    from mini_vllm.models.registry import Shard as Shard
    from mini_vllm.models.registry import load_model as load_model


def __getattr__(name: str) -> Any:
    """What needs torch is imported when it is asked for."""
    if name not in ("MODELS", "DecoderModel", "Shard", "load_model"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("mini_vllm.models.registry"), name)
