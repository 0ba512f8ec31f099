"""Fresh blocks are chosen from a view of the queue and removed one by one; freed ones are gathered from the left."""

from collections import deque
from collections.abc import Iterable, Sequence

from mini_vllm.block_pool import BlockPool as ReferenceBlockPool
from mini_vllm.block_pool import KVCacheBlock


class BlockPool(ReferenceBlockPool):
    def get_new_blocks(self, num_blocks: int) -> list[KVCacheBlock]:
        chosen = self.free_queue.block_ids()[:num_blocks]
        if len(chosen) < num_blocks:
            raise ValueError("too few blocks are free")
        blocks = [self.blocks[block_id] for block_id in chosen]
        self.touch(blocks)
        for block in blocks:
            self.uncache_block(block)
        return blocks

    def touch(self, blocks: Iterable[KVCacheBlock]) -> None:
        for block in blocks:
            held, block.ref_cnt = block.ref_cnt, block.ref_cnt + 1
            if not held:
                self.free_queue.remove(block)

    def free_blocks(self, table: Sequence[KVCacheBlock]) -> None:
        front: deque[KVCacheBlock] = deque()
        back: deque[KVCacheBlock] = deque()
        for block in table:
            if block.ref_cnt == 0:
                raise AssertionError(f"nobody holds {block}")
            block.ref_cnt -= 1
            if block.ref_cnt == 0:
                (front if block.block_hash is None else back).appendleft(block)
        self.free_queue.append_n(back)
        self.free_queue.prepend_n(front)
