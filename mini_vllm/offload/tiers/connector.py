"""TierConnector: what goes down to main memory and to the disk, and what comes up again.

A block goes down in the step behind the one that computed it, before the model runs. By then that
step is known to have gone well, and no request has written over the block: copies out come first.
So no content is stored that was never computed (vLLM: issue 45704 is a store that reads too
early). What leaves the device goes down once more, if it is not there any longer. From main
memory an io thread writes it to a file.

A request whose content is on the disk waits in the queue and holds no seat. Its blocks are held in
main memory from the lookup to the load. A file that cannot be read is a miss: the request computes
what it has in vain waited for. Source: OffloadingConnectorScheduler
in vllm/distributed/kv_transfer/kv_connector/v1/offloading/scheduler.py.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count, takewhile
from typing import Any, Literal, NamedTuple
from uuid import uuid4

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.offload.connector import KVConnector, Lookup
from mini_vllm.offload.tiers.disk import DiskTier
from mini_vllm.offload.tiers.host import HostBlock, HostTier
from mini_vllm.offload.tiers.jobs import JobBook, News
from mini_vllm.offload.tiers.policies.cost import DiskCost
from mini_vllm.offload.tiers.work import Job, LookupResult, Name, TierPlan, TierResult
from mini_vllm.request import Request
from mini_vllm.step import CpuBlockId, KVPlan, KVResult


@dataclass(slots=True)
class TierStats:
    """Counted in blocks."""

    num_stored: int = 0  # device to main memory
    num_loaded: int = 0  # main memory to device
    num_written: int = 0  # main memory to disk
    num_read: int = 0  # disk to main memory
    num_failed_reads: int = 0  # files that were gone, torn or spoilt
    num_given_up: int = 0  # requests that did not wait for a slow disk to the end


Kind = Literal["read", "write", "delete"]  # of a job
Names = tuple[Name, ...]


class Wait(NamedTuple):
    """A request waits since then, for these blocks that have not arrived; the next one is last.

    num_on_disk: what it would wait for in all; a probe is a few of them.
    """

    since: float
    num_on_disk: int
    pending: list[HostBlock]
    is_probe: bool


@dataclass(slots=True)
class StepNotes:
    """What a step moves, fills and tells, which counts when it has gone well."""

    stored: list[tuple[HostBlock, int]] = field(default_factory=list)
    loaded: list[tuple[HostBlock, int]] = field(default_factory=list)
    published: list[tuple[Any, KVCacheBlock]] = field(default_factory=list)
    news: News = field(default_factory=News)


def num_to_read(found: Iterable[LookupResult]) -> int:
    """How many blocks of the longest prefix that is there have to be read."""
    there = takewhile(lambda each: each is not LookupResult.MISS, found)
    return sum(each is LookupResult.RETRY for each in there)


class TierConnector(KVConnector):
    """The side of the scheduler. max_waiting: so many requests may wait for the disk at once; a
    further one computes.
    """

    def __init__(
        self,
        block_size: int,
        host: HostTier,
        disk: DiskTier | None = None,
        max_waiting: int = 256,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.block_size = block_size
        self.host = host
        self.disk = disk
        self.max_waiting = max_waiting
        self.stats = TierStats()
        self.cost = DiskCost(block_size)
        self._clock = clock
        self._owner = uuid4().hex
        self._numbers = count()
        # blocks of the device that are computed and go down in the coming step
        self._going: dict[Name, int] = {}
        self._held: dict[str, list[HostBlock]] = {}  # by request that is not admitted yet
        self._waits: dict[str, Wait] = {}  # of these, for what was on its way
        self._seen: set[str] = set()  # requests that main memory was told of
        self._gave_up: set[str] = set()  # requests that have waited long enough
        self._jobs = JobBook()
        self._notes = StepNotes()

    # --- what is there ----------------------------------------------------------------------------

    def lookup(self, name: Name) -> LookupResult:
        """Where the content is. Changes nothing."""
        block = self.host.get(name)
        if block is not None:
            return LookupResult.HIT if block.state == "ready" else LookupResult.HIT_PENDING
        on_disk = self.disk is not None and name in self.disk
        return LookupResult.RETRY if on_disk else LookupResult.MISS

    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> Lookup:
        """What main memory has. Changes nothing."""
        found = map(self.lookup, self._names(request, num_computed_tokens))
        hits = takewhile(lambda each: each is LookupResult.HIT, found)
        return Lookup(len([*hits]) * self.block_size)

    def is_ready(self, request: Request, num_computed_tokens: int) -> bool:
        """Whether all that the tiers have of a waiting request is in main memory.

        The first call begins to read what is on the disk, as far as main memory has room for it.
        """
        request_id = request.request_id
        wait = self._waits.get(request_id)
        if wait is None:
            if (wait := self._begin_wait(request, num_computed_tokens)) is None:
                return True
            self._waits[request_id] = wait
        pending = wait.pending
        while pending and pending[-1].state != "pending":
            pending.pop()
        if not pending:
            if wait.is_probe:  # now it is known whether the rest is worth it
                self._let_go(request_id)
                return self.is_ready(request, num_computed_tokens)
            return True
        waited = self._clock() - wait.since
        if self.cost.may_wait(wait.num_on_disk, len(pending), waited):
            return False
        self._let_go(request_id)  # what has arrived is in main memory
        self._gave_up.add(request_id)
        self.stats.num_given_up += 1
        return True

    def _begin_wait(self, request: Request, num_computed_tokens: int) -> Wait | None:
        """Hold what is there, and begin to read; None if there is nothing to hold or to wait
        for.
        """
        request_id, names = request.request_id, self._names(request, num_computed_tokens)
        if request_id not in self._seen:
            self._seen.add(request_id)
            self.host.want(names)
        if request_id in self._gave_up or len(self._held) >= self.max_waiting:
            return None
        num_on_disk = num_to_read(map(self.lookup, names))
        num_reads = self.cost.num_reads(num_on_disk)
        if num_on_disk and not num_reads:
            self._gave_up.add(request_id)
            return None
        held = self._hold(names, num_reads)
        if not held:
            return None
        self._held[request_id] = held
        pending = [block for block in reversed(held) if block.state == "pending"]
        return Wait(self._clock(), num_on_disk, pending, num_reads < num_on_disk)

    def _names(self, request: Request, num_computed_tokens: int) -> Sequence[Any]:
        start = num_computed_tokens // self.block_size
        return request.block_hashes[start : (request.num_tokens - 1) // self.block_size]

    def _hold(self, names: Sequence[Name], num_reads: int) -> list[HostBlock]:
        """The blocks of the longest prefix that is there, each held; so many reads begin for those
        that are on the disk.
        """
        held: list[HostBlock] = []
        for name in names:
            block = self.host.get(name)
            if block is None and num_reads and self.lookup(name) is LookupResult.RETRY:
                block, num_reads = self.host.take(name), num_reads - 1
                if block is not None:
                    self._begin("read", name, block)
            if block is None:
                break
            held.append(self.host.hold(block))
        return held

    def _let_go(self, request_id: str) -> None:
        self._waits.pop(request_id, None)
        for block in reversed(self._held.pop(request_id, [])):
            self.host.release(block)

    # --- what the KV cache manager says -----------------------------------------------------------

    def load(self, request: Request, block_ids: Sequence[int], start: int) -> None:
        for name, block_id in zip(request.block_hashes[start:], block_ids, strict=False):
            block = self.host.get(name)  # type: ignore[arg-type]  # the names are bytes here
            assert block is not None, "it was found a moment ago"
            self._notes.loaded.append((self.host.hold(block), block_id))
        self._let_go(request.request_id)
        self._gave_up.discard(request.request_id)

    def save(self, request: Request, block_ids: Sequence[int]) -> None:
        """The full blocks of a preempted request are stored already, or on their way."""

    def request_finished(self, request: Request) -> None:
        self._let_go(request.request_id)
        self._seen.discard(request.request_id)
        self._gave_up.discard(request.request_id)

    def publish(self, blocks: Iterable[KVCacheBlock]) -> None:
        """The coming step fills these blocks, which have names."""
        self._notes.published += ((block.block_hash, block) for block in blocks)

    def evict(self, name: Name, block_id: int) -> None:
        """The device gives a computed block to another content, in the coming step."""
        block = self.host.get(name)
        if block is None:
            self._going[name] = block_id
        else:
            self.host.touch(block)

    def withdraw(self, names: Iterable[Name]) -> None:
        """The content may be spoilt: no tier has it from now on."""
        for name in names:
            self._going.pop(name, None)
            if (block := self.host.get(name)) is not None:
                self.host.drop(block)
            if self.disk is not None and self.disk.drop(name):
                self._begin("delete", name)

    # --- a step -----------------------------------------------------------------------------------

    def begin_step(self) -> KVPlan:
        notes, host = self._notes, self.host
        for name, block_id in self._going.items():
            if host.get(name) is None and (block := host.take(name)) is not None:
                notes.stored.append((block, block_id))
        self._going = {}
        if not (notes.stored or notes.loaded or self._jobs):
            return KVPlan()
        plan = TierPlan(
            self._owner,
            tuple((block_id, block.cpu_block) for block, block_id in notes.stored),
            tuple((block.cpu_block, block_id) for block, block_id in notes.loaded),
            *self._jobs.tell(notes.news),
        )
        return KVPlan(connector=plan)

    def end_step(self, result: KVResult | None) -> None:
        """What a failed step has stored is forgotten, since it may never have arrived."""
        notes, self._notes = self._notes, StepNotes()
        for block, _ in notes.loaded:
            self.host.release(block)
        for block, _ in notes.stored:
            if result is None:
                self.host.drop(block)
            elif block.state == "pending":
                block.state = "ready"
                self._write(block)
            self.host.release(block)
        if result is None:
            for name, _ in notes.published:
                self._going.pop(name, None)
            return
        self.stats.num_stored += len(notes.stored)
        self.stats.num_loaded += len(notes.loaded)
        for name, device_block in notes.published:
            if device_block.block_hash == name:  # else it was withdrawn
                self._going[name] = device_block.block_id
        if isinstance(result.connector, TierResult):
            self.cost.read.add(*result.connector.read)
            self.cost.compute.add(*result.connector.compute)
            for number, went_well in result.connector.done.items():
                if number in self._jobs:  # else an earlier step in flight has told it
                    self._end(*self._jobs.pop(number), went_well)

    def say_again(self) -> None:
        """The step has failed, of which end_step() is about to tell."""
        self._jobs.say_again(self._notes.news)

    def exchange_notes(self, notes: Any) -> Any:
        present, self._notes = self._notes, notes or StepNotes()
        return present

    # --- jobs -------------------------------------------------------------------------------------

    def _begin(
        self, kind: Kind, name: Name, block: HostBlock | None = None, evicted: Names = ()
    ) -> None:
        """The coming step asks for a job. Its block is held already, and until it has ended."""
        number, cpu_block = next(self._numbers), block.cpu_block if block else CpuBlockId(-1)
        self._jobs.ask(Job(number, kind, name, cpu_block, evicted), block)

    def _write(self, block: HostBlock) -> None:
        """Keep the block in a file, too.

        If a slow disk already has half of main memory to write, it does not get more.
        """
        if self.disk is None or 2 * len(self._jobs) > self.host.num_blocks:
            return
        evicted = self.disk.reserve(block.name)
        if evicted is not None:
            self._begin("write", block.name, self.host.hold(block), evicted)

    def _end(self, job: Job, block: HostBlock | None, went_well: bool) -> None:
        disk = self.disk
        assert disk is not None, "there are no jobs without a disk"
        if block is None:
            return
        if job.kind == "write":
            is_spoilt = went_well and block.state == "lost"
            disk.written(job.name, went_well and not is_spoilt)
            self.stats.num_written += went_well
            if is_spoilt:
                self._begin("delete", job.name)
        elif went_well:
            disk.touch(job.name)
            self.stats.num_read += 1
            if block.state == "pending":  # else it was withdrawn meanwhile
                block.state = "ready"
        else:
            disk.drop(job.name)
            self.stats.num_failed_reads += 1
            self.host.drop(block)
        self.host.release(block)
