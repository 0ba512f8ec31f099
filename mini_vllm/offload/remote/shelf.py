"""Shelf: the leased blocks, between the thread of the engine and those of readers."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Condition

from mini_vllm.offload.remote.leases import Lease, Leases
from mini_vllm.offload.tiers.work import Name
from mini_vllm.step import CpuBlockId

PATIENCE = 5.0  # seconds that a reader waits for blocks that are on their way to main memory


class Shelf:
    """Leases with the places of their blocks in main memory. All methods may be called by any
    thread, and none but reading() waits.

    A prompt is answered in the step that computes it, and its blocks arrive in main memory with the
    next step. So a lease is granted first and filled later.
    """

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self._changed = Condition()
        self._places: dict[int, dict[Name, CpuBlockId]] = {}  # by generation, if it is filled
        self._released: set[int] = set()  # generations
        self.num_expired = 0  # leases that have ended by themselves

    def __len__(self) -> int:
        """Leases that hold blocks."""
        with self._changed:
            return len(self._leases)

    # --- the engine -------------------------------------------------------------------------------

    def grant(self, request_id: str, names: Sequence[Name]) -> Lease:
        with self._changed:
            return self._leases.grant(request_id, names)

    def fill(self, lease: Lease, places: Mapping[Name, CpuBlockId]) -> None:
        """The blocks have arrived; those that have not will not come."""
        with self._changed:
            self._places[lease.generation] = dict(places)
            self._changed.notify_all()

    def withdraw(self, names: Iterable[Name]) -> None:
        """What these blocks hold may be spoilt: they are not lent any longer."""
        with self._changed:
            for name in names:
                for places in self._places.values():
                    places.pop(name, None)

    def collect(self) -> list[Lease]:
        """The leases whose blocks need not be held any longer."""
        with self._changed:
            collected = self._forget(self._leases.collect())
            ended = {lease.generation for lease in collected}
            self.num_expired += len(ended - self._released)
            self._released -= ended
            return collected

    def clear(self) -> None:
        """The engine begins again: what was lent is gone, and a reader that is at it is told."""
        with self._changed:
            self._forget(self._leases.clear())
            self._released.clear()
            self._changed.notify_all()

    def _forget(self, leases: list[Lease]) -> list[Lease]:
        for lease in leases:
            self._places.pop(lease.generation, None)
        return leases

    # --- readers ----------------------------------------------------------------------------------

    @contextmanager
    def reading(self, request_id: str) -> Iterator[tuple[Lease, Mapping[Name, CpuBlockId]] | None]:
        """Pin a lease as long as its blocks are read: itself and the places, or None."""
        with self._changed:
            lease = self._leases.pin(request_id)
        try:
            yield None if lease is None else self._filled(lease)
        finally:
            if lease is not None:
                with self._changed:
                    self._leases.unpin(lease)

    def _filled(self, lease: Lease) -> tuple[Lease, Mapping[Name, CpuBlockId]] | None:
        number = lease.generation
        is_known: Callable[[], bool] = lambda: (  # noqa: E731
            number in self._places or not self._leases.holds(lease)
        )
        with self._changed:
            self._changed.wait_for(is_known, PATIENCE)
            places = self._places.get(number)
            return None if places is None else (lease, dict(places))

    def holds(self, lease: Lease, name: Name) -> bool:
        """Whether what was read of this block until now is what was lent."""
        with self._changed:
            is_there = name in self._places.get(lease.generation, ())
            return is_there and self._leases.holds(lease)

    def extend(self, request_ids: Sequence[str]) -> int:
        """Heartbeats; returns how many leases they have renewed."""
        with self._changed:
            return sum(map(self._leases.extend, request_ids))

    def release(self, request_ids: Sequence[str]) -> int:
        """The decoder needs them no longer; returns how many were in force."""
        with self._changed:
            found = [lease for each in request_ids if (lease := self._leases.find(each))]
            self._released.update(lease.generation for lease in found)
            return sum(map(self._leases.release, request_ids))
