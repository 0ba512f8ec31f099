STORY = "A dictionary keeps the order, but it has no front end to put in at: prepend_n() builds it anew, with all that is free."
CONCEPT = "A call costs the same, however long the queue is."

from collections.abc import Iterable, Sequence
from itertools import islice

from mini_vllm.block_pool import KVCacheBlock


class FreeKVCacheBlockQueue:
    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        self._order = {block.block_id: block for block in blocks}

    @property
    def num_free_blocks(self) -> int:
        return len(self._order)

    def popleft_n(self, num_blocks: int) -> list[KVCacheBlock]:
        if num_blocks > len(self._order):
            raise ValueError(f"{num_blocks} blocks are asked for, {len(self._order)} are free")
        first = list(islice(self._order, num_blocks))
        return [self._order.pop(block_id) for block_id in first]

    def popleft(self) -> KVCacheBlock:
        return self.popleft_n(1)[0]

    def remove(self, block: KVCacheBlock) -> None:
        if self._order.pop(block.block_id, None) is None:
            raise ValueError(f"{block} is not free")

    def append_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        self._order.update((block.block_id, block) for block in blocks)

    def prepend_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        self._order = {block.block_id: block for block in blocks} | self._order

    def block_ids(self) -> list[int]:
        return list(self._order)
