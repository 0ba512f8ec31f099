"""Attention over a paged KV cache: a ladder of back ends behind one interface.

metadata.py describes a packed batch, backend.py is the interface, and every other file is a rung: reference.py reads
like the chapter and is the oracle of the tests, torch_backend.py is the fast one on a CPU.
"""

from collections.abc import Mapping

import torch

from mini_vllm.attention.backend import AttentionBackend, PagedAttention
from mini_vllm.attention.metadata import AttentionMetadata, PackedRequest
from mini_vllm.attention.reference import ReferenceBackend
from mini_vllm.attention.torch_backend import TorchBackend
from mini_vllm.errors import InvalidParameterError

__all__ = ["AttentionBackend", "AttentionMetadata", "PackedRequest", "PagedAttention", "get_backend"]

BACKENDS: Mapping[str, type[AttentionBackend]] = {b.name: b for b in (ReferenceBackend, TorchBackend)}


def get_backend(name: str, device: torch.device) -> AttentionBackend:
    """The back end of that name; "auto" takes the fastest for the device. Errors: InvalidParameterError."""
    chosen = TorchBackend.name if name == "auto" else name
    if chosen not in BACKENDS:
        raise InvalidParameterError(f"attention backend {name!r} is not one of: auto, {', '.join(BACKENDS)}")
    return BACKENDS[chosen]()
