STORY = (
    "The list is built anew without the block, which reads well. Every prefix hit copies the whole list, and a "
    "large pool spends its time on that."
)
CONCEPT = "A call costs the same, however long the queue is."

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence

from mini_vllm.block_pool import KVCacheBlock


class FreeKVCacheBlockQueue:
    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        self._order = []
        self.append_n(blocks)

    @property
    def num_free_blocks(self) -> int:
        return len(self._order)

    def popleft_n(self, num_blocks: int) -> list[KVCacheBlock]:
        if num_blocks > len(self._order):
            raise ValueError("too few blocks are free")
        taken, self._order = self._order[:num_blocks], self._order[num_blocks:]
        return taken

    def popleft(self) -> KVCacheBlock:
        return self.popleft_n(1)[0]

    def remove(self, block: KVCacheBlock) -> None:
        rest = [other for other in self._order if other is not block]
        if len(rest) == len(self._order):
            raise ValueError(f"{block} is not free")
        self._order = rest

    def append_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        self._order.extend(blocks)

    def prepend_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        self._order[:0] = blocks

    def block_ids(self) -> list[int]:
        return [block.block_id for block in self._order]
