"""Attention over a paged KV cache: a ladder of back ends behind one interface.

metadata.py describes a packed batch, backend.py is the interface, and every other file is a rung: reference.py reads
like the chapter and is the oracle of the tests, torch_backend.py is the fast one on a CPU.
"""

from mini_vllm.attention.backend import AttentionBackend, PagedAttention, get_backend
from mini_vllm.attention.metadata import AttentionMetadata, PackedRequest

__all__ = ["AttentionBackend", "AttentionMetadata", "PackedRequest", "PagedAttention", "get_backend"]
