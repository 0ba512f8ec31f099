STORY = (
    "The dictionary stands in the class, not in the object, and each new queue clears it. A second pool "
    "empties the first one."
)
CONCEPT = "Two queues know nothing of each other."

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence

from mini_vllm.block_pool import KVCacheBlock


class FreeKVCacheBlockQueue:
    _order: OrderedDict = OrderedDict()

    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        self._order.clear()
        self.append_n(blocks)

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
            raise ValueError(f"{block} is not free")
        del self._order[block.block_id]

    def append_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        for block in blocks:
            self._order[block.block_id] = block

    def prepend_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        for block in reversed(list(blocks)):
            self._order[block.block_id] = block
            self._order.move_to_end(block.block_id, last=False)

    def block_ids(self) -> list[int]:
        return list(self._order)
