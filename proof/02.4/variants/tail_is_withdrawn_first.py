"""The price is taken from the free queue's point of view, and free walks the table from its end, where promises are."""

from collections.abc import Sequence
from itertools import chain

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.kv_cache import KVCacheManager as ReferenceKVCacheManager
from mini_vllm.request import Request


class KVCacheManager(ReferenceKVCacheManager):
    def _missing(self, request: Request, num_tokens: int, num_hits: int) -> int:
        slots = self.block_size * (num_hits + len(self._tables.get(request.request_id, [])))
        return max(0, num_tokens - slots + self.block_size - 1) // self.block_size

    def num_blocks_needed(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()) -> int:
        missing = self._missing(request, num_tokens, len(computed_blocks))
        return missing + len(computed_blocks) - sum(1 for block in computed_blocks if block.ref_cnt)

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        size, pool = self.block_size, self.block_pool
        computed = request.num_computed_tokens + size * len(computed_blocks)
        missing = self._missing(request, computed + num_new_tokens, len(computed_blocks))
        if missing + sum(not block.ref_cnt for block in computed_blocks) > pool.num_free_blocks:
            return None
        pool.touch(computed_blocks)
        new = pool.get_new_blocks(missing)
        if computed_blocks or new:
            table = self._tables.setdefault(request.request_id, [])
            table[len(table) :] = chain(computed_blocks, new)
        if self.enable_prefix_caching:
            i = computed // size
            while (i + 1) * size <= computed + num_new_tokens:
                pool.cache_block(self._tables[request.request_id][i], self._block_hashes(request)[i])
                i += 1
        return new

    def free(self, request: Request) -> None:
        table = self._tables.pop(request.request_id, [])
        i = len(table)
        while not request.is_finished and i * self.block_size > request.num_computed_tokens:
            i -= 1
            self.block_pool.uncache_block(table[i])
        self.block_pool.free_blocks(table)
