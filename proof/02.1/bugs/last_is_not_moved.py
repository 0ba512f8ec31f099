STORY = (
    "A queue without end pieces keeps a first and a last, and a removal at the back forgets the last. What is "
    "appended next hangs on the block that left."
)
CONCEPT = "When an end leaves, the next one is the end, and an empty queue is filled again."

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence

from mini_vllm.block_pool import KVCacheBlock


class FreeKVCacheBlockQueue:
    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        self._first = self._last = None
        self._inside = set()
        self.append_n(blocks)

    @property
    def num_free_blocks(self) -> int:
        return len(self._inside)

    def popleft_n(self, num_blocks: int) -> list[KVCacheBlock]:
        if num_blocks > len(self._inside):
            raise ValueError("too few blocks are free")
        return [self.popleft() for _ in range(num_blocks)]

    def popleft(self) -> KVCacheBlock:
        if self._first is None:
            raise ValueError("no block is free")
        block = self._first
        self.remove(block)
        return block

    def remove(self, block: KVCacheBlock) -> None:
        if block.block_id not in self._inside:
            raise ValueError(f"{block} is not free")
        self._inside.discard(block.block_id)
        before, after = block.prev_free_block, block.next_free_block
        if before is None:
            self._first = after
        else:
            before.next_free_block = after
        if after is None:
            if before is None:
                self._last = None
        else:
            after.prev_free_block = before
        block.prev_free_block = block.next_free_block = None

    def append_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        for block in blocks:
            block.prev_free_block = self._last
            if self._last is None:
                self._first = block
            else:
                self._last.next_free_block = block
            self._last = block
            self._inside.add(block.block_id)

    def prepend_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        for block in reversed(list(blocks)):
            block.next_free_block = self._first
            if self._first is None:
                self._last = block
            else:
                self._first.prev_free_block = block
            self._first = block
            self._inside.add(block.block_id)

    def block_ids(self) -> list[int]:
        ids, block = [], self._first
        while block is not None:
            ids.append(block.block_id)
            block = block.next_free_block
        return ids
