STORY = (
    "collections.deque has a remove(), so why write one? It compares block after block from the front, with "
    "the lock of the whole engine in hand."
)
CONCEPT = "No call walks the queue: it looks at the blocks it moves and at their neighbours."

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence

from mini_vllm.block_pool import KVCacheBlock


class FreeKVCacheBlockQueue:
    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        self._order = deque()
        self.append_n(blocks)

    @property
    def num_free_blocks(self) -> int:
        return len(self._order)

    def popleft_n(self, num_blocks: int) -> list[KVCacheBlock]:
        if num_blocks > len(self._order):
            raise ValueError("too few blocks are free")
        return [self._order.popleft() for _ in range(num_blocks)]

    def popleft(self) -> KVCacheBlock:
        return self.popleft_n(1)[0]

    def remove(self, block: KVCacheBlock) -> None:
        self._order.remove(block)

    def append_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        self._order.extend(blocks)

    def prepend_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        self._order.extendleft(reversed(list(blocks)))

    def block_ids(self) -> list[int]:
        return [block.block_id for block in self._order]
