"""All checks come first; one stable sort puts useless blocks before cached ones, and a cut shares them out."""

from collections import deque
from collections.abc import Iterable, Sequence

from mini_vllm.block_pool import BlockPool as ReferenceBlockPool
from mini_vllm.block_pool import KVCacheBlock


class BlockPool(ReferenceBlockPool):
    def get_new_blocks(self, num_blocks: int) -> list[KVCacheBlock]:
        fresh = self.free_queue.popleft_n(num_blocks)
        for block in fresh:
            if block.block_hash is not None:
                self.uncache_block(block)
            block.ref_cnt = 1
        return fresh

    def touch(self, blocks: Iterable[KVCacheBlock]) -> None:
        hit = list(blocks)
        for block in [block for block in hit if not block.ref_cnt]:
            self.free_queue.remove(block)
        for block in hit:
            block.ref_cnt += 1

    def free_blocks(self, table: Sequence[KVCacheBlock]) -> None:
        if any(block.ref_cnt < 1 for block in table):
            raise AssertionError("a block is freed more often than it is held")
        for block in table:
            block.ref_cnt -= 1
        freed = [block for block in table[::-1] if block.ref_cnt == 0]
        freed.sort(key=lambda block: block.block_hash is not None)
        num_useless = sum(block.block_hash is None for block in freed)
        self.free_queue.prepend_n(freed[:num_useless])
        self.free_queue.append_n(freed[num_useless:])
