"""The block tables of one request, one for each group: how they begin, and what they leave behind.

The null block stands where a group needs nothing. So positions never shift.
"""

from collections.abc import Sequence
from typing import Any

from mini_vllm.block_pool import BlockPool, KVCacheBlock
from mini_vllm.offload.hybrid.groups import FullAttention

Tables = list[list[KVCacheBlock]]


def begin_tables(
    groups: Sequence[FullAttention],
    computed_blocks: Sequence[Any],
    num_hit_tokens: int,
    pool: BlockPool,
) -> Tables:
    """Tables with the blocks of a hit that a token will see, all of which are held now.

    num_hit_tokens: behind them the next token comes. There may be more than the blocks have.
    """
    tables: Tables = [list(hits) for hits in computed_blocks] or [[] for _ in groups]
    for kind, table in zip(groups, tables, strict=True):
        num_skipped = kind.num_skipped_blocks(num_hit_tokens)
        table[:num_skipped] = [pool.null_block] * num_skipped
        pool.touch(block for block in table if block is not pool.null_block)
    return tables


def drop_skipped(
    groups: Sequence[FullAttention],
    tables: Sequence[list[KVCacheBlock]],
    num_settled: int,
    pool: BlockPool,
) -> None:
    """Free the blocks that no token sees behind the first num_settled ones."""
    for kind, table in zip(groups, tables, strict=False):
        end = start = min(kind.num_skipped_blocks(num_settled), len(table))
        while start and table[start - 1] is not pool.null_block:
            start -= 1
        if start < end:
            pool.free_blocks(table[start:end])
            table[start:end] = [pool.null_block] * (end - start)


def next_change(
    groups: Sequence[FullAttention],
    tables: Tables,
    num_settled: int,
    num_tokens: int,
    hash_block_size: int,
) -> tuple[int, int]:
    """Until how many tokens are settled no block is left behind; and up to how many slots the
    tables are long enough, and no block is full that is not published.
    """
    pairs = list(zip(groups, tables, strict=True))
    until_full = num_tokens // hash_block_size * hash_block_size + hash_block_size - 1
    return (
        min(kind.next_skip(kind.num_skipped_blocks(num_settled)) for kind, _ in pairs),
        min(until_full, *(kind.block_size * len(table) for kind, table in pairs)),
    )
