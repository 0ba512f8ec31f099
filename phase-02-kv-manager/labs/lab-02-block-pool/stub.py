"""Lab 02.2: Taking, sharing and freeing blocks (30 minutes). What must hold is in contract.md."""

from collections.abc import Iterable, Sequence

from labkit import todo
from mini_vllm.block_pool import BlockPool as ReferenceBlockPool, KVCacheBlock


class BlockPool(ReferenceBlockPool):
    """What is not defined here is the reference's."""

    def get_new_blocks(self, num_blocks: int) -> list[KVCacheBlock]:
        """Take fresh blocks from the front of the queue; what they held is evicted from the prefix
        cache.
        """
        todo("02.2")

    def touch(self, blocks: Iterable[KVCacheBlock]) -> None:
        """Hold cached blocks once more; one that no request held leaves the free queue."""
        todo("02.2")

    def free_blocks(self, table: Sequence[KVCacheBlock]) -> None:
        """Let go of a block table, given in the table's order.

        A block without a hash cannot be found: it goes to the front of the queue. A cached one goes
        to the back, the table's tail before its head: a prefix is evicted after what was built on
        it.
        """
        todo("02.2")
