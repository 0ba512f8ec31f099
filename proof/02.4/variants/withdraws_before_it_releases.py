"""New content is published where a block has no hash yet; free withdraws first, so such blocks go to the front of the queue."""

from collections.abc import Sequence
from math import ceil

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.kv_cache import KVCacheManager as ReferenceKVCacheManager
from mini_vllm.request import Request


class KVCacheManager(ReferenceKVCacheManager):
    """What is not defined here is the reference's."""

    def num_blocks_needed(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()) -> int:
        have = len(self._tables.get(request.request_id, [])) + len(computed_blocks)
        new = max(ceil(num_tokens / self.block_size) - have, 0)
        return new + len([block for block in computed_blocks if not block.ref_cnt])

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        num_tokens = request.num_computed_tokens + len(computed_blocks) * self.block_size + num_new_tokens
        if self.num_blocks_needed(request, num_tokens, computed_blocks) > self.num_free_blocks:
            return None
        self.block_pool.touch(computed_blocks)
        table = [*self._tables.get(request.request_id, []), *computed_blocks]
        new = self.block_pool.get_new_blocks(max(ceil(num_tokens / self.block_size) - len(table), 0))
        table += new
        if table:
            self._tables[request.request_id] = table
        if self.enable_prefix_caching:
            names = self._block_hashes(request)
            first, end = (num_tokens - num_new_tokens) // self.block_size, num_tokens // self.block_size
            for block, name in list(zip(table, names))[first:end]:
                if block.block_hash is None:
                    self.block_pool.cache_block(block, name)
        return new

    def free(self, request: Request) -> None:
        if request.request_id not in self._tables:
            return
        table = self._tables.pop(request.request_id)
        if not request.is_finished:
            for block in table[request.num_computed_tokens // self.block_size :]:
                self.block_pool.uncache_block(block)
        self.block_pool.free_blocks(table)
