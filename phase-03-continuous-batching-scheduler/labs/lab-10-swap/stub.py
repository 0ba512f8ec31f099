"""Lab 03.10: Swap or compute again (45 minutes). What must hold is in contract.md."""

from collections.abc import Sequence

from labkit import todo
from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.offload.swap import (
    PreemptionCost as ReferencePreemptionCost,
    SwappingKVCacheManager as ReferenceSwappingKVCacheManager,
)
from mini_vllm.request import Request


class PreemptionCost(ReferencePreemptionCost):
    """What is not defined here is the reference's."""

    def recompute(self, num_tokens: int) -> float:
        todo("03.10")

    def swap(self, num_tokens: int) -> float:
        todo("03.10")

    def swap_is_cheaper(self, num_tokens: int) -> bool:
        todo("03.10")


class SwappingKVCacheManager(ReferenceSwappingKVCacheManager):
    """What is not defined here is the reference's."""

    def swap_out(self, request: Request) -> None:
        """Copy the computed blocks to the CPU pool, before they are freed; nothing, if they do not all fit there."""
        todo("03.10")

    def get_computed_blocks(self, request: Request) -> tuple[list[KVCacheBlock], int]:
        """The longest cached prefix, its blocks; and the tokens that need no computing, those in the CPU pool too."""
        todo("03.10")

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        """As ever; what lies in the CPU pool behind the computed blocks gets slots too, and is copied there."""
        todo("03.10")

    def free(self, request: Request) -> None:
        todo("03.10")

    def confirm_copies(self) -> None:
        """The step went well: who came back needs the CPU pool no more."""
        todo("03.10")

    def drop_copies(self) -> None:
        """The step failed: what it was to swap out may never have arrived; what it was to swap in is still there."""
        todo("03.10")
