"""Lab 06.2: Blocks behind a window (30 minutes). What must hold is in contract.md."""

from collections.abc import Sequence
from typing import Any

from labkit import todo
from mini_vllm.block_pool import BlockPool, KVCacheBlock
from mini_vllm.offload.hybrid.groups import FullAttention, SlidingWindow as ReferenceSlidingWindow
from mini_vllm.offload.hybrid.tables import Tables


class SlidingWindow(ReferenceSlidingWindow):
    """What is not defined here is the reference's."""

    def num_skipped_tokens(self, num_computed_tokens: int) -> int:
        todo("06.2")

    def next_skip(self, num_skipped_blocks: int) -> int:
        todo("06.2")


def begin_tables(
    groups: Sequence[FullAttention],
    computed_blocks: Sequence[Any],
    num_hit_tokens: int,
    pool: BlockPool,
) -> Tables:
    """Tables with the blocks of a hit that a token will see, all of which are held now.

    num_hit_tokens: behind them the next token comes. There may be more than the blocks have.
    """
    todo("06.2")


def drop_skipped(
    groups: Sequence[FullAttention],
    tables: Sequence[list[KVCacheBlock]],
    num_settled: int,
    pool: BlockPool,
) -> None:
    """Free the blocks that no token sees behind the first num_settled ones."""
    todo("06.2")
