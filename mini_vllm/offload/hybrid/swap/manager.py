"""Preemption by swap with several groups of layers.

A victim's blocks go out of every group, less those that a window has left, into one pool of main
memory: a block has the same bytes in each group. When it comes back, its tables begin with null
blocks where they had them. vLLM V1 has no swap; offload/manager.py says why, and what it is here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.offload.hybrid.manager import HybridKVCacheManager
from mini_vllm.offload.hybrid.swap.arriving import Arriving, num_tokens_of
from mini_vllm.offload.manager import Load, OffloadingKVCacheManager
from mini_vllm.request import Request


@dataclass(eq=False, repr=False, kw_only=True)
class SwappingHybridKVCacheManager(OffloadingKVCacheManager, HybridKVCacheManager):
    """An OffloadingKVCacheManager with groups: what of all groups is kept is in one list of blocks.

    A request that comes back takes blocks of its own for all that was kept, unless the prefix cache
    has more.
    """

    def get_computed_blocks(self, request: Request) -> tuple[list[Any], int]:
        """The hits of all groups, or what was swapped out, if that is more."""
        hits, num_hit = HybridKVCacheManager.get_computed_blocks(self, request)
        more = self._num_loadable_tokens(request, num_hit)
        if not more:
            return hits, num_hit
        null, num_tokens = self.block_pool.null_block, num_hit + more
        starts = [kind.num_skipped_blocks(num_tokens) for kind in self.groups]
        return Arriving([[null] * start for start in starts], num_tokens), num_tokens

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[Any] = ()
    ) -> list[KVCacheBlock] | None:
        """On admission, what was swapped out is to be copied into the new blocks."""
        is_running = request.request_id in self._group_tables
        new_blocks = HybridKVCacheManager.allocate_slots(
            self, request, num_new_tokens, computed_blocks
        )
        if new_blocks is not None and not is_running:
            comes_back = isinstance(computed_blocks, Arriving)
            num_tokens = num_tokens_of(self.groups, computed_blocks) if comes_back else 0
            self.connector.load(request, self._blocks_of(request, num_tokens), 0)
            if num_tokens:
                self._loads[request.request_id] = Load(request, 0, num_tokens)
        return new_blocks

    def _blocks_of(self, request: Request, num_tokens: int) -> list[int]:
        """Those of all groups that hold what the token behind the first num_tokens sees."""
        tables = self.get_block_tables(request.request_id)
        block_ids: list[int] = []
        for kind, table in zip(self.groups, tables, strict=True):
            end = -(-num_tokens // kind.block_size)
            block_ids += table[kind.num_skipped_blocks(num_tokens) : end]
        return block_ids

    def _uncache(self, request: Request, start: int, end: int) -> None:
        HybridKVCacheManager._uncache(self, request, start, end)
