"""Held and free hits are told apart once, and what may be published is kept in a generator."""

from collections.abc import Sequence
from math import ceil

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.kv_cache import KVCacheManager as ReferenceKVCacheManager
from mini_vllm.request import Request


class KVCacheManager(ReferenceKVCacheManager):
    """What is not defined here is the reference's."""

    def _new_blocks(self, request: Request, num_tokens: int, num_hits: int) -> int:
        table = self._tables.get(request.request_id, [])
        missing = num_tokens - (len(table) + num_hits) * self.block_size
        return (missing + self.block_size - 1) // self.block_size if missing > 0 else 0

    def num_blocks_needed(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()) -> int:
        free_hits = [block for block in computed_blocks if block.ref_cnt == 0]
        return self._new_blocks(request, num_tokens, len(computed_blocks)) + len(free_hits)

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        start = request.num_computed_tokens + len(computed_blocks) * self.block_size
        end = start + num_new_tokens
        num_new = self._new_blocks(request, end, len(computed_blocks))
        if self.num_blocks_needed(request, end, computed_blocks) > self.num_free_blocks:
            return None
        self.block_pool.touch(computed_blocks)
        new = self.block_pool.get_new_blocks(num_new)
        if computed_blocks or new:
            old = self._tables.get(request.request_id, [])
            self._tables[request.request_id] = [*old, *computed_blocks, *new]
        if self.enable_prefix_caching:
            self._cache_blocks(request, start // self.block_size, end // self.block_size)
        return new

    def _cache_blocks(self, request: Request, start: int, end: int) -> None:
        for i in range(start, end):
            block, name = self._tables[request.request_id][i], self._block_hashes(request)[i]
            self.block_pool.cache_block(block, name)

    def free(self, request: Request) -> None:
        table = self._tables.pop(request.request_id, [])
        num_written = len(table) if request.is_finished else request.num_computed_tokens // self.block_size
        self.block_pool.free_blocks(table)
        while len(table) > num_written:
            self.block_pool.uncache_block(table.pop())
