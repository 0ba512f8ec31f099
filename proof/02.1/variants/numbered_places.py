"""Places have numbers that run below zero at the front; who leaves from the middle leaves a hole, passed over once."""

from collections.abc import Iterable, Sequence

from mini_vllm.block_pool import KVCacheBlock


class FreeKVCacheBlockQueue:
    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        self._at: dict[int, KVCacheBlock] = {}
        self._place: dict[int, int] = {}
        self._front = self._end = 0
        self.num_free_blocks = 0
        self.append_n(blocks)

    def _put(self, place: int, block: KVCacheBlock) -> None:
        self._at[place], self._place[block.block_id] = block, place
        self.num_free_blocks += 1

    def popleft(self) -> KVCacheBlock:
        if not self.num_free_blocks:
            raise ValueError("no block is free")
        while self._front not in self._at:
            self._front += 1
        block = self._at[self._front]
        self.remove(block)
        return block

    def popleft_n(self, num_blocks: int) -> list[KVCacheBlock]:
        if num_blocks > self.num_free_blocks:
            raise ValueError(f"{self.num_free_blocks} blocks are free, not {num_blocks}")
        return [self.popleft() for _ in range(num_blocks)]

    def remove(self, block: KVCacheBlock) -> None:
        place = self._place.pop(block.block_id, None)
        if place is None:
            raise ValueError(f"{block} is not free")
        del self._at[place]
        self.num_free_blocks -= 1

    def append_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        for block in blocks:
            self._put(self._end, block)
            self._end += 1

    def prepend_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        new = list(blocks)
        self._front -= len(new)
        for place, block in enumerate(new, start=self._front):
            self._put(place, block)

    def block_ids(self) -> list[int]:
        return [self._at[place].block_id for place in range(self._front, self._end) if place in self._at]
