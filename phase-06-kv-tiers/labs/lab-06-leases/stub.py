"""Lab 06.6: Leases (30 minutes). What must hold is in contract.md."""

from collections.abc import Callable, Sequence

from labkit import todo
from mini_vllm.offload.remote.leases import EXTENSION_SECONDS, LEASE_SECONDS, Lease


class Leases:
    """All leases of an engine, by request id.

    A lease is in force until clock() reaches its end. From then on it cannot be pinned or extended.
    A reader that pinned it before reads on: collect() gives it back when the last pin is gone.

    clock: seconds, which never go back. first_generation: that of the first lease; an engine that
    begins again takes one that it has never used.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        duration: float = LEASE_SECONDS,
        extension: float = EXTENSION_SECONDS,
        first_generation: int = 1,
    ) -> None:
        todo("06.6")

    def __len__(self) -> int:
        """How many are not collected yet."""
        todo("06.6")

    def grant(self, request_id: str, names: Sequence[bytes]) -> Lease:
        """A new lease, in force for `duration` seconds.

        If the request has one, that one is over, and collect() gives it back.
        """
        todo("06.6")

    def find(self, request_id: str) -> Lease | None:
        """The lease of a request; None if it has none that is in force. Changes nothing."""
        todo("06.6")

    def holds(self, lease: Lease) -> bool:
        """Whether its blocks still are what they were when it was granted: it is in force, or
        pinned. After a read this says whether what was read is right.
        """
        todo("06.6")

    def extend(self, request_id: str) -> bool:
        """A heartbeat: the lease ends no sooner than `extension` seconds from now.

        Returns False, and changes nothing, if there is none in force.
        """
        todo("06.6")

    def pin(self, request_id: str) -> Lease | None:
        """Hold the blocks from the lookup until they are read, also beyond the end of the lease.

        None, and no change, if there is none in force. unpin() has to follow.
        """
        todo("06.6")

    def unpin(self, lease: Lease) -> None:
        """The reader is done."""
        todo("06.6")

    def release(self, request_id: str) -> bool:
        """The decoder needs the blocks no longer: the lease is over now.

        Returns False, and changes nothing, if there is none in force.
        """
        todo("06.6")

    def collect(self) -> list[Lease]:
        """Take out, and return, every lease that is over and has no reader.

        All are looked at: a heartbeat may have put off the end of the oldest one, behind which
        younger ones are over.
        """
        todo("06.6")

    def clear(self) -> list[Lease]:
        """Take out all of them: the engine begins again. Pins do not help, so holds() is False."""
        todo("06.6")
