"""The interface that every rung of the attention ladder implements, and how a model sees it.

A back end has two verbs: write the new keys and values into the paged cache, then attend over it. Nothing outside this
package turns a slot into an address, so a new rung is one new file and one name in BACKENDS (__init__.py).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from mini_vllm.attention.metadata import AttentionMetadata


class AttentionBackend(ABC):
    """Causal attention of a packed batch over a paged KV cache.

    The cache of a layer is two tensors [num_blocks, block_size, num_kv_heads, head_dim]. Query head h reads KV head
    h // (num_heads // num_kv_heads).
    """

    name: ClassVar[str]

    @abstractmethod
    def write_kv(
        self, key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, metadata: AttentionMetadata
    ) -> None:
        """Store key and value [T, num_kv_heads, head_dim] at the batch's slots. A slot of -1 stores nothing."""

    @abstractmethod
    def attend(
        self,
        query: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        metadata: AttentionMetadata,
        *,
        scale: float,
        sliding_window: int | None = None,
    ) -> Tensor:
        """Attention of query [T, num_heads, head_dim] over the cached keys; the result has the same shape and dtype.

        The query at position p sees the keys at positions [0, p], or (p - sliding_window, p]. Rows of the batch that
        belong to no request come back as zeros. What lies in the cache outside the requests' own tokens has no
        influence, not even NaN.
        """


@dataclass(frozen=True, slots=True)
class PagedAttention:
    """One step's attention, as the model calls it: back end, KV cache of every layer, and the batch's metadata."""

    backend: AttentionBackend
    kv_caches: Sequence[tuple[Tensor, Tensor]]
    metadata: AttentionMetadata

    def __call__(
        self,
        layer_idx: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        scale: float,
        sliding_window: int | None = None,
    ) -> Tensor:
        """Write the batch's key and value [T, num_kv_heads, head_dim], then attend: [T, num_heads, head_dim].

        The order is a promise. A block is published in the prefix cache when it is allocated, before its content is
        computed; a second request of the same step may already point at it. That is safe only because the keys and
        values of the whole batch are in the cache before any query reads it.
        """
        key_cache, value_cache = self.kv_caches[layer_idx]
        self.backend.write_kv(key, value, key_cache, value_cache, self.metadata)
        return self.backend.attend(
            query, key_cache, value_cache, self.metadata, scale=scale, sliding_window=sliding_window
        )
