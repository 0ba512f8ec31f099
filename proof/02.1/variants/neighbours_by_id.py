"""Neighbours are kept by id in two dictionaries, with None before the front and behind the back; blocks stay untouched."""

from collections.abc import Iterable, Sequence

from mini_vllm.block_pool import KVCacheBlock


class FreeKVCacheBlockQueue:
    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        self._block: dict[int, KVCacheBlock] = {}
        self._after: dict[int | None, int | None] = {None: None}
        self._before: dict[int | None, int | None] = {None: None}
        self.append_n(blocks)

    @property
    def num_free_blocks(self) -> int:
        return len(self._block)

    def _insert(self, block: KVCacheBlock, before: int | None, after: int | None) -> None:
        self._block[block.block_id] = block
        for left, right in ((before, block.block_id), (block.block_id, after)):
            self._after[left], self._before[right] = right, left

    def popleft_n(self, num_blocks: int) -> list[KVCacheBlock]:
        if num_blocks > self.num_free_blocks:
            raise ValueError("too few")
        return [self.popleft() for _ in range(num_blocks)]

    def popleft(self) -> KVCacheBlock:
        first = self._after[None]
        if first is None:
            raise ValueError("empty")
        block = self._block[first]
        self.remove(block)
        return block

    def remove(self, block: KVCacheBlock) -> None:
        if self._block.pop(block.block_id, None) is None:
            raise ValueError(f"{block} is not in")
        before, after = self._before.pop(block.block_id), self._after.pop(block.block_id)
        self._after[before], self._before[after] = after, before

    def append_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        for block in blocks:
            self._insert(block, self._before[None], None)

    def prepend_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        before = None
        for block in blocks:
            self._insert(block, before, self._after[before])
            before = block.block_id

    def block_ids(self) -> list[int]:
        ids, at = [], self._after[None]
        while at is not None:
            ids.append(at)
            at = self._after[at]
        return ids
