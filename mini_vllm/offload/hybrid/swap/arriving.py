"""What a request has on the device, and what comes from elsewhere."""

from collections.abc import Sequence
from typing import Any

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.offload.hybrid.groups import FullAttention


class Arriving(list[list[KVCacheBlock]]):
    """Hits by group, behind which more comes from elsewhere. num_tokens: of all that a request has
    then.
    """

    def __init__(self, tables: Sequence[list[KVCacheBlock]], num_tokens: int) -> None:
        super().__init__(tables)
        self.num_tokens = num_tokens


def num_tokens_of(groups: Sequence[FullAttention], hits: Sequence[Any]) -> int:
    """How many tokens a request has with these hits."""
    if isinstance(hits, Arriving):
        return hits.num_tokens
    return len(hits[0]) * groups[0].block_size if hits else 0


def places_of(kind: FullAttention, hash_block_size: int, start: int, end: int) -> slice:
    """Which of a request's hashes name the blocks of a group that tokens [start, end) fill."""
    size, step = kind.block_size, kind.block_size // hash_block_size
    return slice((start // size + 1) * step - 1, end // size * step, step)
