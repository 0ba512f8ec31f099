"""allocate_slots makes a plan of what the table will be, with holes for fresh blocks, and carries it out or drops it."""

from collections.abc import Sequence

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.kv_cache import KVCacheManager as ReferenceKVCacheManager
from mini_vllm.request import Request


class KVCacheManager(ReferenceKVCacheManager):
    def _plan(self, request: Request, num_tokens: int, hits: Sequence[KVCacheBlock]) -> list[KVCacheBlock | None]:
        plan: list[KVCacheBlock | None] = [*self._tables.get(request.request_id, ()), *hits]
        num_blocks, rest = divmod(num_tokens, self.block_size)
        plan += [None] * (num_blocks + (rest > 0) - len(plan))
        return plan

    def num_blocks_needed(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()) -> int:
        plan = self._plan(request, num_tokens, computed_blocks)
        return plan.count(None) + [block.ref_cnt for block in plan if block is not None].count(0)

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        start = len(computed_blocks) * self.block_size or request.num_computed_tokens
        end = start + num_new_tokens
        if self.num_blocks_needed(request, end, computed_blocks) > self.block_pool.num_free_blocks:
            return None
        plan = self._plan(request, end, computed_blocks)
        self.block_pool.touch(iter(computed_blocks))
        fresh = self.block_pool.get_new_blocks(plan.count(None))
        rest = iter(fresh)
        if plan:
            self._tables[request.request_id] = [block if block is not None else next(rest) for block in plan]
        names = self._block_hashes(request) if self.enable_prefix_caching else []
        for i, name in enumerate(names[start // self.block_size : end // self.block_size], start // self.block_size):
            self.block_pool.cache_block(self._tables[request.request_id][i], name)
        return fresh

    def free(self, request: Request) -> None:
        table = self._tables.pop(request.request_id, ())
        self.block_pool.free_blocks(table)
        num_written = request.num_computed_tokens // self.block_size
        for i in range(len(table) if request.is_finished else num_written, len(table)):
            self.block_pool.uncache_block(table[i])
