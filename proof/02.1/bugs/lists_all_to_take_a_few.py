STORY = "popleft_n lists the whole queue to take its beginning, also when it takes nothing."
CONCEPT = "A call costs the same, however long the queue is."

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from mini_vllm.block_pool import KVCacheBlock


class FreeKVCacheBlockQueue:
    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        self._order = OrderedDict((block.block_id, block) for block in blocks)

    @property
    def num_free_blocks(self) -> int:
        return len(self._order)

    def popleft_n(self, num_blocks: int) -> list[KVCacheBlock]:
        if num_blocks > len(self._order):
            raise ValueError("too few blocks are free")
        return [self._order.pop(block_id) for block_id in list(self._order)[:num_blocks]]

    def popleft(self) -> KVCacheBlock:
        if not self._order:
            raise ValueError("no block is free")
        return self._order.popitem(last=False)[1]

    def remove(self, block: KVCacheBlock) -> None:
        if block.block_id not in self._order:
            raise ValueError("the block is not free")
        del self._order[block.block_id]

    def append_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        self._order.update((block.block_id, block) for block in blocks)

    def prepend_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        for block in reversed(list(blocks)):
            self._order[block.block_id] = block
            self._order.move_to_end(block.block_id, last=False)

    def block_ids(self) -> list[int]:
        return list(self._order)
