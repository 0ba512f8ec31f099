"""Tiers behind the prefix cache: equal tokens whatever moves when, and nothing that is spoilt.

The world of the first part has no model, no thread and no clock: it carries out the plans by
itself, and decides which job ends when. The tests with an engine run a random Qwen3 with sharp
logits (fixture checkpoint) in whose cache whatever was not written is not a number.
"""

import itertools
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import pytest
import torch

from mini_vllm.config import EngineConfig
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.recovery import RecoveringCore
from mini_vllm.errors import InvalidParameterError, KVCacheTooLargeError
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.models.test_models import CASES, write_checkpoint
from mini_vllm.observe.timeline import read_requests, render_timeline
from mini_vllm.observe.trace import TraceRecorder
from mini_vllm.offload.remote.gate import attach_gate
from mini_vllm.offload.tiers.connector import TierConnector
from mini_vllm.offload.tiers.disk import DiskTier
from mini_vllm.offload.tiers.host import HostTier
from mini_vllm.offload.tiers.manager import tiered
from mini_vllm.offload.tiers.policies.arc import TIERS, ArcTier
from mini_vllm.offload.tiers.work import Job, LookupResult, TierPlan, TierResult
from mini_vllm.params import SamplingParams
from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler
from mini_vllm.scheduler_interface import Step
from mini_vllm.step import KVResult
from mini_vllm.worker.local_executor import LocalExecutor
from mini_vllm.worker.tiers.block_folder import BlockFolder
from mini_vllm.worker.tiers.disk_time import measure_disk
from mini_vllm.worker.tiers.errands import MOST_AGREED, Errands
from mini_vllm.worker.tiers.executor import TieringExecutor

# --- without a model: who moves what, and when ----------------------------------------------------

BLOCK = 2
DOCUMENT = [1, 2, 3, 4, 5, 6]  # three blocks
OTHER = [9, 8, 7, 6, 5, 4, 3, 2]  # it takes all blocks of the device


