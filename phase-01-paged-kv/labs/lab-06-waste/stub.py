"""Lab 01.6: Waste measured: stretches against blocks (30 minutes). What must hold is in contract.md."""

from collections.abc import Sequence

from labkit import todo
from labkit.waste import (
    ContiguousMemory as ReferenceContiguousMemory,
    Job,
    KVMemory,
    PagedMemory as ReferencePagedMemory,
    Usage,
)


class ContiguousMemory(ReferenceContiguousMemory):
    """What is not defined here is the reference's."""

    def holes(self) -> list[range]:
        """The free stretches, by address. Each is as long as can be, so two never touch, and none is empty."""
        todo("01.6")

    def allocate(self, request_id: int, num_tokens: int) -> bool:
        """Make room for the first num_tokens tokens of a request; False, and nothing changes, if there is none.

        A new request gets the front of the first hole that is long enough (first fit). A request that holds a stretch
        keeps it: it is long enough, or there is no room.
        """
        todo("01.6")


class PagedMemory(ReferencePagedMemory):
    """What is not defined here is the reference's."""

    def allocate(self, request_id: int, num_tokens: int) -> bool:
        """Make room for the first num_tokens tokens of a request; False, and nothing changes, if there is none.

        A request gets as many blocks more as it lacks, and never gives one back here.
        """
        todo("01.6")


def usage_of(memory: KVMemory, jobs: Sequence[Job], written: dict[int, int], refused: int | None) -> Usage:
    """What the slots are good for now.

    written: tokens written by each request that runs, by its index in jobs.
    refused: the tokens for which the next request was refused room, None if no request waits. The slots that no
    request holds are stranded if they would be enough for it, and free otherwise.
    """
    todo("01.6")
