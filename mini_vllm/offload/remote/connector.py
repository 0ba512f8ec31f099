"""RemoteConnector: tiers whose blocks are lent to another engine, or pulled from one.

A prefiller keeps the blocks of a finished prompt in main memory under a lease. A decoder names the
blocks that it lacks, as tiers name them, and io threads fetch them into main memory; a request that
waits for its blocks holds no seat, and no step waits for the network. What does not come is a miss.
So blocks are asked for by content: whatever the other engine has meanwhile put in their place, a
request computes, or has the K and V of its own tokens. vLLM reads by number of block, and a lease
that has run out is not seen by the reader.

Source: vllm/distributed/kv_transfer/kv_connector/v1/nixl/pull_scheduler.py and base_scheduler.py.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from mini_vllm.errors import RequestRefusedError, shown
from mini_vllm.offload.remote.leases import HEARTBEAT_SECONDS, LEASE_SECONDS, Lease
from mini_vllm.offload.remote.options import KVTransferConfig, Peer, lent_as, remote_prefill
from mini_vllm.offload.remote.shelf import Shelf
from mini_vllm.offload.remote.work import Pull, Pulled, Tell, TransferStats
from mini_vllm.offload.tiers.connector import TierConnector
from mini_vllm.offload.tiers.host import HostBlock
from mini_vllm.offload.tiers.work import LookupResult, Name
from mini_vllm.request import Request, RequestStatus
from mini_vllm.step import KVPlan, KVResult

logger = logging.getLogger("mini_vllm")

LENT = (RequestStatus.FINISHED_LENGTH, RequestStatus.FINISHED_STOPPED)
MOST_IDS = 8  # in one word: it has its place in a head, however long they are
MOST_TOLD = 64  # words on their way, with which another engine is told that it may forget
BEATS = HEARTBEAT_SECONDS / LEASE_SECONDS  # of a lease, between two heartbeats


class PeerRefusedError(RequestRefusedError):
    """A request whose blocks are on a host from which this engine takes none."""


class Awaited(NamedTuple):
    """What a request of a decoder waits for: all full blocks of its prompt but the last token's."""

    peer: Peer
    lease_id: str
    names: tuple[Name, ...]


