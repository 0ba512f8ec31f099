"""Lab 02.4: Slots for a request (50 minutes). What must hold is in contract.md."""

from collections.abc import Sequence

from labkit import todo
from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.kv_cache import KVCacheManager as ReferenceKVCacheManager
from mini_vllm.request import Request


class KVCacheManager(ReferenceKVCacheManager):
    """What is not defined here is the reference's."""

    def num_blocks_needed(
        self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> int:
        """How many free blocks it takes to give the request slots for its first num_tokens tokens.

        Changes nothing.

        A computed block that no request holds counts: it lies in the free queue and would leave it.
        """
        todo("02.4")

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        """Give the request slots for num_new_tokens more tokens.

        computed_blocks is what get_computed_blocks found, for a request that is being admitted: its
        counter is still 0. The table then reads, in blocks:

            [0, computed)       shared, content known
            [computed, table)   held already
            [table, needed)     new

        Returns the new blocks (without the shared ones), or None, with nothing changed, if too few
        are free.
        """
        todo("02.4")

    def free(self, request: Request) -> None:
        """Give the request's blocks back; a request that holds none is left alone.

        A request that is preempted in the step that was about to compute its blocks has published
        hashes of content that will never be written. They are withdrawn, or the request would come
        back to a stale hit; vLLM 0.33.0 keeps them (trace quirk_005). After the release, since the
        free queue's order depends on the hashes.
        """
        todo("02.4")
