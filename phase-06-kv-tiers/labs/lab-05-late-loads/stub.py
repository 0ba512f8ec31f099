"""Lab 06.5: Loads that arrive late (45 minutes). What must hold is in contract.md."""

from collections.abc import Iterable, Sequence

from labkit import todo
from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.offload.tiers.connector import StepNotes, TierConnector as ReferenceTierConnector, Wait, num_to_read
from mini_vllm.offload.tiers.host import HostBlock
from mini_vllm.offload.tiers.work import LookupResult, Name, TierResult
from mini_vllm.request import Request
from mini_vllm.step import KVResult


class TierConnector(ReferenceTierConnector):
    """What is not defined here is the reference's."""

    def publish(self, blocks: Iterable[KVCacheBlock]) -> None:
        """The coming step fills these blocks, which have names."""
        todo("06.5")

    def evict(self, name: Name, block_id: int) -> None:
        """The device gives a computed block to another content, in the coming step."""
        todo("06.5")

    def is_ready(self, request: Request, num_computed_tokens: int) -> bool:
        """Whether all that the tiers have of a waiting request is in main memory.

        The first call begins to read what is on the disk, as far as main memory has room for it.
        """
        todo("06.5")

    def load(self, request: Request, block_ids: Sequence[int], start: int) -> None:
        todo("06.5")

    def request_finished(self, request: Request) -> None:
        todo("06.5")

    def end_step(self, result: KVResult | None) -> None:
        """What a failed step has stored is forgotten, since it may never have arrived."""
        todo("06.5")
