"""Lab 03.10: Swap or compute again (50 minutes). What must hold is in contract.md."""

from collections.abc import Sequence

from labkit import todo
from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.offload.connector import Lookup
from mini_vllm.offload.cost import PreemptionCost as ReferencePreemptionCost
from mini_vllm.offload.host_memory import HostMemoryConnector as ReferenceHostMemoryConnector
from mini_vllm.offload.manager import Load, OffloadingKVCacheManager as ReferenceOffloadingKVCacheManager
from mini_vllm.request import Request
from mini_vllm.step import KVResult


class PreemptionCost(ReferencePreemptionCost):
    """What is not defined here is the reference's."""

    def recompute(self, num_tokens: int) -> float:
        todo("03.10")

    def swap(self, num_tokens: int) -> float:
        todo("03.10")

    def swap_is_cheaper(self, num_tokens: int) -> bool:
        todo("03.10")


class HostMemoryConnector(ReferenceHostMemoryConnector):
    """What is not defined here is the reference's."""

    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> Lookup:
        todo("03.10")

    def save(self, request: Request, block_ids: Sequence[int]) -> None:
        """Keep all blocks, or none if they do not all fit in."""
        todo("03.10")

    def load(self, request: Request, block_ids: Sequence[int], start: int) -> None:
        todo("03.10")

    def request_finished(self, request: Request) -> None:
        todo("03.10")

    def end_step(self, result: KVResult | None) -> None:
        todo("03.10")


class OffloadingKVCacheManager(ReferenceOffloadingKVCacheManager):
    """What is not defined here is the reference's."""

    def get_computed_blocks(self, request: Request) -> tuple[list[KVCacheBlock], int]:
        """The blocks of the longest cached prefix; how many tokens need no computing: theirs and
        the loadable ones.
        """
        todo("03.10")

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        """On admission, what the connector has behind the computed blocks gets slots too, and is
        loaded there.
        """
        todo("03.10")

    def free(self, request: Request) -> None:
        """Save what a preempted request has computed, if that is the cheaper way; what has ended is
        forgotten.
        """
        todo("03.10")

    def end_step(self, result: KVResult | None) -> None:
        """What a failed step was to load was published, and whether it arrived is unknown: no
        lookup may find it.
        """
        todo("03.10")
