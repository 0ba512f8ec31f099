"""A ring with one block that is not real, which stands before the front and after the back; each block enters singly."""

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence

from mini_vllm.block_pool import KVCacheBlock


class FreeKVCacheBlockQueue:
    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        self._num = 0
        self._ring = KVCacheBlock(-1)
        self._ring.prev_free_block = self._ring.next_free_block = self._ring
        self.append_n(blocks)

    @property
    def num_free_blocks(self) -> int:
        return self._num

    def _insert(self, block: KVCacheBlock, before: KVCacheBlock) -> None:
        """Between `before` and whoever follows it."""
        after = before.next_free_block
        block.prev_free_block, block.next_free_block = before, after
        before.next_free_block = after.prev_free_block = block
        self._num += 1

    def popleft_n(self, num_blocks: int) -> list[KVCacheBlock]:
        if num_blocks > self._num:
            raise ValueError(f"{num_blocks} blocks are asked for, {self._num} are free")
        return [self.popleft() for _ in range(num_blocks)]

    def popleft(self) -> KVCacheBlock:
        if self._num == 0:
            raise ValueError("no block is free")
        block = self._ring.next_free_block
        self.remove(block)
        return block

    def remove(self, block: KVCacheBlock) -> None:
        if block.next_free_block is None:
            raise ValueError(f"{block} is not free")
        block.prev_free_block.next_free_block = block.next_free_block
        block.next_free_block.prev_free_block = block.prev_free_block
        block.prev_free_block = block.next_free_block = None
        self._num -= 1

    def append_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        for block in blocks:
            self._insert(block, self._ring.prev_free_block)

    def prepend_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        before = self._ring
        for block in blocks:
            self._insert(block, before)
            before = block

    def block_ids(self) -> list[int]:
        ids, block = [], self._ring.next_free_block
        while block is not self._ring:
            ids.append(block.block_id)
            block = block.next_free_block
        return ids