class RemoteConnector(TierConnector):
    """The side of the scheduler. clock: seconds, for heartbeats."""

    def __init__(
        self,
        base: TierConnector,
        config: KVTransferConfig,
        shelf: Shelf,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(base.block_size, base.host, base.disk, base.max_waiting)
        self.config = config
        self.shelf = shelf
        self.clock = clock
        self.failures: dict[str, str] = {}  # by request, why blocks of it have not come
        self.num_lent = self.num_pulled = self.num_missed = 0  # blocks
        self.num_failed = 0  # prompts of which some block did not come
        # of a prefiller
        self._lent: dict[int, list[HostBlock]] = {}  # by generation
        self._granted: list[Lease] = []  # since the last step was decided
        self._arriving: list[Lease] = []  # whose blocks go to main memory in the step
        # of a decoder
        self._awaited: dict[str, Awaited] = {}  # by request, until its blocks are here
        self._pulling: dict[str, int] = {}  # by request that is there, the number of its job
        self._num_pulling = 0  # jobs, of requests that are gone, too
        self.num_told = 0  # words to another engine that are on their way
        self._last_beat = clock()
        self._beating: dict[Peer, int] = {}  # the number of the last heartbeat that is on its way

    # --- the prefiller ----------------------------------------------------------------------------

    def request_finished(self, request: Request) -> None:
        super().request_finished(request)
        name = lent_as(request.sampling_params.kv_transfer_params)
        if name is None or self.config.kv_role != "prefill" or request.status not in LENT:
            return
        num_tokens = min(request.num_computed_tokens, request.num_prompt_tokens - 1)
        names = names_of(request, num_tokens // self.block_size)
        # another choice of the same prompt may have a lease for it
        if names and not self.shelf.extend([lease_id(name, names)]):
            lease = self.shelf.grant(lease_id(name, names), names)
            self._lent[lease.generation] = []
            self._hold_for(lease)
            self._granted.append(lease)

    def _hold_for(self, lease: Lease) -> None:
        """Hold what of the leased blocks is in main memory, and is not held yet."""
        held = self._lent[lease.generation]
        for name in {*lease.names} - {block.name for block in held}:
            block = self.host.get(name)
            if block is not None and block.state == "ready":
                held.append(self.host.hold(block))

    def withdraw(self, names: Iterable[Name]) -> None:
        names = tuple(names)
        super().withdraw(names)
        self.shelf.withdraw(names)

    def _collect(self) -> None:
        for lease in self.shelf.collect():
            for block in self._lent.pop(lease.generation, ()):
                self.host.release(block)

    @property
    def transfer_stats(self) -> TransferStats:
        """What both roles have counted."""
        return TransferStats(
            self.num_lent,
            self.shelf.num_expired,
            self.num_pulled,
            self.num_missed,
            self.num_failed,
        )

    @property
    def has_work(self) -> bool:
        """Whether a step is needed, though no request may be there: for blocks that go to main
        memory under a lease, or for word from or to another engine.
        """
        return bool(self._granted or self._arriving or self._num_pulling or self.num_told)

    def held_blocks(self) -> list[list[HostBlock]]:
        """What each lease holds now."""
        self._collect()
        return [list(held) for held in self._lent.values()]

    @property
    def num_lent_blocks(self) -> int:
        """Blocks that leases hold now."""
        return len({block.cpu_block for held in self.held_blocks() for block in held})

    # --- the decoder ------------------------------------------------------------------------------

    def expect(self, request: Request) -> None:
        """A request comes, and its blocks have names. If another engine has them, its lease is
        renewed from now on.

        Raises PeerRefusedError for an engine from which this one takes nothing.
        """
        remote = remote_prefill(request.sampling_params.kv_transfer_params)
        if remote is None or self.config.kv_role != "decode":
            return
        if remote.peer.host not in self.config.trusted:
            raise PeerRefusedError(
                f"request {shown(request.request_id)}: remote_host must be one of "
                f"{self.config.trusted}, got {shown(remote.peer.host)}"
            )
        names = names_of(request, (request.num_prompt_tokens - 1) // self.block_size)
        if names:
            lease = lease_id(remote.request_id, names)
            self._awaited[request.request_id] = Awaited(remote.peer, lease, names)

    def forget(self, request: Request) -> None:
        """The request is gone. If nothing is pulled for it, the other engine may forget it, too."""
        self.failures.pop(request.request_id, None)
        if self._pulling.pop(request.request_id, None) is None:
            self._give_up(request.request_id)
        self._awaited.pop(request.request_id, None)

    def is_ready(self, request: Request, num_computed_tokens: int) -> bool:
        """As for tiers. The first call begins to pull what neither the device nor a tier has."""
        request_id = request.request_id
        if request_id in self._awaited and request_id not in self._pulling:
            num_hits = num_computed_tokens // self.block_size
            if self._num_pulling >= self.max_waiting or self._is_coming(request_id, num_hits):
                return False
            self._pull(request_id, num_hits)
        return request_id not in self._pulling and super().is_ready(request, num_computed_tokens)

    def _is_coming(self, request_id: str, num_hits: int) -> bool:
        """Whether some of its blocks are on their way already, for another request."""
        names = self._awaited[request_id].names[num_hits:]
        return any(self.lookup(name) is LookupResult.HIT_PENDING for name in names)

    def _pull(self, request_id: str, num_hits: int) -> None:
        awaited = self._awaited[request_id]
        missing = [
            name for name in awaited.names[num_hits:] if self.lookup(name) is LookupResult.MISS
        ]
        blocks: list[HostBlock] = []
        for name in missing:
            if (block := self.host.take(name)) is None:
                break
            blocks.append(block)
        if len(blocks) < len(missing):
            self.num_missed += len(missing) - len(blocks)
            self._fail(request_id, f"main memory has room for {len(blocks)} of {len(missing)}")
        if not blocks:
            self._give_up(request_id)
            return
        names = tuple(block.name for block in blocks)
        cpu_blocks = tuple(block.cpu_block for block in blocks)
        number = self._pulling[request_id] = next(self._numbers)
        self._num_pulling += 1
        job = Pull(number, awaited.peer, awaited.lease_id, names, cpu_blocks)
        self._jobs.ask(job, (request_id, blocks))

    def _end(self, job: Any, block: Any, went_well: Any) -> None:
        if not isinstance(job, Tell | Pull):
            super()._end(job, block, went_well)
            return
        if isinstance(job, Tell):
            self.num_told -= 1
            if self._beating.get(job.peer) == job.number:
                del self._beating[job.peer]
            return
        request_id, blocks = block
        pulled: Pulled = went_well
        for index, each in enumerate(blocks):
            if index >= pulled.num_blocks:
                self.host.drop(each)
            elif each.state == "pending":  # else it was withdrawn meanwhile
                each.state = "ready"
            self.host.release(each)
        self.num_pulled += pulled.num_blocks
        self.num_missed += len(blocks) - pulled.num_blocks
        self._num_pulling -= 1
        if self._pulling.get(request_id) != job.number:  # it is gone, or another one has its id
            return
        del self._pulling[request_id], self._awaited[request_id]
        if pulled.num_blocks < len(blocks):
            self._fail(request_id, pulled.why)

    def _fail(self, request_id: str, why: str) -> None:
        self.num_failed += 1
        name = shown(request_id)
        logger.warning("request %s: blocks of its prompt have not come: %s", name, why)
        if self.config.kv_load_failure_policy == "fail":
            self.failures[request_id] = why

    def _give_up(self, request_id: str) -> None:
        """Nothing is pulled for a request: unless another choice waits for the same lease, it is
        over.
        """
        awaited = self._awaited.pop(request_id, None)
        if awaited is None or self.num_told >= MOST_TOLD:  # the lease runs out by itself
            return
        if all(each.lease_id != awaited.lease_id for each in self._awaited.values()):
            self._tell(awaited.peer, "release", (awaited.lease_id,))

    def _tell(self, peer: Peer, what: Any, lease_ids: tuple[str, ...]) -> int:
        """The number of the job."""
        self.num_told += 1
        job = Tell(next(self._numbers), peer, what, lease_ids)
        self._jobs.ask(job, None)
        return job.number

    def _beat(self) -> None:
        """Renew the leases of all requests that wait, if it is time."""
        now, interval = self.clock(), self.config.kv_lease_duration * BEATS
        if self._awaited and now - self._last_beat >= interval:
            self._last_beat = now
            by_peer = defaultdict[Peer, dict[str, None]](dict)
            for awaited in self._awaited.values():
                if awaited.peer not in self._beating:  # else it may be deaf
                    by_peer[awaited.peer][awaited.lease_id] = None
            for peer, lease_ids in by_peer.items():
                ids = tuple(lease_ids)
                for start in range(0, len(ids), MOST_IDS):
                    some = ids[start : start + MOST_IDS]
                    self._beating[peer] = self._tell(peer, "extend", some)

    # --- a step -----------------------------------------------------------------------------------

    def begin_step(self) -> KVPlan:
        self._collect()
        self._beat()
        self._arriving, self._granted = self._granted, []
        return super().begin_step()

    def exchange_notes(self, notes: Any) -> Any:
        """With the leases whose blocks the step brings to main memory."""
        of_tiers, arriving = notes or (None, [])
        present = super().exchange_notes(of_tiers), self._arriving
        self._arriving = arriving
        return present

    def end_step(self, result: KVResult | None) -> None:
        super().end_step(result)
        for lease in self._arriving:
            held = self._lent.get(lease.generation)
            if held is None:  # it has ended before its blocks have arrived
                continue
            self._hold_for(lease)
            self.num_lent += len(held)
            self.shelf.fill(lease, {block.name: block.cpu_block for block in held})
        self._arriving = []


def lease_id(remote_request_id: str, names: Sequence[Name]) -> str:
    """The name of a lease: prompts of one HTTP request share its id, and differ by their last
    block.
    """
    return f"{remote_request_id}/{names[-1].hex()[:16]}"


def names_of(request: Request, num_blocks: int) -> tuple[Name, ...]:
    """The names of its first blocks."""
    return tuple(request.block_hashes[:num_blocks])  # type: ignore[arg-type]  # bytes, in tiers
