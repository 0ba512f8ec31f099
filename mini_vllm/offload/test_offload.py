"""Preemption by swapping: same tokens, nothing computed twice, nothing lost, whatever happens in
between.

The state machine drives the worlds of test_core_properties with a model of what every device block
and every CPU block holds. The tests with an engine run a random Qwen3 with sharp logits (fixture
checkpoint) in which whatever was not written is not a number.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.config import EngineConfig
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.recovery import RecoveringCore
from mini_vllm.errors import InvalidParameterError, UnknownParameterError
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.observe.trace import describe_config, run_trace
from mini_vllm.offload.connector import Lookup
from mini_vllm.offload.cost import PreemptionCost
from mini_vllm.offload.host_memory import HostMemoryConnector, HostMemoryPool
from mini_vllm.offload.manager import OffloadingKVCacheManager
from mini_vllm.params import SamplingParams
from mini_vllm.policies import registry
from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler, SchedulerOutput
from mini_vllm.step import KVPlan, KVResult
from mini_vllm.test_core_properties import (
    CHOICES,
    DOMAINS,
    EXAMPLES,
    PROMPTS,
    SALTS,
    Cache,
    Options,
    StepWorld,
    check_pool,
    explore,
    prefix,
)
from mini_vllm.worker.preemption_cost import measure_preemption_cost

# --- the scheduler, with a model of what every block holds ----------------------------------------

MANY = 60  # more CPU blocks than six requests of these worlds ever hold
FOUR_TOKENS = {
    "seconds_per_token": 1.0,
    "seconds_per_pair": 0.0,
    "bytes_per_token": 0.0,
    "seconds_per_copy": 2.0,
}


class SwapCache(Cache):
    """The shadow of the device's slots, and that of the CPU pool's."""

    kv: OffloadingKVCacheManager

    def __init__(self, kv: OffloadingKVCacheManager) -> None:
        super().__init__(kv)
        self.cpu_slots: dict[tuple[int, int], Any] = {}

    @property
    def memory(self) -> HostMemoryConnector:
        assert isinstance(self.kv.connector, HostMemoryConnector)
        return self.kv.connector

    def copy(self, plan: KVPlan) -> None:
        for block, cpu_block in plan.swap_out:
            for offset in range(self.kv.block_size):
                self.cpu_slots[cpu_block, offset] = self.slots.get((block, offset))
        for cpu_block, block in plan.swap_in:
            for offset in range(self.kv.block_size):
                self.slots[block, offset] = self.cpu_slots[cpu_block, offset]

    def look_up(self, request: Request) -> tuple[list[KVCacheBlock], int]:
        """What the device has is the longest prefix there; the CPU pool may have more tokens."""
        num_swapped = self.memory._num_tokens.pop(request.request_id, 0)
        blocks, num_computed = super().look_up(request)
        if num_swapped:
            self.memory._num_tokens[request.request_id] = num_swapped
            assert self.kv.get_computed_blocks(request) == (blocks, max(num_computed, num_swapped))
        return blocks, max(num_computed, num_swapped)


class SwapWorld(StepWorld):
    """A StepWorld whose KV cache manager swaps."""

    kv: OffloadingKVCacheManager
    cache: SwapCache

    def __init__(self, options: Options, preemption_mode: str, num_cpu_blocks: int) -> None:
        super().__init__(
            options,
            preemption_mode=preemption_mode,
            num_cpu_blocks=num_cpu_blocks,
            preemption_cost=FOUR_TOKENS,
        )
        self.cache = SwapCache(self.kv)
        self.swapped: dict[str, int] = {}  # before the step
        self.computed: Counter[tuple[str, int]] = Counter()  # how often each position was
        self.failed = False
        self.num_copied = 0

    def schedule(self) -> SchedulerOutput:
        self.swapped = dict(self.cache.memory._num_tokens)
        output = super().schedule()
        out, into = self.plan.swap_out, self.plan.swap_in
        for pairs in (out, into):  # a block is the target of one copy
            assert len({target for _, target in pairs}) == len(pairs)
        assert 0 not in {block for block, _ in out} | {block for _, block in into}
        return output

    def check_hit(self, request: Request) -> None:
        """The laws of a hit hold for the device's share; the counter starts where the CPU pool's
        prefix ends.
        """
        start = request.num_computed_tokens
        hit = request.num_computed_tokens = start - self.kv.num_external_tokens(request)
        super().check_hit(request)
        request.num_computed_tokens = start
        assert start == max(hit, self.swapped.get(request.request_id, 0))

    def check_work_is_conserved(self, output: Any, stayed: Any, preempted: Any) -> None:
        head = self.scheduler.waiting[0] if self.scheduler.waiting else None
        if (
            head
            and head.request_id in self.cache.memory._num_tokens
            and not self.kv.enable_prefix_caching
        ):
            return  # there the base class expects a start from 0
        super().check_work_is_conserved(output, stayed, preempted)

    def cache_write(self, output: SchedulerOutput) -> None:
        self.cache.copy(self.plan)
        self.num_copied += len(self.plan.swap_in)
        super().cache_write(output)
        for request in output.scheduled_requests:
            start, n = request.num_computed_tokens, output.num_scheduled_tokens[request.request_id]
            self.computed.update(
                (request.request_id, position) for position in range(start, start + n)
            )
        if self.kv.preemption_mode == "swap" and self.kv.num_cpu_blocks == MANY and not self.failed:
            # nothing is computed twice
            assert not self.computed or max(self.computed.values()) == 1

    def fail(self, aborts: Sequence[int] = (), copied: bool = False) -> None:
        """copied: the step fails after its copies."""
        self.failed = True
        output = self.schedule()
        if copied:
            self.cache.copy(self.plan)
        for choice in aborts:
            self.abort(choice, unwritten=True)
        self.scheduler.fail_step(output)
        self.kv.end_step(None)
        for request in output.scheduled_requests:
            if not request.is_finished:
                assert (request.status, request.num_computed_tokens) == (RequestStatus.PREEMPTED, 0)
                kept = self.cache.memory._num_tokens.get(request.request_id)
                # what was in the pool before, or nothing
                assert kept in (None, self.swapped.get(request.request_id))
        self.check()

    def preempt(self) -> None:
        """A preemption between two steps."""
        if self.scheduler.running:
            self.scheduler._preempt(self.scheduler._pop_victim())
        self.check()

    def drain(self) -> None:
        super().drain()
        assert self.cache.memory.pool.num_free_blocks == self.kv.num_cpu_blocks

    def check(self, unwritten: bool = False) -> None:
        super().check(unwritten)
        kv, memory = self.kv, self.cache.memory
        # between steps nobody is on the way in
        assert unwritten or kv._loads == memory._loading == {}
        tables = {
            request_id: memory.pool.get_block_ids(request_id) for request_id in memory._num_tokens
        }
        held = [block for table in tables.values() for block in table]
        assert len(set(held)) == len(held)
        assert sorted(held + memory.pool._free) == list(range(kv.num_cpu_blocks))
        for request_id, num_tokens in memory._num_tokens.items():
            request = self.live[request_id]
            assert unwritten or request.status is RequestStatus.PREEMPTED
            assert len(tables[request_id]) == -(-num_tokens // kv.block_size)
            if request_id not in memory._saving:  # else the copy is still to be made
                for p in range(num_tokens):
                    slot = tables[request_id][p // kv.block_size], p % kv.block_size
                    assert self.cache.cpu_slots[slot] == prefix(request, p + 1)


OPERATIONS = (
    ("step",) * 8
    + ("add",) * 4
    + ("preempt",) * 2
    + ("abort", "step and abort", "fail", "fail late")
)


CROWDED = {**DOMAINS, "num_blocks": (4, 6, 9), "max_num_seqs": (2, 3, 5), "max_model_len": (None,)}


class SwapMachine(RuleBasedStateMachine):
    """Little memory and mostly steps, so that requests live long enough to be swapped out and to
    come back.
    """

    @initialize(
        options=st.builds(
            Options, **{name: st.sampled_from(domain) for name, domain in CROWDED.items()}
        ),
        prompts=st.lists(PROMPTS, min_size=3, max_size=3),
        preemption_mode=st.sampled_from(("swap", "swap", "cheaper")),
        num_cpu_blocks=st.sampled_from((MANY, MANY, 0, 1, 3, 6)),
    )
    def begin(
        self, options: Options, prompts: list[list[int]], preemption_mode: str, num_cpu_blocks: int
    ) -> None:
        self.world = SwapWorld(options, preemption_mode, num_cpu_blocks)
        for prompt in prompts:
            self.world.add(prompt, None, max_tokens=12, priority=len(prompt) % 3, ignore_eos=True)

    @rule(
        operation=st.sampled_from(OPERATIONS),
        prompt=PROMPTS,
        salt=st.sampled_from(SALTS),
        priority=st.integers(0, 2),
        choice=CHOICES,
    )
    def operate(
        self, operation: str, prompt: list[int], salt: str | None, priority: int, choice: int
    ) -> None:
        world = self.world
        if operation == "add" or not world.live:
            if len(world.live) < 6:
                world.add(prompt, salt, max_tokens=12, priority=priority, ignore_eos=choice > 0)
        elif operation == "preempt":
            world.preempt()
        elif operation == "abort":
            world.abort(choice)
        elif operation.startswith("fail"):
            world.fail([choice] if choice < 2 else [], copied=operation == "fail late")
        else:
            world.step([choice] if operation == "step and abort" else [])

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.drain()
            NUM_COPIED[0] += self.world.num_copied


NUM_COPIED = [0]  # blocks that came back, in all examples


@pytest.mark.slow
def test_laws_of_the_swapping_scheduler() -> None:
    NUM_COPIED[0] = 0
    explore(SwapMachine, 25)
    assert NUM_COPIED[0] > EXAMPLES // 4  # the positive control


@pytest.mark.nightly
def test_laws_of_the_swapping_scheduler_at_length() -> None:
    explore(SwapMachine, 1000)


# --- the scheduler, step by step ------------------------------------------------------------------


NOTHING = KVResult()
KV_OPTIONS = ("enable_prefix_caching", "preemption_mode", "preemption_cost", "connector")


def make_scheduler(num_blocks: int = 9, num_cpu_blocks: int = 20, **options: Any) -> Scheduler:
    """Blocks of 2 slots."""
    kv_options = {name: options.pop(name) for name in KV_OPTIONS if name in options}
    kv = OffloadingKVCacheManager(num_blocks, 2, num_cpu_blocks=num_cpu_blocks, **kv_options)
    return Scheduler(kv, **{"max_num_seqs": 8, "max_num_batched_tokens": 100, **options})


def pool_of(scheduler: Scheduler) -> HostMemoryPool:
    kv = scheduler.kv_cache_manager
    assert isinstance(kv, OffloadingKVCacheManager)
    assert isinstance(kv.connector, HostMemoryConnector)
    return kv.connector.pool


def begin(scheduler: Scheduler) -> tuple[SchedulerOutput, KVPlan]:
    return scheduler.schedule(), scheduler.kv_cache_manager.begin_step()


def end(scheduler: Scheduler, output: SchedulerOutput, result: KVResult | None = NOTHING) -> None:
    """The step went well, and every request that is to be sampled gets a 0; None: it failed."""
    if result is None:
        scheduler.fail_step(output)
        scheduler.kv_cache_manager.end_step(None)
        return
    samples = [
        r
        for r in output.scheduled_requests
        if scheduler.needs_sample(r, output.num_scheduled_tokens[r.request_id])
    ]
    scheduler.kv_cache_manager.end_step(result)
    scheduler.update_from_output(output, {request.request_id: [0] for request in samples})


def step(scheduler: Scheduler) -> tuple[SchedulerOutput, KVPlan]:
    output, plan = begin(scheduler)
    end(scheduler, output)
    return output, plan


def add(
    scheduler: Scheduler, request_id: str, prompt: Sequence[int], max_tokens: int = 20
) -> Request:
    request = Request(request_id, prompt, SamplingParams(max_tokens=max_tokens))
    scheduler.add_request(request)
    return request


def test_only_what_lies_behind_the_prefix_hit_comes_from_the_cpu_pool() -> None:
    scheduler = make_scheduler()
    victim = add(scheduler, "a", [1, 2, 3, 4, 5, 6, 7])
    step(scheduler)
    scheduler._preempt(scheduler.running.pop())
    # The next step copies out first; on the device three full blocks can still be found, the fourth
    # cannot.
    output, plan = step(scheduler)
    assert plan.swap_out == ((1, 0), (2, 1), (3, 2), (4, 3))
    assert plan.swap_in == ((3, 4),)
    assert output.num_scheduled_tokens == {"a": 1}
    assert victim.num_computed_tokens == 8
    assert scheduler.preempted_prefix_cache_stats.hits == 6
    assert pool_of(scheduler).num_free_blocks == 20


def crowded() -> tuple[Scheduler, SchedulerOutput]:
    """A device full of "a" and "b" after one step, and a second one that preempts "b", 8 tokens in
    4 blocks.
    """
    scheduler = make_scheduler(enable_prefix_caching=False)
    add(scheduler, "a", [1, 2, 3, 4, 5, 6, 7])
    add(scheduler, "b", [9] * 8)
    step(scheduler)
    output, plan = begin(scheduler)
    assert output.preempted_req_ids == ["b"]
    assert plan.swap_out == ((5, 0), (6, 1), (7, 2), (8, 3))
    return scheduler, output


def test_what_a_failed_step_was_to_swap_out_is_computed_again() -> None:
    scheduler, output = crowded()
    end(scheduler, output, None)
    assert pool_of(scheduler).num_free_blocks == 20
    output, plan = step(scheduler)
    assert output.num_scheduled_tokens == {"a": 8}
    assert not plan


def test_what_a_failed_step_was_to_swap_in_is_still_in_the_pool() -> None:
    scheduler, output = crowded()
    end(scheduler, output)
    scheduler.abort_request("a")
    space = pool_of(scheduler)
    for _ in range(3):
        output, plan = begin(scheduler)
        assert output.num_scheduled_tokens == {"b": 1}
        assert len(plan.swap_in) == 4
        end(scheduler, output, None)
        assert space.num_free_blocks == 16
        assert scheduler.kv_cache_manager.num_free_blocks == 8
    step(scheduler)
    assert space.num_free_blocks == 20
    assert step(scheduler)[0].num_scheduled_tokens == {"b": 1}


def test_what_a_failed_step_was_to_swap_in_cannot_be_found() -> None:
    """Whether its request still lives or was aborted meanwhile: the blocks were published, and
    nobody wrote them.
    """
    for abort in (False, True):
        scheduler = make_scheduler()
        add(scheduler, "a", [1, 2, 3, 4, 5, 6, 7])
        add(scheduler, "b", [9] * 8)
        while scheduler.kv_cache_manager.num_free_blocks or len(scheduler.running) > 1:
            step(scheduler)  # until "b" is in the pool and "a" in every block
        scheduler.abort_request("a")
        output, plan = begin(scheduler)
        assert len(plan.swap_in) == 4
        if abort:
            scheduler.abort_request("b")
        end(scheduler, output, None)
        again = Request("c", [9] * 9, SamplingParams())
        assert scheduler.kv_cache_manager.get_computed_blocks(again) == ([], 0)


def test_a_hit_that_is_longer_than_what_was_swapped_out() -> None:
    scheduler = make_scheduler(
        num_blocks=20, max_num_batched_tokens=5, max_num_seqs=1, policy="priority"
    )
    victim = add(scheduler, "a", list(range(10)))
    step(scheduler)
    scheduler._preempt(scheduler.running.pop())
    other = Request("b", list(range(10)), SamplingParams(), priority=-1)
    scheduler.add_request(other)  # it overtakes, and leaves five blocks behind
    while not other.output_token_ids:
        step(scheduler)
    scheduler.abort_request("b")
    output, plan = begin(scheduler)
    assert output.num_scheduled_tokens == {"a": 2}
    assert plan.swap_in == ()
    end(scheduler, output)
    assert victim.num_computed_tokens == 10
    assert pool_of(scheduler).num_free_blocks == 20


@pytest.mark.parametrize(
    "when",
    ["before it comes back", "while it comes back", "while it comes back, and the step fails"],
)
def test_a_swapped_request_that_is_aborted_holds_nothing(when: str) -> None:
    scheduler, output = crowded()
    end(scheduler, output)
    scheduler.abort_request("a")
    if when != "before it comes back":
        output, plan = begin(scheduler)
        assert plan.swap_in
    scheduler.abort_request("b")
    end(scheduler, output, None if "fails" in when else NOTHING)
    assert pool_of(scheduler).num_free_blocks == 20
    assert scheduler.kv_cache_manager.num_free_blocks == 8
    assert not scheduler.has_unfinished_requests()


@pytest.mark.parametrize(("num_cpu_blocks", "num_swapped"), [(0, 0), (3, 0), (4, 4)])
def test_a_victim_that_does_not_fit_into_the_pool_is_computed_again(
    num_cpu_blocks: int, num_swapped: int
) -> None:
    scheduler = make_scheduler(num_cpu_blocks=num_cpu_blocks, enable_prefix_caching=False)
    add(scheduler, "a", [1, 2, 3, 4, 5, 6, 7])
    add(scheduler, "b", [9] * 8)
    step(scheduler)
    output, plan = step(scheduler)
    assert (output.preempted_req_ids, len(plan.swap_out)) == (["b"], num_swapped)
    scheduler.abort_request("a")
    assert step(scheduler)[0].num_scheduled_tokens == {"b": 1 if num_swapped else 9}


def test_a_prompt_comes_back_where_its_chunks_were() -> None:
    scheduler = make_scheduler(max_num_batched_tokens=5, enable_prefix_caching=False)
    add(scheduler, "a", [1, 2, 3, 4])
    victim = add(scheduler, "b", list(range(10)))
    step(scheduler), step(scheduler)
    assert victim.num_computed_tokens == 5  # in the middle of a block
    scheduler._preempt(scheduler.running.pop())
    output, plan = step(scheduler)
    assert output.num_scheduled_tokens == {"a": 1, "b": 4}
    assert len(plan.swap_out) == len(plan.swap_in) == 3
    assert victim.num_computed_tokens == 9


def test_the_cheaper_of_both_is_chosen_for_each_victim() -> None:
    scheduler = make_scheduler(
        preemption_mode="cheaper", preemption_cost=FOUR_TOKENS, enable_prefix_caching=False
    )
    add(scheduler, "short", [1, 2, 3, 4])
    add(scheduler, "long", [1, 2, 3, 4, 5])
    step(scheduler)
    for request in list(scheduler.running):
        scheduler._preempt(request)
    scheduler.running.clear()
    output, plan = step(scheduler)
    assert output.num_scheduled_tokens == {"long": 1, "short": 5}
    assert [block for _, block in plan.swap_out] == [0, 1, 2]


SCENARIO = {
    "config": {
        "block_size": 2, "num_blocks": 9, "max_num_seqs": 4, "max_num_batched_tokens": 8,
        "enable_prefix_caching": False
    },
    "requests": [{"id": i, "prompt": [1, 2, 3], "max_tokens": 8,
    "sample_seed": ord(i)} for i in "abcd"],
}  # fmt: skip


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_a_trace_shows_the_copies_and_the_same_tokens(policy: str) -> None:
    config = {**SCENARIO["config"], "policy": policy}
    plain = run_trace({**SCENARIO, "config": config})
    swapped = run_trace(
        {**SCENARIO, "config": {**config, "preemption_mode": "swap", "num_cpu_blocks": 20}}
    )
    assert swapped["outputs"] == plain["outputs"]
    for name in ("swapped_out", "swapped_in"):
        assert sum(len(record.get(name, ())) for record in swapped["steps"]) > 5
    assert (
        swapped["totals"]["scheduled_tokens"]
        == 4 * (3 + 8 - 1)
        < plain["totals"]["scheduled_tokens"]
    )


def test_the_mode_chooses_the_manager_and_not_the_scheduler() -> None:
    for name in registry.SCHEDULERS:
        scheduler_cls = registry.get_scheduler_cls(name)
        own = scheduler_cls.kv_cache_manager_cls
        assert registry.get_kv_cache_manager_cls(scheduler_cls, "recompute") is own
        swaps = (
            own if name in ("sequence_group", "nano_vllm", "tenants") else OffloadingKVCacheManager
        )  # they need their own
        for mode in ("swap", "cheaper"):
            assert registry.get_kv_cache_manager_cls(scheduler_cls, mode) is swaps
    config = {"preemption_mode": "cheaper", "num_cpu_blocks": 20, "preemption_cost": FOUR_TOKENS}
    scheduler = make_scheduler(**config)
    described = describe_config(scheduler)
    assert {name: described[name] for name in config} == config
    assert "scheduler" not in described


@pytest.mark.parametrize("name", ["v1", "prefill_first", "warm_first"])
@pytest.mark.parametrize("mode", ["swap", "cheaper"])
def test_a_scheduler_of_the_family_swaps_and_says_the_same(name: str, mode: str) -> None:
    config = {**SCENARIO["config"], "scheduler": name}
    plain = run_trace({**SCENARIO, "config": config})
    swapped = run_trace(
        {
            **SCENARIO,
            "config": {
                **config,
                "preemption_mode": mode,
                "num_cpu_blocks": 20,
                "preemption_cost": FOUR_TOKENS,
            },
        }
    )
    assert swapped["outputs"] == plain["outputs"]
    assert any(record.get("swapped_in") for record in swapped["steps"])
    assert swapped["totals"]["scheduled_tokens"] < plain["totals"]["scheduled_tokens"]


def test_bad_options_are_refused() -> None:
    with pytest.raises(InvalidParameterError, match="'swap' or 'cheaper' here, got 'recompute'"):
        OffloadingKVCacheManager(9, 2, preemption_mode="recompute")
    with pytest.raises(InvalidParameterError, match="num_cpu_blocks must be at least 0, got -1"):
        OffloadingKVCacheManager(9, 2, num_cpu_blocks=-1)
    options = {"num_blocks": 9, "block_size": 2, "max_num_seqs": 1, "max_num_batched_tokens": 1}
    for name, manager_cls in (("v1", KVCacheManager), ("sequence_group", None)):
        with pytest.raises(
            InvalidParameterError, match="has no option preemption_mode, got 'swap'"
        ):
            registry.make_scheduler(
                {**options, "scheduler": name, "preemption_mode": "swap"},
                kv_cache_manager_cls=manager_cls,
            )
    with pytest.raises(InvalidParameterError, match="bandwidth must be above 0, got 0"):
        EngineConfig("tiny", preemption_mode="cheaper", preemption_cost={"bandwidth": 0})


# --- a trial: a connector whose loads arrive late -------------------------------------------------


class LateConnector(HostMemoryConnector):
    """What was saved lies far away: it is fetched when it is asked for, and arrives in main memory
    steps later.
    """

    def __init__(self, num_blocks: int) -> None:
        super().__init__(num_blocks)
        self.fetching: dict[str, None] = {}
        self.ready: set[str] = set()

    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> Lookup:
        num_tokens, _ = super().get_num_new_matched_tokens(request, num_computed_tokens)
        is_ready = not num_tokens or request.request_id in self.ready
        if not is_ready:
            self.fetching[request.request_id] = None
        return Lookup(num_tokens, is_ready)

    def begin_step(self) -> KVPlan:
        return replace(super().begin_step(), connector=tuple(self.fetching) or None)

    def end_step(self, result: KVResult | None) -> None:
        for request_id in result.loaded_req_ids if result else ():
            self.fetching.pop(request_id)
            self.ready.add(request_id)
        super().end_step(result)

    def _forget(self, request_id: str) -> None:
        super()._forget(request_id)
        self.fetching.pop(request_id, None)
        self.ready.discard(request_id)


class PatientScheduler(Scheduler):
    """A request that waits for its load is passed over."""

    kv_cache_manager: OffloadingKVCacheManager

    def _next_waiting(self) -> Request | None:
        return next(
            (request for request in self.waiting if self.kv_cache_manager.is_ready(request)), None
        )


@pytest.mark.parametrize("abort", [False, True])
def test_who_waits_for_a_late_load_is_passed_over_and_starts_from_it(abort: bool) -> None:
    connector = LateConnector(20)
    kv = OffloadingKVCacheManager(9, 2, connector=connector, enable_prefix_caching=False)
    scheduler = PatientScheduler(kv, max_num_seqs=2, max_num_batched_tokens=100)
    late = add(scheduler, "late", [1, 2, 3, 4, 5, 6, 7])
    step(scheduler)
    scheduler._preempt(scheduler.running.pop())
    others = [add(scheduler, name, [9, 8, 7], max_tokens=4) for name in "ab"]
    # the fetch takes that many steps, and the other requests go on meanwhile
    for number in range(3):
        output, plan = begin(scheduler)
        assert output.num_scheduled_tokens == (
            {"a": 3, "b": 3} if number == 0 else {"a": 1, "b": 1}
        )
        assert plan.connector == (("late",) if number else plan.connector)
        assert late.status is RequestStatus.PREEMPTED
        check_pool(kv.block_pool, [kv.get_block_ids(name) for name in "ab"])
        end(scheduler, output, KVResult(loaded_req_ids=("late",) if number == 2 else ()))
    if abort:
        scheduler.abort_request("late")
    output, plan = step(scheduler)
    assert all(request.is_finished for request in others)
    assert plan.connector is None
    if not abort:
        output, plan = step(scheduler)
        assert output.num_scheduled_tokens == {"late": 1}, "it starts from what was loaded"
        assert len(plan.swap_in) == 4
        assert late.num_computed_tokens == 8
        scheduler.abort_request("late")
    assert not scheduler.has_unfinished_requests()
    assert (kv.num_free_blocks, connector.pool.num_free_blocks) == (8, 20)
    assert (connector.fetching, connector.ready, kv._loads) == ({}, set(), {})


# --- what a preemption costs ----------------------------------------------------------------------


def test_the_worked_example_of_the_default() -> None:
    cost = PreemptionCost()
    assert cost.recompute(1000) == pytest.approx(31e-3, abs=1e-3)
    assert cost.swap(1000) == pytest.approx(6e-3, abs=1e-3)
    assert (cost.swap_is_cheaper(77), cost.swap_is_cheaper(78)) == (False, True)
    assert cost.crossover == pytest.approx(77, abs=1)


FIGURES = st.floats(0, 1e-3)


@settings(derandomize=True, database=None, deadline=None)
@given(
    per_token=FIGURES,
    per_pair=FIGURES,
    per_byte=FIGURES,
    per_copy=FIGURES,
    num_tokens=st.integers(1, 10**6),
)
def test_swapping_is_cheaper_from_the_crossover_on(
    per_token: float, per_pair: float, per_byte: float, per_copy: float, num_tokens: int
) -> None:
    cost = PreemptionCost(per_token, per_pair, 1, 1 / max(per_byte, 1e-9), per_copy)
    if math.isclose(cost.recompute(num_tokens), cost.swap(num_tokens), rel_tol=1e-6):
        return
    assert cost.swap_is_cheaper(num_tokens) == (num_tokens > cost.crossover)


@pytest.mark.parametrize("value", [-1, math.inf, math.nan, "1", None])
def test_figures_must_be_finite_and_not_negative(value: Any) -> None:
    with pytest.raises(
        InvalidParameterError, match="PreemptionCost: seconds_per_copy must be a finite number"
    ):
        PreemptionCost(seconds_per_copy=value)
    with pytest.raises(UnknownParameterError, match="did you mean 'seconds_per_copy'"):
        PreemptionCost(seconds_per_copie=1)  # type: ignore[call-arg]


# --- with a model ---------------------------------------------------------------------------------

MakeEngine = Callable[..., LLMEngine]
Tokens = dict[str, tuple[int, ...]]

SHARED = [11, 12, 13, 14, 15, 16, 17, 18, 19]
PROMPTS = {
    "a": [*SHARED, 20, 21],
    "b": [*SHARED, 30, 31, 32, 33],
    "c": [70],
    "d": list(range(40, 56)),
}
PARAMS = {
    "a": SamplingParams(temperature=0, max_tokens=8, ignore_eos=True),
    "b": SamplingParams(temperature=1.0, seed=5, max_tokens=9, ignore_eos=True),
    "c": SamplingParams(temperature=0.8, seed=6, max_tokens=12, ignore_eos=True),
    "d": SamplingParams(temperature=0, max_tokens=6, ignore_eos=True, repetition_penalty=1.2),
}
# each token computed once
MINIMUM = sum(len(PROMPTS[name]) + PARAMS[name].max_tokens - 1 for name in PROMPTS)


@pytest.fixture
def make_engine(checkpoint: Path) -> MakeEngine:
    """Engines with blocks of 4 and little memory; nothing that was not written may be read."""

    def make(model: str = str(checkpoint), **config: Any) -> LLMEngine:
        options = {
            "block_size": 4,
            "num_kv_blocks": 9,
            "preemption_mode": "swap",
            "num_cpu_blocks": 40,
            **config,
        }
        engine = LLMEngine(EngineConfig(model, dtype="float32", **options), core_cls=RecoveringCore)
        for key, value in (
            *engine.executor.runner.kv_caches,
            *engine.executor.runner.cache_engine.cpu_caches,
        ):
            key.fill_(torch.nan), value.fill_(torch.nan)
        return engine

    return make


def add_all(engine: LLMEngine) -> None:
    for priority, (name, prompt) in enumerate(PROMPTS.items()):
        engine.add_request(
            name, prompt, PARAMS[name], priority=-priority, arrival_time=float(priority)
        )


class Run:
    """Steps an engine until nothing is in flight, and adds up what its steps did."""

    def __init__(self, engine: LLMEngine) -> None:
        self.engine = engine
        self.tokens: Tokens = {}
        self.num_computed = self.num_preempted = self.num_out = self.num_in = 0

    def step(self) -> None:
        outputs = self.engine.step()
        self.tokens |= {
            output.request_id: tuple(output.outputs[0].token_ids)
            for output in outputs
            if output.finished
        }
        stats = self.engine.stats
        assert stats is not None
        self.num_computed += stats.num_scheduled_tokens
        self.num_preempted += stats.num_preempted_reqs
        self.num_out += stats.num_swapped_out_blocks
        self.num_in += stats.num_swapped_in_blocks

    def finish(self) -> Tokens:
        for _ in range(500):
            if not self.engine.has_unfinished_requests():
                break
            self.step()
        assert_idle(self.engine)
        return self.tokens


def assert_idle(engine: LLMEngine) -> None:
    """Every block is free, on the device and in the CPU pool, and no map remembers a request."""
    kv = engine.scheduler.kv_cache_manager
    assert kv.num_free_blocks == kv.num_usable_blocks
    assert all(block.ref_cnt == 0 for block in kv.block_pool.blocks)
    assert not engine.has_unfinished_requests()
    assert kv._tables == {}
    if isinstance(kv, OffloadingKVCacheManager):
        memory = kv.connector
        assert isinstance(memory, HostMemoryConnector)
        assert memory.pool.num_free_blocks == engine.kv_cache_plan.num_cpu_blocks
        assert [memory._num_tokens, memory._saving, memory._loading, kv._loads] == [{}] * 4


@pytest.fixture(scope="module")
def expected(checkpoint: Path) -> Tokens:
    """In a cache that holds everything."""
    engine = LLMEngine(EngineConfig(str(checkpoint), dtype="float32", num_kv_blocks=200))
    add_all(engine)
    return Run(engine).finish()


LATTICE = list(
    itertools.product(
        ("swap", "cheaper"), (False, True), ("fcfs", "priority"), (3, 64), (1, 3, 4), (0, 9, 60)
    )
)


@pytest.mark.parametrize("stride", [47, pytest.param(1, marks=pytest.mark.nightly)])
def test_no_token_changes_and_none_is_computed_twice(
    make_engine: MakeEngine, expected: Tokens, stride: int
) -> None:
    num_swapped = 0
    for mode, caching, policy, budget, block_size, num_cpu_blocks in LATTICE[::stride]:
        shared: dict[str, Any] = {
            "block_size": block_size,
            "num_kv_blocks": 32 // block_size + 1,
            "max_num_batched_tokens": budget,
            "enable_prefix_caching": caching,
            "policy": policy,
        }
        plain = Run(make_engine(**shared, preemption_mode="recompute", num_cpu_blocks=0))
        swapping = Run(
            make_engine(
                **shared,
                preemption_mode=mode,
                num_cpu_blocks=num_cpu_blocks,
                preemption_cost=FOUR_TOKENS,
            )
        )
        for run in (plain, swapping):
            add_all(run.engine)
            assert run.finish() == expected
        num_swapped += swapping.num_in
        assert num_cpu_blocks or not swapping.num_out
        # hits depend on who is evicted, not on the mode
        assert swapping.num_computed <= plain.num_computed or caching
        if mode == "swap" and num_cpu_blocks == 60:
            assert swapping.num_computed <= MINIMUM
            if not caching:
                assert (swapping.num_in > 0) == (swapping.num_preempted > 0)
                assert swapping.num_computed == MINIMUM
                assert (plain.num_computed > MINIMUM) == (plain.num_preempted > 0)
    assert num_swapped > 100 // stride


def test_the_bundled_model_says_the_same(make_engine: MakeEngine) -> None:
    modes = ("recompute", "swap", "cheaper")
    runs = {
        mode: Run(make_engine("tiny", preemption_mode=mode, num_cpu_blocks=None)) for mode in modes
    }
    for run in runs.values():
        add_all(run.engine)
        run.finish()
    assert runs["swap"].tokens == runs["cheaper"].tokens == runs["recompute"].tokens
    assert runs["swap"].num_in > 0
    assert runs["swap"].num_computed < runs["recompute"].num_computed


@pytest.mark.parametrize(
    ("num_kv_blocks", "caching"),
    [
        (9, False),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in ((9, True), (30, False), (30, True))
        ),
    ],
)
def test_trap_23_24_swapped_out_at_every_step(
    make_engine: MakeEngine, expected: Tokens, num_kv_blocks: int, caching: bool
) -> None:
    """Requests go out after step k, every other one, and come back; a budget of 7 lets that be
    within a prompt.
    """
    for k in itertools.count(1, 2):
        run = Run(
            make_engine(
                num_kv_blocks=num_kv_blocks, enable_prefix_caching=caching, max_num_batched_tokens=7
            )
        )
        add_all(run.engine)
        for _ in range(k):
            run.step()
        scheduler = run.engine.scheduler
        if not scheduler.has_unfinished_requests():
            assert k > 12
            break
        while scheduler.running:
            scheduler._preempt(scheduler.running.pop())
        assert run.finish() == expected, k
        assert run.num_in > 0
        assert caching or run.num_computed == MINIMUM


@pytest.mark.parametrize(
    ("late", "num_cpu_blocks", "caching"),
    [
        pytest.param(*case, marks=pytest.mark.slow if case[1] == 40 else pytest.mark.nightly)
        for case in itertools.product((False, True), (5, 40), (False, True))
    ],
)
def test_a_step_that_raises_loses_nothing(
    make_engine: MakeEngine, expected: Tokens, late: bool, num_cpu_blocks: int, caching: bool
) -> None:
    """Step k fails, before its copies or after its model; then every third one for a while."""
    for k in itertools.count():
        run = Run(make_engine(num_cpu_blocks=num_cpu_blocks, enable_prefix_caching=caching))
        execute, count, failed = run.engine.executor.runner.execute, itertools.count(), []

        def fail(
            step: Any, execute: Any = execute, count: Any = count, failed: Any = failed, k: int = k
        ) -> Any:
            n = next(count)
            fails = n == k or (n > k and n % 3 == 0 and n < k + 12)
            if fails:
                failed.append(n)
            if fails and not late:
                raise RuntimeError
            sampled = execute(step)
            if fails:
                raise RuntimeError
            return sampled

        run.engine.executor.runner.execute = fail  # type: ignore[method-assign]
        add_all(run.engine)
        assert run.finish() == expected, k
        if not failed:
            assert k > 12
            break


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name == "d" else pytest.mark.nightly)
        for name in "abd"
    ],
)
def test_an_abort_at_any_moment_leaves_nothing_behind(
    make_engine: MakeEngine, expected: Tokens, name: str
) -> None:
    for k in range(0, 18, 2):
        for during in (False, True):
            run = Run(make_engine())
            add_all(run.engine)
            execute, count = run.engine.executor.runner.execute, itertools.count()

            def abort(
                step: Any, run: Run = run, execute: Any = execute, count: Any = count, k: int = k
            ) -> Any:
                if next(count) == k:
                    run.engine.scheduler.abort_request(name)
                return execute(step)

            if during:
                run.engine.executor.runner.execute = abort  # type: ignore[method-assign]
            for _ in range(k):
                run.step()
            if not during:
                run.engine.abort(name)
            others = {
                request_id: tokens
                for request_id, tokens in run.finish().items()
                if request_id != name
            }
            assert others == {
                request_id: expected[request_id] for request_id in PROMPTS if request_id != name
            }, k


def test_what_a_preemption_costs_is_measured_when_the_engine_starts(
    make_engine: MakeEngine,
) -> None:
    engine = make_engine(preemption_mode="cheaper", num_kv_blocks=40)
    kv = engine.scheduler.kv_cache_manager
    assert isinstance(kv, OffloadingKVCacheManager)
    cost = kv.cost
    assert engine.config.preemption_cost == kv.preemption_cost
    assert cost.bytes_per_token == 2 * 2 * 2 * 8 * 4  # K and V, layers, heads, head_dim, float32
    default = PreemptionCost()
    assert cost.seconds_per_token != default.seconds_per_token
    assert cost.bandwidth != default.bandwidth
    too_short = measure_preemption_cost(engine.executor, engine.kv_cache_plan, max_tokens=3)
    assert too_short.seconds_per_token == default.seconds_per_token
    assert make_engine(preemption_mode="swap").config.preemption_cost is None
    given_cost = {"seconds_per_token": 1.0}
    assert (
        make_engine(preemption_mode="cheaper", preemption_cost=given_cost).config.preemption_cost
        == given_cost
    )
    assert_idle(engine)
