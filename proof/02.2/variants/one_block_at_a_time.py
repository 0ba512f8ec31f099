"""A helper for one block in each direction: the number is checked first, then every block is moved by itself."""

from collections import deque
from collections.abc import Iterable, Sequence

from mini_vllm.block_pool import BlockPool as ReferenceBlockPool
from mini_vllm.block_pool import KVCacheBlock


class BlockPool(ReferenceBlockPool):
    def _take_one(self) -> KVCacheBlock:
        block = self.free_queue.popleft()
        self.uncache_block(block)
        block.ref_cnt += 1
        return block

    def get_new_blocks(self, num_blocks: int) -> list[KVCacheBlock]:
        if num_blocks > self.num_free_blocks:
            raise ValueError(f"{num_blocks} blocks are asked for, {self.num_free_blocks} are free")
        return [self._take_one() for _ in range(num_blocks)]

    def touch(self, blocks: Iterable[KVCacheBlock]) -> None:
        for block in blocks:
            block.ref_cnt += 1
            if block.ref_cnt == 1:
                self.free_queue.remove(block)

    def free_blocks(self, table: Sequence[KVCacheBlock]) -> None:
        for block in table:
            assert block.ref_cnt >= 1
            block.ref_cnt -= 1
            if block.ref_cnt == 0 and block.block_hash is None:
                self.free_queue.prepend_n([block])  # head first to the front: the tail ends up before it
        for block in table[::-1]:
            if block.ref_cnt == 0 and block.block_hash is not None:
                self.free_queue.append_n([block])
