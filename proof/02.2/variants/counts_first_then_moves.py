"""Each method first changes all counts, then moves those that crossed between nothing and one, as sets of numbers."""

from collections.abc import Iterable, Sequence

from mini_vllm.block_pool import BlockPool as ReferenceBlockPool
from mini_vllm.block_pool import KVCacheBlock


class BlockPool(ReferenceBlockPool):
    def _count(self, blocks: Sequence[KVCacheBlock], step: int) -> set[int]:
        """The ids of the blocks that nobody holds, before or after the step."""
        idle = {block.block_id for block in blocks if block.ref_cnt == (0 if step > 0 else 1)}
        for block in blocks:
            block.ref_cnt += step
        return idle

    def get_new_blocks(self, num_blocks: int) -> list[KVCacheBlock]:
        fresh = self.free_queue.popleft_n(num_blocks)
        self._count(fresh, 1)
        for block in reversed(fresh):
            self.uncache_block(block)
        return fresh

    def touch(self, blocks: Iterable[KVCacheBlock]) -> None:
        hits = tuple(blocks)
        idle = self._count(hits, 1)
        for block in hits:
            if block.block_id in idle:
                self.free_queue.remove(block)

    def free_blocks(self, table: Sequence[KVCacheBlock]) -> None:
        assert all(block.ref_cnt for block in table)
        idle = self._count(table, -1)
        tail_first = [self.blocks[block.block_id] for block in table[::-1] if block.block_id in idle]
        self.free_queue.append_n(block for block in tail_first if block.block_hash is not None)
        self.free_queue.prepend_n(block for block in tail_first if block.block_hash is None)
