"""Blocks are added while slots are missing, and each block is published by a helper when it becomes full."""

from collections.abc import Sequence
from math import ceil

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.kv_cache import KVCacheManager as ReferenceKVCacheManager
from mini_vllm.request import Request


class KVCacheManager(ReferenceKVCacheManager):
    """What is not defined here is the reference's."""

    def num_blocks_needed(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()) -> int:
        slots = (len(self.get_block_ids(request.request_id)) + len(computed_blocks)) * self.block_size
        needed = 0
        while slots < num_tokens:
            slots, needed = slots + self.block_size, needed + 1
        for block in computed_blocks:
            if block.ref_cnt == 0:
                needed += 1
        return needed

    def _publish(self, request: Request, i: int) -> None:
        self.block_pool.cache_block(self._tables[request.request_id][i], self._block_hashes(request)[i])

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        first = request.num_computed_tokens + len(computed_blocks) * self.block_size
        end = first + num_new_tokens
        if self.num_blocks_needed(request, end, computed_blocks) > self.block_pool.num_free_blocks:
            return None
        table = self._tables.get(request.request_id, [])
        for block in computed_blocks:
            self.block_pool.touch([block])
            table.append(block)
        new: list[KVCacheBlock] = []
        while len(table) * self.block_size < end:
            new += self.block_pool.get_new_blocks(1)
            table.append(new[-1])
        if table:
            self._tables[request.request_id] = table
        if self.enable_prefix_caching:
            for position in range(first, end):
                if (position + 1) % self.block_size == 0:
                    self._publish(request, position // self.block_size)
        return new

    def free(self, request: Request) -> None:
        table = self._tables.pop(request.request_id, None)
        if table is None:
            return
        self.block_pool.free_blocks(table)
        for i, block in enumerate(table):
            if not request.is_finished and (i + 1) * self.block_size > request.num_computed_tokens:
                self.block_pool.uncache_block(block)
