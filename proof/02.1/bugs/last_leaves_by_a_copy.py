STORY = "The last block leaves by a copy of all that stand before it, and so does each block that is freed last and found again."
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
        return [self._order.popitem(last=False)[1] for _ in range(num_blocks)]

    def popleft(self) -> KVCacheBlock:
        return self.popleft_n(1)[0]

    def remove(self, block: KVCacheBlock) -> None:
        if block.block_id not in self._order:
            raise ValueError("the block is not free")
        if next(reversed(self._order)) == block.block_id:
            self._order = OrderedDict(list(self._order.items())[:-1])
        else:
            del self._order[block.block_id]

    def append_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        self._order.update((block.block_id, block) for block in blocks)

    def prepend_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        for block in reversed(list(blocks)):
            self._order[block.block_id] = block
            self._order.move_to_end(block.block_id, last=False)

    def block_ids(self) -> list[int]:
        return list(self._order)
