"""Lab 06.4: A tier in main memory (35 minutes). What must hold is in contract.md."""

from collections import OrderedDict

from labkit import todo
from mini_vllm.offload.tiers.connector import TierConnector as ReferenceTierConnector
from mini_vllm.offload.tiers.host import HostBlock, HostTier as ReferenceHostTier
from mini_vllm.offload.tiers.work import LookupResult, Name
from mini_vllm.step import CpuBlockId


class HostTier(ReferenceHostTier):
    """What is not defined here is the reference's."""

    def __init__(self, num_blocks: int) -> None:
        todo("06.4")

    @property
    def num_held_blocks(self) -> int:
        todo("06.4")

    def get(self, name: Name) -> HostBlock | None:
        """Where the content is or will be; None if it is not here."""
        todo("06.4")

    def take(self, name: Name) -> HostBlock | None:
        """A block for content that is not here, held and pending; None if every block is held."""
        todo("06.4")

    def hold(self, block: HostBlock) -> HostBlock:
        """Hold a block once more."""
        todo("06.4")

    def release(self, block: HostBlock) -> None:
        """Let go of a block. The last one to do so makes it the most recently used."""
        todo("06.4")

    def touch(self, block: HostBlock) -> None:
        """The content is still wanted."""
        todo("06.4")

    def drop(self, block: HostBlock) -> None:
        """No lookup finds the content from now on. A block that is held stays until it is
        released.
        """
        todo("06.4")


class TierConnector(ReferenceTierConnector):
    """What is not defined here is the reference's."""

    def lookup(self, name: Name) -> LookupResult:
        """Where the content is. Changes nothing."""
        todo("06.4")
