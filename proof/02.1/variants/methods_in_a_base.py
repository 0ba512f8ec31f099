"""Putting in at either end is a base class of the queue."""

from collections.abc import Iterable, Sequence

from mini_vllm.block_pool import KVCacheBlock


class Ends:
    """Puts in at either end."""

    def append_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        """Put blocks at the back, in the order given: the last one is taken last."""
        last = self._tail.prev_free_block
        assert last is not None
        for block in blocks:
            last.next_free_block = block
            block.prev_free_block = last
            last = block
            self.num_free_blocks += 1
        last.next_free_block = self._tail
        self._tail.prev_free_block = last

    def prepend_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        """Put blocks at the front, in the order given: the first one is taken next."""
        first = self._head.next_free_block
        last = self._head
        for block in blocks:
            last.next_free_block = block
            block.prev_free_block = last
            last = block
            self.num_free_blocks += 1
        assert first is not None
        last.next_free_block = first
        first.prev_free_block = last


class FreeKVCacheBlockQueue(Ends):
    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        self.num_free_blocks = 0
        self._head = KVCacheBlock(-1)
        self._tail = KVCacheBlock(-1)
        self._head.next_free_block = self._tail
        self._tail.prev_free_block = self._head
        self.append_n(blocks)

    def popleft_n(self, num_blocks: int) -> list[KVCacheBlock]:
        """Take the first num_blocks blocks. Raises ValueError, and takes none, if there are fewer."""
        if num_blocks > self.num_free_blocks:
            raise ValueError(f"cannot take {num_blocks} blocks, {self.num_free_blocks} are free")
        taken = []
        block = self._head.next_free_block
        for _ in range(num_blocks):
            assert block is not None
            taken.append(block)
            following = block.next_free_block
            block.prev_free_block = block.next_free_block = None
            block = following
        assert block is not None
        self._head.next_free_block = block
        block.prev_free_block = self._head
        self.num_free_blocks -= num_blocks
        return taken

    def popleft(self) -> KVCacheBlock:
        return self.popleft_n(1)[0]

    def remove(self, block: KVCacheBlock) -> None:
        """Take a block out of wherever it stands. Raises ValueError if it is not in the queue."""
        before, after = block.prev_free_block, block.next_free_block
        if before is None or after is None:
            raise ValueError(f"{block} is not free")
        before.next_free_block = after
        after.prev_free_block = before
        block.prev_free_block = block.next_free_block = None
        self.num_free_blocks -= 1

    def block_ids(self) -> list[int]:
        """The ids in the order in which they would be taken."""
        ids = []
        block = self._head.next_free_block
        while block is not None and block is not self._tail:
            ids.append(block.block_id)
            block = block.next_free_block
        return ids
