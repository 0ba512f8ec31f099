"""What a config leaves open about the machine: the device, the dtype, and the memory that is left
for the KV cache.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mini_vllm.attention import AttentionMetadata
from mini_vllm.config import EngineConfig
from mini_vllm.errors import InvalidParameterError, UnsupportedModelError, shown
from mini_vllm.models.config_fields import HFConfig
from mini_vllm.models.weights import Checkpoint
from mini_vllm.worker.memory import available_host_memory, host_bytes


def pick_device(name: str) -> torch.device:
    """ "auto" is the first CUDA device if there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise InvalidParameterError(
            f"device {shown(name)} is asked for, but torch finds no CUDA device"
        )
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InvalidParameterError(
            f"device {shown(name)} is asked for, torch finds {torch.cuda.device_count()} of CUDA"
        )
    return device


def pick_dtype(name: str, hf_config: HFConfig, path: Path) -> torch.dtype:
    """ "auto" is the dtype that the checkpoint's config names, or that of its first weight where it
     names none.

    Errors: InvalidParameterError for a name that is no such dtype, UnsupportedModelError for a
    checkpoint of another.
    """
    chosen: Any = name
    if name == "auto":
        chosen = hf_config.dtype or Checkpoint(path, headers_only=True).dtype or torch.float32
    dtype = getattr(torch, chosen, None) if isinstance(chosen, str) else chosen
    for supported in (torch.float32, torch.bfloat16, torch.float16):
        if dtype == supported:
            return supported
    kind = UnsupportedModelError if name == "auto" else InvalidParameterError
    raise kind(f"dtype must be float32, bfloat16 or float16, got {shown(chosen)}")


def available_bytes(
    config: EngineConfig,
    hf_config: HFConfig,
    dtype: torch.dtype,
    device: torch.device,
    weights: int = 0,
) -> int:
    """Bytes left for the KV cache. weights: bytes of those that are not loaded yet."""
    activations = _activation_bytes(config, hf_config, dtype)
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        return int(total * config.gpu_memory_utilization) - (total - free) - weights - activations
    return host_bytes(config, activations, weights)


def free_memory(device: torch.device, size: int = 1) -> int:
    """Bytes that can be had on a device now by one of `size` ranks, which share main memory."""
    return (
        torch.cuda.mem_get_info(device)[0]
        if device.type == "cuda"
        else available_host_memory() // size
    )


def _activation_bytes(config: EngineConfig, hf_config: HFConfig, dtype: torch.dtype) -> int:
    """Peak of one step, estimated: the widest layer's tensors for every token, and the logits in
    float32, twice.
    """
    heads = hf_config.num_attention_heads + 2 * hf_config.num_key_value_heads
    head_dim = (
        getattr(hf_config, "head_dim", None)
        or hf_config.hidden_size // hf_config.num_attention_heads
    )
    inner = max(hf_config.intermediate_size, getattr(hf_config, "intermediate_size_mlp", 0))
    per_token = 4 * hf_config.hidden_size + 3 * inner + 2 * heads * head_dim
    layer = config.max_num_batched_tokens * per_token * dtype.itemsize
    return layer + 2 * 4 * config.max_num_seqs * hf_config.vocab_size


def on_device(metadata: AttentionMetadata, device: torch.device) -> AttentionMetadata:
    """The same batch with its tensors there."""
    tensors: dict[str, Any] = {
        name: send(value, device)
        for name in AttentionMetadata.__dataclass_fields__
        if isinstance(value := getattr(metadata, name), Tensor)
    }
    return replace(metadata, **tensors)


def send(x: Tensor, device: torch.device) -> Tensor:
    """What the host made, there; the host does not wait."""
    return x if device.type == "cpu" else x.pin_memory().to(device, non_blocking=True)
