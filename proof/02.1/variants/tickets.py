"""A deque of (ticket, block): a removal only tears up the ticket, and taking passes over torn ones, which pays for each once."""

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence

from mini_vllm.block_pool import KVCacheBlock


class FreeKVCacheBlockQueue:
    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        self._queue: deque[tuple[int, KVCacheBlock]] = deque()
        self._valid: dict[int, int] = {}
        self._next_ticket = 0
        self.append_n(blocks)

    @property
    def num_free_blocks(self) -> int:
        return len(self._valid)

    def _ticket(self, block: KVCacheBlock) -> tuple[int, KVCacheBlock]:
        self._next_ticket += 1
        self._valid[block.block_id] = self._next_ticket
        return self._next_ticket, block

    def popleft_n(self, num_blocks: int) -> list[KVCacheBlock]:
        if num_blocks > len(self._valid):
            raise ValueError(f"{num_blocks} blocks are asked for, {len(self._valid)} are free")
        taken: list[KVCacheBlock] = []
        while len(taken) < num_blocks:
            ticket, block = self._queue.popleft()
            if self._valid.get(block.block_id) == ticket:
                del self._valid[block.block_id]
                taken.append(block)
        return taken

    def popleft(self) -> KVCacheBlock:
        return self.popleft_n(1)[0]

    def remove(self, block: KVCacheBlock) -> None:
        if block.block_id not in self._valid:
            raise ValueError(f"{block} is not free")
        del self._valid[block.block_id]

    def append_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        self._queue.extend([self._ticket(block) for block in blocks])

    def prepend_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        self._queue.extendleft(reversed([self._ticket(block) for block in blocks]))

    def block_ids(self) -> list[int]:
        return [block.block_id for ticket, block in self._queue if self._valid.get(block.block_id) == ticket]
