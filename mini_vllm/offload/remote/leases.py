"""Leases: how long an engine keeps the blocks of a finished prompt for the one that decodes.

Without a lease the blocks would be free when the prompt is computed, and another content could take
their place before they are read. Without an end a decoder that died would hold them for good. So a
lease has an end, which heartbeats put off, and a generation: blocks that are read under another
generation than the one that was looked up are not those that were promised.

Standard library only, one thread, and a clock that is given. Source: _reqs_to_send,
_handle_heartbeat and _reap_expired_send_leases in
vllm/distributed/kv_transfer/kv_connector/v1/nixl/base_worker.py. vLLM renews a lease that is over
as long as its blocks are not taken back yet, and its leases have no generation.
"""

from collections.abc import Callable, Sequence

LEASE_SECONDS = 30.0
EXTENSION_SECONDS = 20.0  # that a heartbeat promises from its moment on
HEARTBEAT_SECONDS = 5.0  # between two heartbeats of a decoder whose request waits


class Lease:
    """The blocks of one request, kept until `end` in seconds of the clock.

    generation: of no other lease. names: of the blocks, in the order of the prompt. num_pins: how
    many readers are at it.
    """

    __slots__ = ("end", "generation", "names", "num_pins", "request_id")

    def __init__(
        self, request_id: str, generation: int, names: Sequence[bytes], end: float
    ) -> None:
        self.request_id = request_id
        self.generation = generation
        self.names = tuple(names)
        self.end = end
        self.num_pins = 0


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
        self.clock = clock
        self.duration = duration
        self.extension = extension
        self._next_generation = first_generation
        self._leases: dict[str, Lease] = {}
        self._over: list[Lease] = []  # that a newer one of their request has replaced

    def __len__(self) -> int:
        """How many are not collected yet."""
        return len(self._leases) + len(self._over)

    def grant(self, request_id: str, names: Sequence[bytes]) -> Lease:
        """A new lease, in force for `duration` seconds.

        If the request has one, that one is over, and collect() gives it back.
        """
        if (older := self._leases.pop(request_id, None)) is not None:
            self._over.append(older)
        generation, end = self._next_generation, self.clock() + self.duration
        self._next_generation += 1
        lease = self._leases[request_id] = Lease(request_id, generation, names, end)
        return lease

    def find(self, request_id: str) -> Lease | None:
        """The lease of a request; None if it has none that is in force. Changes nothing."""
        lease = self._leases.get(request_id)
        return lease if lease is not None and self.clock() < lease.end else None

    def holds(self, lease: Lease) -> bool:
        """Whether its blocks still are what they were when it was granted: it is in force, or
        pinned. After a read this says whether what was read is right.
        """
        is_newest = self._leases.get(lease.request_id) is lease
        return (is_newest or lease in self._over) and (
            lease.num_pins > 0 or (is_newest and self.clock() < lease.end)
        )

    def extend(self, request_id: str) -> bool:
        """A heartbeat: the lease ends no sooner than `extension` seconds from now.

        Returns False, and changes nothing, if there is none in force.
        """
        lease = self.find(request_id)
        if lease is not None:
            lease.end = max(lease.end, self.clock() + self.extension)
        return lease is not None

    def pin(self, request_id: str) -> Lease | None:
        """Hold the blocks from the lookup until they are read, also beyond the end of the lease.

        None, and no change, if there is none in force. unpin() has to follow.
        """
        lease = self.find(request_id)
        if lease is not None:
            lease.num_pins += 1
        return lease

    def unpin(self, lease: Lease) -> None:
        """The reader is done."""
        assert lease.num_pins > 0, "a lease is unpinned more often than it was pinned"
        lease.num_pins -= 1

    def release(self, request_id: str) -> bool:
        """The decoder needs the blocks no longer: the lease is over now.

        Returns False, and changes nothing, if there is none in force.
        """
        lease = self.find(request_id)
        if lease is not None:
            lease.end = self.clock()
        return lease is not None

    def collect(self) -> list[Lease]:
        """Take out, and return, every lease that is over and has no reader.

        All are looked at: a heartbeat may have put off the end of the oldest one, behind which
        younger ones are over.
        """
        now = self.clock()
        found = [lease for lease in self._over if not lease.num_pins]
        found += [
            lease for lease in self._leases.values() if lease.end <= now and not lease.num_pins
        ]
        for lease in found:
            if self._leases.get(lease.request_id) is lease:
                del self._leases[lease.request_id]
        self._over = [lease for lease in self._over if lease.num_pins]
        return found

    def clear(self) -> list[Lease]:
        """Take out all of them: the engine begins again. Pins do not help, so holds() is False."""
        found = [*self._over, *self._leases.values()]
        self._over, self._leases = [], {}
        return found