class World:
    """A scheduler, and a device, main memory and a disk that hold tokens.

    The content of a slot is all tokens up to its own. A request's next token depends on what its
    slots hold, so a wrong block is a wrong token.
    """

    def __init__(
        self, num_blocks: int = 6, num_host: int = 6, num_disk: int = 9, policy: str = "lru"
    ) -> None:
        self.now, self.policy = 0.0, policy
        self.measured: dict[str, tuple[float, float]] = {}
        self.num_computed = 0  # tokens
        self.last = 0.0  # when a step has ended
        self.device: dict[int, Any] = {}
        self.host: dict[int, Any] = {}
        self.disk: dict[bytes, Any] = {}
        self.num_host, self.num_disk = num_host, num_disk
        manager_cls = tiered(KVCacheManager, self.make_connector)
        self.kv = manager_cls(num_blocks, BLOCK)
        self.scheduler = Scheduler(self.kv, max_num_seqs=3, max_num_batched_tokens=100)
        attach_gate(self.scheduler)
        self.tokens: dict[str, list[int]] = {}
        self.ended: dict[int, bool] = {}  # jobs whose end the scheduler does not know
        self.waiting_jobs: list[Job] = []

    def make_connector(self) -> TierConnector:
        host, disk = TIERS[self.policy](self.num_host), DiskTier(self.disk, self.num_disk)
        return TierConnector(BLOCK, host, disk, clock=lambda: self.now)

    @property
    def connector(self) -> TierConnector:
        return self.kv.connector

    def add(self, name: str, prompt: Sequence[int], max_tokens: int = 2) -> Request:
        params = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
        request = Request(name, prompt, params)
        self.scheduler.add_request(request)
        return request

    def end_job(self, job: Job) -> None:
        """An io thread has done it."""
        went_well = True
        if job.kind == "write":
            for each in job.evicted:
                self.disk.pop(each, None)
            self.disk[job.name] = self.host[job.cpu_block]
        elif job.kind == "delete":
            self.disk.pop(job.name, None)
        else:
            found = self.disk.get(job.name)
            self.host[job.cpu_block], went_well = found, found is not None
        self.ended[job.number] = went_well
        self.waiting_jobs.remove(job)

    def step(
        self, ends: Sequence[int] = (), fails: str | None = None, spoilt: Request | None = None
    ) -> list[Job]:
        """One step; jobs at these places end while the model runs. Returns those still waiting.

        fails: "early", before the worker has done anything, or "late". spoilt: a request whose
        logits are not numbers.
        """
        step = Step.decide(self.scheduler)
        if fails == "early":
            step.undo(self.scheduler)
            return self.waiting_jobs
        plan = step.plan.connector or TierPlan("")
        known = {*self.ended, *(job.number for job in self.waiting_jobs)}
        self.waiting_jobs += [job for job in plan.jobs if job.number not in known]
        for block, cpu_block in plan.store:
            self.host[cpu_block] = [self.device.get((block, i)) for i in range(BLOCK)]
        for cpu_block, block in plan.load:
            for i in range(BLOCK):
                self.device[block, i] = self.host[cpu_block][i]
        for job in [self.waiting_jobs[i] for i in ends if i < len(self.waiting_jobs)]:
            self.end_job(job)
        if fails:
            step.undo(self.scheduler)
            return self.waiting_jobs
        sampled = {}
        for request in step.output.scheduled_requests:
            start, n = (
                request.num_computed_tokens,
                step.output.num_scheduled_tokens[request.request_id],
            )
            table = self.kv.get_block_ids(request.request_id)
            self.num_computed += n
            for p in range(start, start + n):
                self.device[table[p // BLOCK], p % BLOCK] = tuple(request.all_token_ids[: p + 1])
            seen = [self.device[table[p // BLOCK], p % BLOCK] for p in range(start + n)]
            assert seen == [tuple(request.all_token_ids[: p + 1]) for p in range(start + n)]
            if self.scheduler.needs_sample(request, n):
                sampled[request.request_id] = [sum(map(sum, seen)) % 89]
        done, self.ended = self.ended, {}
        if spoilt is not None:
            self.scheduler.finish_request(spoilt.request_id, "error")
            spoilt.num_computed_tokens = 0
            self.kv.withdraw(spoilt, spoilt.num_tokens)
        step.end_kv(self.kv, KVResult(connector=TierResult(done, **self.measured)))
        for request in step.update(self.scheduler, sampled):
            self.tokens[request.request_id] = request.output_token_ids
        return self.waiting_jobs

    def clock_step(self, ends: Sequence[int]) -> None:
        """A step takes a second for each token, and a tenth of one if it has none."""
        before = self.num_computed
        self.step(ends=ends)
        num_tokens = self.num_computed - before
        self.now += num_tokens or 0.1
        self.measured["compute"] = (num_tokens, self.now - self.last)
        self.last = self.now

    def finish(self, limit: int = 60) -> None:
        """Every job ends at once, until nothing is left to do."""
        for _ in range(limit):
            if not self.scheduler.has_unfinished_requests():
                break
            self.step(ends=range(100))
        assert not self.scheduler.has_unfinished_requests(), "a request waits without end"
        self.check()

    def check(self) -> None:
        """Nothing is held, and no map remembers a request."""
        connector = self.connector
        assert self.kv.num_free_blocks == self.kv.num_usable_blocks
        self.kv.block_pool.check_integrity()
        assert (connector._held, connector._waits) == ({}, {})
        assert not connector._seen | connector._gave_up
        held = {job.cpu_block for job, block in connector._jobs.values() if block is not None}
        assert connector.host.num_held_blocks == len(held)


def visit(world: World, schedule: Sequence[tuple[int, ...]]) -> None:
    """A document is computed, driven out of the device, and asked for again by two requests."""
    turns = iter(schedule)

    def run() -> None:
        for _ in range(40):
            if not world.scheduler.has_unfinished_requests():
                return
            world.step(ends=next(turns, range(100)))
        raise AssertionError("a request waits without end")

    world.add("first", DOCUMENT)
    run()
    world.add("other", OTHER)
    run()
    world.add("again", DOCUMENT)
    world.add("longer", [*DOCUMENT, 7, 8])
    run()
    world.check()


@pytest.fixture(scope="module")
def expected() -> dict[str, list[int]]:
    world = World(num_blocks=60, num_host=1)
    visit(world, ())
    return world.tokens


ENDS = [(), (0,), (1,), (0, 1), (1, 0), (2, 1, 0)]  # which of the waiting jobs end in a step


@pytest.mark.parametrize("num_host", [1, 3, 6])
@pytest.mark.parametrize("num_steps", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_every_interleaving_of_store_load_and_compute_gives_equal_tokens(
    num_steps: int, num_host: int, expected: dict[str, list[int]]
) -> None:
    num_read = num_loaded = 0
    for schedule in itertools.product(ENDS, repeat=num_steps):
        # the jobs of the first steps end late, so that reads and writes meet
        for quiet in (0, 4, 6, 8):
            world = World(num_host=num_host)
            visit(world, [()] * quiet + [*schedule])
            assert world.tokens == expected, (schedule, quiet)
            num_read += world.connector.stats.num_read
            num_loaded += world.connector.stats.num_loaded
    assert num_loaded > 36  # the positive control
    assert num_read or num_host != 3


@pytest.mark.parametrize("ends", ENDS)
def test_a_step_that_fails_loses_no_job_and_no_token(
    ends: tuple[int, ...], expected: dict[str, list[int]]
) -> None:
    for k, second, kind in itertools.product(range(12), (False, True), ("early", "late")):
        world, number = World(num_host=3), itertools.count()
        step = world.step

        def failing(ends: Any = (), step: Any = step, number: Any = number, k: int = k) -> Any:
            n = next(number)
            fails = n == k or (second and n == k + 1)  # noqa: B023
            return step(ends, kind if fails else None)  # noqa: B023

        world.step = failing  # type: ignore[method-assign]
        visit(world, [ends] * 9)
        assert world.tokens == expected, (k, second, kind)


def test_a_step_names_the_jobs_that_are_new_and_not_all_that_are_under_way() -> None:
    tier, numbers = HostTier(400), itertools.count()
    connector, named, ended = TierConnector(BLOCK, tier, DiskTier([], 400)), 0, dict[int, bool]()
    for number in range(100):
        for _ in range(2):
            connector.evict(b"%d" % next(numbers), 5)
        plan = connector.begin_step().connector
        assert plan.known == tuple(ended)
        named += len(plan.jobs)
        ended = {} if number < 50 else {number - 50: True}
        connector.end_step(KVResult(connector=TierResult(ended)))
    assert named == 198, "the writes of the last step are not named yet"
    assert len(connector._jobs) == 200 - 50


@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_job_under_way_costs_no_step_anything(kind: Any) -> None:
    num_looks, futures = Counter[str](), []

    class Looked(Future[bool]):
        def done(self) -> bool:
            num_looks["done"] += 1
            return super().done()

        def result(self, timeout: float | None = None) -> bool:
            num_looks["result"] += 1
            return super().result(timeout)

    def submit(job: Job) -> Future[bool]:
        futures.append(Looked())
        return futures[-1]

    errands = Errands("", submit)
    jobs = tuple(Job(number, kind, b"") for number in range(100))
    errands.begin(TierPlan("", jobs=jobs))
    assert len(errands.begin(TierPlan("", jobs=jobs[:9])).oldest) == MOST_AGREED
    assert len(futures) == 100, "a step that failed begins no job twice"
    known: tuple[int, ...] = ()
    for number in range(60):
        futures[number].set_result(number != 7)
        asked = errands.begin(TierPlan("", known=known))
        assert errands.take(asked.known, 0.0) == {number: number != 7}
        assert errands.take((), 0.0) == {number: number != 7}, "until it is known"
        known = (number,)
    assert num_looks == {"result": 60}
    assert len(errands.begin(TierPlan("", known=known)).oldest) == MOST_AGREED
    assert errands.take(known, 0.001) == {}


def test_who_waits_for_a_disk_holds_no_seat_and_a_failed_read_is_computed() -> None:
    world = World(num_host=8)
    world.add("first", DOCUMENT)
    world.finish()
    world.add("other", OTHER)
    world.finish()
    names = [*world.disk][:3]
    for name in names:
        block = world.connector.host.get(name)
        assert block is not None
        world.connector.host.drop(block)
    assert world.connector.lookup(names[0]) is LookupResult.RETRY
    late = world.add("late", DOCUMENT, 1)
    world.add("beside", [30, 31], 3)
    for _ in range(3):
        world.step()
    assert world.tokens["beside"], "the other request goes on"
    assert world.scheduler.running == []
    assert late in world.scheduler.waiting
    assert world.connector.lookup(names[0]) is LookupResult.HIT_PENDING
    for name in names[1:]:
        del world.disk[name]  # it is gone when it is read
    world.finish()
    assert world.connector.stats.num_failed_reads > 0
    assert late.num_cached_tokens == BLOCK, "the first one was there"
    assert len(world.tokens["late"]) == 1
    assert world.connector.lookup(names[1]) is not LookupResult.RETRY


@pytest.mark.parametrize("moment", range(7))
def test_an_abort_at_any_moment_leaves_nothing_behind(
    moment: int, expected: dict[str, list[int]]
) -> None:
    world = World(num_host=3)
    world.add("first", DOCUMENT)
    world.finish()
    world.add("other", OTHER)
    world.finish()
    world.add("again", DOCUMENT)
    world.add("longer", [*DOCUMENT, 7, 8])
    for _ in range(moment):
        world.step()
    world.scheduler.abort_request("again")
    world.finish()
    assert world.tokens["longer"] == expected["longer"]


def test_a_tier_forgets_the_least_recently_used_and_never_what_is_held() -> None:
    host = HostTier(2)
    first, second = host.take(b"1"), host.take(b"2")
    assert first is not None
    assert second is not None
    assert host.take(b"3") is None, "both are held"
    host.release(first), host.release(second)
    host.touch(first)
    third = host.take(b"3")
    assert third is not None
    assert (host.get(b"1"), host.get(b"2")) == (first, None)
    host.drop(third)
    assert host.get(b"3") is None
    assert host.num_held_blocks == 1, "the holder still writes there"
    host.release(third)
    assert host.num_held_blocks == 0

    disk = DiskTier([b"1", b"2"], 2)
    disk.touch(b"1")
    assert disk.reserve(b"1") is None, "it is here"
    assert disk.reserve(b"3") == (b"2",)
    assert disk.reserve(b"3") is None, "it is on its way"
    disk.written(b"3", True)
    assert (b"1" in disk, b"2" in disk, b"3" in disk) == (True, False, True)


def test_arc_keeps_what_is_used_again_and_learns_from_what_it_let_go() -> None:
    def visit(host: HostTier, names: str) -> str:
        """One request for each name; returns those that were there."""
        found = ""
        for letter in names:
            name = letter.encode()
            host.want([name])
            if (block := host.get(name)) is None:
                block = host.take(name)
                assert block is not None
                block.state = "ready"
                host.release(block)
            else:
                found += letter
                host.touch(block)
        return found

    for kind, expected in ((HostTier, ""), (ArcTier, "ab")):
        host = kind(4)
        visit(host, "abab")
        visit(host, "cdefghij")
        assert visit(host, "ab") == expected, "a scan pushes out what LRU has"
    host = ArcTier(4)
    visit(host, "ababcdefg")
    assert host.target_t1_size == 0
    assert (host.get(b"e"), visit(host, "e")) == (None, "")
    assert host.target_t1_size == 1, "a larger T1 had had it"
    visit(host, "xyzfg")
    assert host.target_t1_size >= 2
    names = [each for each in "abcdefgxyz" if host.get(each.encode())]
    recent = [each for each in names if not host.get(each.encode()).is_frequent]  # type: ignore[union-attr]
    assert (len(names), host.num_recent) == (4, len(recent))
    block = host.get(recent[0].encode())
    assert block is not None
    host.drop(block)
    assert host.num_recent == len(recent) - 1
    held = [host.take(bytes([i])) for i in range(9)]
    assert sum(each is not None for each in held) == 4, "and never what is held"


@pytest.mark.parametrize("num_host", [1, 3])
def test_with_arc_too_every_interleaving_gives_equal_tokens(
    num_host: int, expected: dict[str, list[int]]
) -> None:
    for schedule in itertools.product(ENDS[:4], repeat=2):
        world = World(num_host=num_host, policy="arc")
        visit(world, schedule)
        assert world.tokens == expected


@pytest.mark.parametrize("seconds_per_read", [0.1, 1.0, 20.0, 300.0])
def test_a_slow_disk_costs_little_more_than_to_compute(seconds_per_read: float) -> None:
    """Three documents of 40 blocks come again and again. Main memory has room for two. The model
    takes 2 seconds for a block.
    """
    world, credit, times = World(num_blocks=60, num_host=90, num_disk=200), 0.0, list[float]()
    for i in range(12):
        world.add(f"{i}", [i % 3, *range(10, 10 + 40 * BLOCK)], 1)
        begun = world.now
        while world.scheduler.has_unfinished_requests():
            reads = [each for each in world.waiting_jobs if each.kind == "read"]
            ends = [n for n, each in enumerate(world.waiting_jobs) if each.kind != "read"]
            before, credit = world.now, credit if reads else 0.0
            num_ended = min(int(credit / seconds_per_read), len(reads))
            credit -= num_ended * seconds_per_read
            ends += [world.waiting_jobs.index(each) for each in reads[:num_ended]]
            world.measured["read"] = (num_ended, num_ended * seconds_per_read)
            world.clock_step(ends)
            credit += world.now - before
        times.append(world.now - begun)
    stats, computing = world.connector.stats, 40 * BLOCK + 1
    if seconds_per_read <= 1:
        assert stats.num_given_up == 0
        assert sum(times[-3:]) <= 0.3 * 3 * computing
    else:
        assert max(times) <= 1.05 * computing
        assert world.now - world.num_computed <= 0.05 * 12 * computing, "the rest is waiting"
        assert 0 < stats.num_given_up < 6, "it learns"


def test_what_may_be_spoilt_is_withdrawn_from_every_tier() -> None:
    world = World()
    request = world.add("spoilt", DOCUMENT)
    world.finish()
    names = [name for name in request.block_hashes if isinstance(name, bytes)]
    assert LookupResult.HIT in map(world.connector.lookup, names)
    world.add("next", [40, 41], 3)
    world.step(ends=range(9))
    request.num_computed_tokens = 0
    world.kv.withdraw(request, request.num_tokens)
    assert {*map(world.connector.lookup, names)} == {LookupResult.MISS}
    world.finish()
    assert not {*names} & {*world.disk}


@pytest.mark.parametrize("num_good_steps", [0, 1, 2])
def test_a_request_that_ends_with_an_error_leaves_nothing_in_a_tier(num_good_steps: int) -> None:
    world = World()
    request = world.add("spoilt", DOCUMENT, 9)
    world.add("beside", [40, 41], 9)
    for _ in range(num_good_steps):
        world.step(ends=range(9))
    world.step(ends=range(9), spoilt=request)
    names = [name for name in request.block_hashes if isinstance(name, bytes)]
    assert len(names) >= 3
    for _ in range(3):
        world.step(ends=range(9))
        assert {*map(world.connector.lookup, names)} == {LookupResult.MISS}
    world.finish()
    assert not {*names} & {*world.disk}


# --- files ----------------------------------------------------------------------------------------

LAYOUT = {"model": "a", "block": [2, 3]}
NAMES = [bytes([i]) * 32 for i in range(3)]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[BlockFolder]:
    folder = BlockFolder(str(tmp_path), LAYOUT)
    yield folder
    folder.close()


def test_a_file_that_is_not_what_was_written_is_a_miss(folder: BlockFolder) -> None:
    block, into = memoryview(bytes(range(100))), memoryview(bytearray(100))
    assert folder.write(NAMES[0], block)
    assert folder.read(NAMES[0], into)
    assert into == block
    path = folder.path / NAMES[0].hex()
    whole = path.read_bytes()
    spoilt = [whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :] for i in range(len(whole))]
    torn = [whole[:i] for i in range(0, len(whole), 7)]
    for data in (*spoilt, *torn, whole + b"0"):
        path.write_bytes(data)
        assert not folder.read(NAMES[0], into)
        assert not path.exists(), "it is not read again"
    folder.write(NAMES[0], block)
    path.rename(folder.path / NAMES[1].hex())
    assert not folder.read(NAMES[1], into), "a block under another name"
    assert not folder.read(NAMES[2], into)


def test_a_folder_belongs_to_one_layout_and_one_engine(tmp_path: Path) -> None:
    first = BlockFolder(str(tmp_path), LAYOUT)
    first.write(NAMES[0], memoryview(b"12"))
    (first.path / "leftover.part").write_bytes(b"1")
    with pytest.raises(InvalidParameterError, match="in use by another engine"):
        BlockFolder(str(tmp_path), LAYOUT)
    other = BlockFolder(str(tmp_path), {**LAYOUT, "block": [4, 3]})
    assert (first.names(), other.names()) == ([NAMES[0]], [])
    assert first.path.stat().st_mode & 0o77 == 0, "it tells of prompts"
    first.close(), other.close()
    again = BlockFolder(str(tmp_path), LAYOUT)
    assert again.names() == [NAMES[0]]
    assert not list(again.path.glob("*.part"))
    again.write(NAMES[1], memoryview(b"12"), evicted=[NAMES[0]])
    assert again.names() == [NAMES[1]]
    again.close()
    (tmp_path / "file").touch()
    with pytest.raises(InvalidParameterError, match="kv_offload_path must be a folder"):
        BlockFolder(str(tmp_path / "file"), LAYOUT)


def test_reads_of_a_disk_are_measured_and_leave_nothing(tmp_path: Path) -> None:
    found = measure_disk(str(tmp_path), 4096, num_blocks=4, repeats=1)
    assert found.bandwidth > 0
    assert 0 <= found.latency < 1
    assert not [*tmp_path.iterdir()]
    with pytest.raises(InvalidParameterError, match="disk must be a folder that can be written"):
        measure_disk(str(tmp_path / "gone"), 4096)


# --- with a model ---------------------------------------------------------------------------------

PROMPTS = {
    f"{i}-{j}": [11 + i, *range(20 + 5 * i, 42 + 5 * i), *range(j, 2 * j)]
    for i in range(4)
    for j in (1, 3)
}
PARAMS = SamplingParams(temperature=0, max_tokens=6, ignore_eos=True)


@pytest.fixture(autouse=True)
def no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing takes any time, so every disk is worth waiting for."""
    monkeypatch.setattr(TieringExecutor, "clock", staticmethod(lambda: 0.0))


def make_engine(checkpoint: Path, **config: Any) -> LLMEngine:
    """Blocks of 4, of which two requests fill the device; nothing unwritten may be read."""
    options = {"num_kv_blocks": 22, "kv_offload_bytes": 1 << 20, **config}
    engine = LLMEngine(
        EngineConfig(str(checkpoint), dtype="float32", block_size=4, max_num_seqs=2, **options),
        core_cls=RecoveringCore,
    )
    if isinstance(engine.executor, LocalExecutor):
        for caches in engine.executor.runner.kv_caches:
            for cache in caches:
                cache.fill_(torch.nan)
    return engine


def visit_all(engine: LLMEngine) -> dict[str, Sequence[int]]:
    """The tokens of every prompt."""
    for name, prompt in PROMPTS.items():
        engine.add_request(name, prompt, PARAMS)
    tokens: dict[str, Sequence[int]] = {}
    for _ in range(3000):
        for output in engine.step():
            if output.finished:
                tokens[output.request_id] = output.outputs[0].token_ids
        if not engine.has_unfinished_requests():
            break
    kv = engine.scheduler.kv_cache_manager
    assert kv.num_free_blocks == kv.num_usable_blocks
    return tokens


def connector_of(engine: LLMEngine) -> TierConnector:
    connector = engine.scheduler.kv_cache_manager.connector  # type: ignore[attr-defined]
    assert isinstance(connector, TierConnector)
    return connector


@pytest.fixture(scope="module")
def answers(checkpoint: Path) -> dict[str, Sequence[int]]:
    return visit_all(make_engine(checkpoint, num_kv_blocks=200, kv_offload_bytes=None))


def test_what_left_the_device_comes_back_from_memory_and_disk_and_after_a_restart(
    checkpoint: Path, tmp_path: Path, answers: Any
) -> None:
    for num_bytes in (1 << 20, 1 << 14):
        engine = make_engine(
            checkpoint, kv_offload_bytes=num_bytes, kv_offload_path=tmp_path / str(num_bytes)
        )
        stats = connector_of(engine).stats
        assert visit_all(engine) == answers
        assert stats.num_stored > 20
        before = stats.num_loaded
        assert visit_all(engine) == answers
        assert stats.num_loaded > before
        engine.shutdown()
        assert num_bytes == 1 << 20 or stats.num_read > 0
    again = make_engine(checkpoint, kv_offload_path=tmp_path / str(1 << 20))
    stats = connector_of(again).stats
    assert visit_all(again) == answers
    assert stats.num_read == stats.num_loaded >= 20, "also the last one's"
    assert again.scheduler.prefix_cache_stats.hits >= 4 * stats.num_loaded, "they are hits"
    assert stats.num_failed_reads == 0
    again.reset()  # main memory begins again, and finds the files
    assert visit_all(again) == answers
    assert connector_of(again).stats.num_read >= 20
    again.shutdown()


@pytest.mark.slow
def test_a_trace_shows_who_waits_for_the_disk_and_what_comes_back(
    checkpoint: Path, tmp_path: Path
) -> None:
    engine = make_engine(checkpoint, kv_offload_bytes=1 << 14, kv_offload_path=tmp_path)
    visit_all(engine)
    recorder = TraceRecorder(engine.scheduler)
    engine.listeners.append(recorder)
    visit_all(engine)
    engine.shutdown()
    trace = recorder.to_trace("tiers")
    assert {"loading", "swapped"} <= {mark for row in read_requests(trace) for mark in row.marks}
    drawn = render_timeline(trace, max_bands=1000).plain
    assert "waiting for a load" in drawn
    assert "back from main memory" in drawn


def test_spoilt_files_are_computed_again(checkpoint: Path, tmp_path: Path, answers: Any) -> None:
    engine = make_engine(checkpoint, kv_offload_path=tmp_path)
    visit_all(engine), engine.shutdown()
    paths = [path for path in tmp_path.glob("*/*") if len(path.name) == 64]
    for i, path in enumerate(paths):
        data = bytearray(path.read_bytes())
        data[-1 - i % len(data)] ^= 1 << i % 8
        path.write_bytes(data if i % 2 else data[: len(data) // 2])
    again = make_engine(checkpoint, kv_offload_path=tmp_path)
    assert visit_all(again) == answers
    stats = connector_of(again).stats
    assert (stats.num_read, stats.num_failed_reads > 0) == (0, True)
    again.shutdown()


@pytest.mark.parametrize("ahead", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_device_that_fails_spoils_no_tier(
    checkpoint: Path, tmp_path: Path, answers: Any, silent_log: None, ahead: bool
) -> None:
    """Steps fail once, twice in a row, and so often that requests are run one by one."""
    for i, (period, burst, late) in enumerate(((7, 1, False), (9, 2, True), (9, 3, False))):
        options = {
            **{"kv_offload_bytes": 1 << 14, "kv_offload_path": tmp_path / str(i)},
            "async_scheduling": ahead,
        }
        engine = make_engine(checkpoint, **options)
        name = "launch" if ahead else "execute"
        runner = engine.executor.runner  # type: ignore[attr-defined]
        execute, count = getattr(runner, name), itertools.count()

        def fail(step: Any, execute: Any = execute, count: Any = count) -> Any:
            fails = len(step.req_ids) > 1 and next(count) % period < burst  # noqa: B023
            if fails and not late:  # noqa: B023
                raise RuntimeError
            result = execute(step)
            if fails:
                raise RuntimeError
            return result

        setattr(runner, name, fail)
        for _ in range(2):
            assert visit_all(engine) == answers
        assert connector_of(engine).stats.num_loaded > 0
        engine.shutdown()


@pytest.mark.parametrize(
    "options",
    [
        {"policy": "priority", "max_num_batched_tokens": 7},
        {"async_scheduling": True, "kv_offload_policy": "arc"},
        {"speculative": "ngram"},
        *(
            pytest.param(options, marks=pytest.mark.slow)
            for options in (
                {"async_scheduling": True, "speculative": "ngram"},
                {"scheduler": "prefill_first"},
                {"preemption_mode": "swap", "num_kv_blocks": 11},
                {"scheduler": "warm_first", "kv_offload_bytes": 1 << 20},  # it waits for no disk
                {"cudagraph_mode": "full_and_piecewise", "attention_backend": "torch"},
                {"num_kv_blocks": 9, "watermark": 0.1},
            )
        ),
    ],
    ids=lambda options: " ".join(map(str, options.values())),
)
def test_tiers_go_with_what_else_decides(
    checkpoint: Path, tmp_path: Path, answers: Any, options: dict[str, Any]
) -> None:
    options = {"kv_offload_bytes": 1 << 14, **options}
    engine = make_engine(checkpoint, **options, kv_offload_path=tmp_path)
    for _ in range(2):
        assert visit_all(engine) == answers
    assert connector_of(engine).stats.num_loaded > 0
    engine.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", ["gemma3-window", "mistral-window", "qwen2-window-in-upper-layers"]
)
def test_blocks_of_layers_with_windows_come_back(case: str, tmp_path: Path) -> None:
    write_checkpoint(tmp_path, CASES[case])
    alone = visit_all(make_engine(tmp_path, num_kv_blocks=200, kv_offload_bytes=None))
    engine = make_engine(tmp_path)
    for _ in range(2):
        assert visit_all(engine) == alone
    assert connector_of(engine).stats.num_loaded > 0


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [False, True])
def test_each_rank_has_tiers_of_its_own(
    checkpoint: Path, tmp_path: Path, answers: Any, ahead: bool
) -> None:
    """A file counts if every rank has its part of it."""
    options: dict[str, Any] = {"tensor_parallel_size": 2, "async_scheduling": ahead}
    options |= {"kv_offload_bytes": 1 << 14, "kv_offload_path": tmp_path}
    engine = make_engine(checkpoint, **options)
    for _ in range(2):
        assert visit_all(engine) == answers
    assert connector_of(engine).stats.num_read > 0
    engine.shutdown()
    folders = [path for path in tmp_path.iterdir() if path.is_dir()]
    assert len(folders) == 2
    names = {path.name for path in folders[0].iterdir() if len(path.name) == 64}
    for name in sorted(names)[::2]:  # spoilt for one rank, gone for another
        (folders[len(name) % 2] / name).write_bytes(b"")
    for name in sorted(names)[1::4]:
        (folders[0] / name).unlink()
    again = make_engine(checkpoint, **options)
    assert visit_all(again) == answers
    stats = connector_of(again).stats
    assert stats.num_read > 0
    assert stats.num_failed_reads > 0
    again.shutdown()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"preemption_mode": "cheaper"},
            "preemption_mode must be 'recompute' or 'swap' with kv_offload",
        ),
        ({"kv_offload_policy": "mru"}, "kv_offload_policy must be 'lru' or 'arc', got 'mru'"),
        ({"enable_prefix_caching": False}, "enable_prefix_caching must be True with kv_offload"),
        ({"num_cpu_blocks": 3}, "num_cpu_blocks must be None or 0 with kv_offload_bytes"),
        ({"scheduler": "tenants"}, "needs KVCacheManager, got TenantKVCacheManager"),
        ({"scheduler": "sequence_group"}, "needs KVCacheManager, got GroupKVCacheManager"),
        ({"kv_offload_bytes": 1}, "kv_offload_bytes must be at least 1024, one block"),
        (
            {"kv_offload_bytes": None, "kv_offload_path": "x"},
            "must be None without kv_offload_bytes",
        ),
        (
            {"kv_offload_disk_bytes": 5},
            "kv_offload_disk_bytes must be None without kv_offload_path",
        ),
        ({"kv_offload_bytes": 0}, r"kv_offload_bytes must be None or an integer in \[1, "),
    ],
)
def test_what_does_not_go_together_is_refused_by_name(
    checkpoint: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        make_engine(checkpoint, **options)


def test_more_main_memory_than_there_is_is_refused(checkpoint: Path) -> None:
    with pytest.raises(KVCacheTooLargeError, match="kv_offload_bytes 1,152,921,504,606,846,976"):
        make_engine(checkpoint, kv_offload_bytes=1 << 60)


FORK = multiprocessing.get_context("forkserver")  # imports what an engine needs once
FORK.set_forkserver_preload([__name__])


def write_until_killed(checkpoint: Path, folder: Path, ready: Event) -> None:
    engine = make_engine(checkpoint, kv_offload_bytes=1 << 14, kv_offload_path=str(folder))
    ready.set()
    while True:
        visit_all(engine)
        engine.reset()


@pytest.mark.parametrize(
    "num_moments",
    [
        pytest.param(8, marks=pytest.mark.slow),
        # MOMENTS_OF_DEATH=200 by hand
        pytest.param(int(os.environ.get("MOMENTS_OF_DEATH", "50")), marks=pytest.mark.nightly),
    ],
)
def test_an_engine_that_is_killed_while_it_writes_leaves_no_wrong_text(
    checkpoint: Path, tmp_path: Path, answers: Any, num_moments: int
) -> None:
    for moment in range(num_moments):
        ready = FORK.Event()
        writer = FORK.Process(target=write_until_killed, args=(checkpoint, tmp_path, ready))
        writer.start()
        while not ready.wait(1):
            assert writer.is_alive()
        time.sleep(moment * 8 / num_moments / 50)
        writer.kill()
        writer.join()
        again = make_engine(checkpoint, kv_offload_path=tmp_path)
        assert visit_all(again) == answers
        assert connector_of(again).stats.num_failed_reads == 0
        again.shutdown()
