"""Lab 02.1: The free queue (40 minutes). What must hold is in contract.md."""

from collections.abc import Iterable, Sequence

from labkit import todo
from mini_vllm.block_pool import KVCacheBlock


class FreeKVCacheBlockQueue:
    """Free blocks in a doubly linked list, next to be taken first.

    Why not a deque: a prefix hit takes a block out of the middle, which here is O(1) as for the ends, and no object
    is allocated since the links live in the blocks. Two sentinels stand at the ends, so no operation has a special
    case. What decides the order is BlockPool.free_blocks, not the queue.
    """

    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        todo("02.1")

    def popleft_n(self, num_blocks: int) -> list[KVCacheBlock]:
        """Take the first num_blocks blocks. Raises ValueError, and takes none, if there are fewer."""
        todo("02.1")

    def popleft(self) -> KVCacheBlock:
        todo("02.1")

    def remove(self, block: KVCacheBlock) -> None:
        """Take a block out of wherever it stands. Raises ValueError if it is not in the queue."""
        todo("02.1")

    def append_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        """Put blocks at the back, in the order given: the last one is taken last."""
        todo("02.1")

    def prepend_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        """Put blocks at the front, in the order given: the first one is taken next."""
        todo("02.1")

    def block_ids(self) -> list[int]:
        """The ids in the order in which they would be taken."""
        todo("02.1")
