"""Lab 02.1: The free queue (40 minutes). What must hold is in contract.md."""

from collections.abc import Iterable, Sequence

from labkit import todo
from mini_vllm.block_pool import KVCacheBlock


class FreeKVCacheBlockQueue:
    """Free blocks, next to be taken first.

    BlockPool.free_blocks decides the order, and not the queue.
    """

    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        todo("02.1")

    def popleft_n(self, num_blocks: int) -> list[KVCacheBlock]:
        """Take the first num_blocks blocks.

        Raises ValueError, and takes none, if there are fewer.
        """
        todo("02.1")

    def popleft(self) -> KVCacheBlock:
        """Take the first block. Raises ValueError if there is none."""
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
