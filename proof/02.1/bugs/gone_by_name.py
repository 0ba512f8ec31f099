STORY = (
    "Removal only notes that a block is gone and lets it lie, which is cheap. When the block comes back the "
    "note still stands, so it is passed over, or lies in two places."
)
CONCEPT = "A block that left may come back, at either end, and stands there only."

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence

from mini_vllm.block_pool import KVCacheBlock


class FreeKVCacheBlockQueue:
    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        self.num_free_blocks = 0
        self._order = deque()
        self._inside = set()
        self._gone = set()
        self.append_n(blocks)

    def popleft_n(self, num_blocks: int) -> list[KVCacheBlock]:
        if num_blocks > self.num_free_blocks:
            raise ValueError("too few blocks are free")
        taken = []
        while len(taken) < num_blocks:
            block = self._order.popleft()
            if block.block_id in self._gone:
                self._gone.discard(block.block_id)
                continue
            self._inside.discard(block.block_id)
            taken.append(block)
        self.num_free_blocks -= num_blocks
        return taken

    def popleft(self) -> KVCacheBlock:
        return self.popleft_n(1)[0]

    def remove(self, block: KVCacheBlock) -> None:
        if block.block_id not in self._inside:
            raise ValueError(f"{block} is not free")
        self._inside.discard(block.block_id)
        self._gone.add(block.block_id)
        self.num_free_blocks -= 1

    def append_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        for block in blocks:
            self._order.append(block)
            self._inside.add(block.block_id)
            self.num_free_blocks += 1

    def prepend_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        for block in reversed(list(blocks)):
            self._order.appendleft(block)
            self._inside.add(block.block_id)
            self.num_free_blocks += 1

    def block_ids(self) -> list[int]:
        return [block.block_id for block in self._order if block.block_id not in self._gone]
