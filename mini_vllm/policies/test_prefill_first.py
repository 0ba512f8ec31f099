"""The rules of prefill_first: what a prefill step admits and cuts, what it charges, and what
nano-vllm asserts away.

With nano_vllm every decision is nano-vllm's: 200 runs of its own Scheduler and BlockManager are
replayed, 100 of its first commit with a scheduler (a5a4909e6a01) and 100 of its newest
(bb823b3e0698).
"""

from collections.abc import Hashable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.compare.replay import read_traces, replay
from mini_vllm.block_pool import BlockPool, KVCacheBlock
from mini_vllm.errors import InvalidParameterError, PromptTooLongError
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.observe.trace import run_trace
from mini_vllm.policies.nano_vllm import (
    NanoVllmBlockPool,
    NanoVllmKVCacheManager,
    NanoVllmScheduler,
)
from mini_vllm.policies.prefill_first import PrefillFirstScheduler, in_prefill
from mini_vllm.policies.registry import describe
from mini_vllm.policies.registry import make_scheduler as make_by_options
from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler, SchedulerOutput
from mini_vllm.test_scheduler import (
    BLOCK,
    KVCache,
    add,
    assert_idle,
    expected_output,
    ids,
    make_request,
    run,
    step,
    steps,
)


def make_scheduler(num_blocks: int = 100, **options: Any) -> PrefillFirstScheduler:
    caching = {key: options.pop(key) for key in ("enable_prefix_caching",) if key in options}
    options = {"max_num_seqs": 16, "max_num_batched_tokens": 1000} | options
    return PrefillFirstScheduler(KVCache(num_blocks, BLOCK, **caching), **options)


def counts(scheduler: PrefillFirstScheduler, *requests: Request) -> list[dict[str, int]]:
    return [output.num_scheduled_tokens for output in run(scheduler, requests)]


# --- two kinds of step ----------------------------------------------------------------------------


def test_a_step_prefills_or_decodes() -> None:
    scheduler = make_scheduler()
    add(scheduler, make_request("a", 6, max_tokens=3))
    assert step(scheduler) == {"a": 6}
    assert step(scheduler) == {"a": 1}
    add(scheduler, make_request("b", 5, max_tokens=2))
    assert step(scheduler) == {"b": 5}, "a waits, though there is room for both"
    assert step(scheduler) == {"a": 1, "b": 1}
    assert_idle(scheduler)


def test_the_first_that_does_not_fit_ends_the_step_and_keeps_its_place() -> None:
    scheduler = make_scheduler(max_num_batched_tokens=10)
    requests = [
        make_request(name, n, max_tokens=2) for name, n in (("a", 6), ("b", 3), ("c", 5), ("d", 1))
    ]
    assert counts(scheduler, *requests) == [
        {"a": 6, "b": 3},  # c is not cut, and d does not pass it
        {"c": 5, "d": 1},
        {"a": 1, "b": 1, "c": 1, "d": 1},
    ]


def test_only_the_first_of_a_step_is_cut_and_goes_on_before_anybody_is_admitted() -> None:
    scheduler = make_scheduler(max_num_batched_tokens=10)
    add(scheduler, make_request("a", 25, max_tokens=2), make_request("b", 6, max_tokens=2))
    assert step(scheduler) == {"a": 10}
    add(scheduler, make_request("c", 4, max_tokens=2))
    assert step(scheduler) == {"a": 10}
    assert step(scheduler) == {"a": 5}, "b would have to be cut"
    assert step(scheduler) == {"b": 6, "c": 4}
    assert step(scheduler) == {"a": 1, "b": 1, "c": 1}
    assert_idle(scheduler)


def test_the_last_token_of_a_cut_prompt_is_a_prefill_too() -> None:
    scheduler = make_scheduler(max_num_batched_tokens=5)
    add(scheduler, make_request("a", 2, max_tokens=3))
    step(scheduler)
    add(scheduler, make_request("b", 6, max_tokens=2))
    assert step(scheduler) == {"b": 5}
    add(scheduler, make_request("c", 3, max_tokens=2))
    assert step(scheduler) == {"b": 1, "c": 3}
    assert step(scheduler) == {"a": 1, "b": 1, "c": 1}


def test_the_threshold_cuts_any_request() -> None:
    scheduler = make_scheduler(max_num_batched_tokens=10, long_prefill_token_threshold=4)
    requests = [make_request("a", 6, max_tokens=1), make_request("b", 9, max_tokens=1)]
    assert counts(scheduler, *requests) == [{"a": 4, "b": 4}, {"a": 2, "b": 4}, {"b": 1}]


def test_without_chunked_prefill_the_budget_has_to_reach_the_longest_request() -> None:
    with pytest.raises(InvalidParameterError, match="at least max_model_len 40, got 39"):
        make_scheduler(enable_chunked_prefill=False, max_num_batched_tokens=39, max_model_len=40)
    scheduler = make_scheduler(
        enable_chunked_prefill=False, max_num_batched_tokens=40, max_model_len=40
    )
    requests = [make_request("a", 30, max_tokens=1), make_request("b", 11, max_tokens=1)]
    assert counts(scheduler, *requests) == [{"a": 30}, {"b": 11}]


def test_places_bound_who_runs_unlike_nano_vllm() -> None:
    scheduler = make_scheduler(max_num_seqs=2)
    requests = [make_request(name, 4, max_tokens=2) for name in "abc"]
    assert counts(scheduler, *requests) == [{"a": 4, "b": 4}, {"a": 1, "b": 1}, {"c": 4}, {"c": 1}]


def test_the_watermark_stays_free_while_anybody_runs() -> None:
    scheduler = make_scheduler(num_blocks=10, watermark=0.3)
    add(scheduler, make_request("a", 4, max_tokens=9), make_request("b", 21, max_tokens=1))
    assert step(scheduler) == {"a": 4}, "b takes 6 of the 8 blocks that are left"
    while "a" in ids(scheduler.running):
        assert step(scheduler) == {"a": 1}
    assert step(scheduler) == {"b": 21}


def test_priority_orders_admission() -> None:
    scheduler = make_scheduler(policy="priority", max_num_batched_tokens=5)
    requests = [
        make_request(name, 5, max_tokens=1, priority=p)
        for name, p in (("a", 2), ("b", 0), ("c", 1))
    ]
    assert counts(scheduler, *requests) == [{"b": 5}, {"c": 5}, {"a": 5}]


# --- what the budget pays for ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("charge_cached_tokens", "expected"),
    [(False, [{"b": 3, "c": 4}]), (True, [{"b": 3}, {"c": 4}])],
)
def test_what_cached_tokens_cost(
    charge_cached_tokens: bool, expected: list[dict[str, int]]
) -> None:
    scheduler = make_scheduler(max_num_batched_tokens=20, charge_cached_tokens=charge_cached_tokens)
    prompt = list(range(16))
    run(scheduler, [make_request("a", [*prompt, 90], max_tokens=1)])
    requests = [make_request("b", [*prompt, 91, 92, 93], max_tokens=1)]
    requests.append(make_request("c", [*prompt, 94, 95, 96, 97], max_tokens=1))
    assert counts(scheduler, *requests) == expected


def test_a_charge_above_the_budget_holds_nobody_up_for_ever() -> None:
    scheduler = make_scheduler(max_num_batched_tokens=10, charge_cached_tokens=True)
    prompt = list(range(16))
    run(scheduler, [make_request("a", [*prompt, 90], max_tokens=1)])
    assert counts(scheduler, make_request("b", [*prompt, 91], max_tokens=2)) == [{"b": 1}, {"b": 1}]


# --- where nano-vllm asserts ----------------------------------------------------------------------


def test_a_prompt_above_the_budget_is_cut_and_one_above_the_cache_refused() -> None:
    scheduler = make_scheduler(num_blocks=6, max_num_batched_tokens=8)
    with pytest.raises(PromptTooLongError, match="at most 20 fit"):
        add(scheduler, make_request("a", 21))
    assert counts(scheduler, make_request("b", 20, max_tokens=1)) == [{"b": 8}, {"b": 8}, {"b": 4}]


@pytest.mark.parametrize("num_prompt_tokens", range(1, 13))
def test_a_sequence_that_outgrows_the_pool_alone_ends_with_length(num_prompt_tokens: int) -> None:
    scheduler = make_scheduler(num_blocks=4)
    outputs = counts(scheduler, request := make_request("a", num_prompt_tokens, max_tokens=100))
    assert (request.finish_reason, request.num_tokens, request.num_preemptions) == ("length", 13, 0)
    assert len(outputs) == 13 - num_prompt_tokens
    assert_idle(scheduler)


def test_a_prompt_that_is_cached_to_its_last_token_computes_its_last_block() -> None:
    scheduler = make_scheduler()
    for name, n in (("a", 16), ("b", 4)):
        assert counts(scheduler, make_request(name, list(range(16)), max_tokens=1)) == [{name: n}]


# --- preemption -----------------------------------------------------------------------------------


def test_the_tail_is_preempted_until_the_next_token_fits_and_comes_back_in_a_prefill_step() -> None:
    scheduler = make_scheduler(num_blocks=7, enable_prefix_caching=False)
    requests = [make_request(name, 8, max_tokens=7) for name in "abc"]
    add(scheduler, *requests)
    assert step(scheduler) == {"a": 8, "b": 8, "c": 8}
    assert step(scheduler) == {"a": 1, "b": 1}, "the two blocks of c are theirs now"
    assert ids(scheduler.waiting) == ["c"]
    for _ in range(3):
        assert step(scheduler) == {"a": 1, "b": 1}
    assert step(scheduler) == {"a": 1}, "and now a needs a block of b"
    assert ids(scheduler.waiting) == ["b", "c"]
    assert step(scheduler) == {"a": 1}
    assert step(scheduler) == {"b": 13}, "8 of its prompt and the 5 that it had sampled"
    list(steps(scheduler))
    for request in requests:
        assert request.output_token_ids == expected_output(request.prompt_token_ids, 7)
    assert_idle(scheduler)


def test_at_last_a_request_preempts_itself_and_the_others_decode() -> None:
    scheduler = make_scheduler(num_blocks=6, enable_prefix_caching=False)
    add(scheduler, make_request("a", 9, max_tokens=8), make_request("b", 8, max_tokens=8))
    step(scheduler)
    assert step(scheduler) == {"a": 1}, "a needs no block yet; b needs one and is the tail"
    assert ids(scheduler.waiting) == ["b"]


@pytest.mark.parametrize("budget", [9, 20])
def test_the_budget_of_a_victim_goes_to_those_after_it_and_nobody_is_admitted(budget: int) -> None:
    """Under priority the victim of a chunk may be a chunk that was scheduled before it in the same
    step.
    """
    options = {
        "policy": "priority",
        "reserve_full_sequence": False,
        "long_prefill_token_threshold": 4,
    }
    scheduler = make_scheduler(
        num_blocks=6, max_num_batched_tokens=4, enable_prefix_caching=False, **options
    )
    add(scheduler, make_request("a", 20, max_tokens=1, priority=9))
    assert step(scheduler) == {"a": 4}
    add(
        scheduler,
        make_request("b", 20, max_tokens=1, priority=0),
        make_request("c", 20, max_tokens=1, priority=1),
    )
    scheduler.max_num_batched_tokens = 12
    assert step(scheduler) == {"a": 4, "b": 4, "c": 4}
    scheduler.max_num_batched_tokens = budget
    assert step(scheduler) == {"b": 4, "c": 4}, (
        "a had taken 4 of 9; with 20 there would be room for its first block"
    )
    assert ids(scheduler.waiting) == ["a"]


# --- as laws --------------------------------------------------------------------------------------

CROWDS = st.lists(
    st.tuples(st.integers(1, 12), st.integers(1, 8), st.integers(0, 3)), min_size=1, max_size=8
)  # of each: prompt, max_tokens, how many steps after the one before it


@settings(derandomize=True, database=None, deadline=None, max_examples=60)
@given(
    crowd=CROWDS,
    num_blocks=st.integers(6, 12),
    budget=st.sampled_from((1, 3, 8, 20)),
    charge=st.booleans(),
    aligned=st.booleans(),
)
def test_laws_of_order(
    crowd: list[tuple[int, int, int]], num_blocks: int, budget: int, charge: bool, aligned: bool
) -> None:
    """One kind of step; one cut; first come, first admitted; a prefill step has no victim."""
    scheduler = make_scheduler(
        num_blocks=num_blocks,
        max_num_batched_tokens=budget,
        max_num_seqs=4,
        charge_cached_tokens=charge,
        block_aligned_chunks=aligned,
    )
    arrivals = [(sum(gap for *_, gap in crowd[: i + 1]), i) for i in range(len(crowd))]
    admitted: list[str] = []
    for at in range(2000):
        for arrival, i in arrivals:
            if arrival == at:
                add(scheduler, make_request(f"r{i}", crowd[i][0], max_tokens=crowd[i][1]))
        if not scheduler.has_unfinished_requests() and at > arrivals[-1][0]:
            break
        were_behind = {request.request_id: in_prefill(request) for request in scheduler.running}
        output = scheduler.schedule()
        kinds = {were_behind.get(request_id, True) for request_id in output.num_scheduled_tokens}
        assert len(kinds) <= 1
        if kinds == {True}:
            assert not output.preempted_req_ids
            behind = [r.num_tokens - r.num_computed_tokens for r in output.scheduled_requests]
            cut = [n < b for n, b in zip(output.num_scheduled_tokens.values(), behind, strict=True)]
            assert not any(cut[1:])
        admitted += [
            r.request_id for r in output.scheduled_requests if r.request_id not in admitted
        ]
        scheduler.update_from_output(
            output,
            {
                r.request_id: [7]
                for r in output.scheduled_requests
                if scheduler.needs_sample(r, output.num_scheduled_tokens[r.request_id])
            },
        )
    assert admitted == [f"r{i}" for i in range(len(crowd))]
    assert_idle(scheduler)


# --- nano-vllm's own rules ------------------------------------------------------------------------

TRACES = Path(__file__).parents[2] / "traces" / "nano-vllm"
COMMITS = {
    "first": "a5a4909e6a011e5443e354362a7e9c7b8b203e64",
    "newest": "bb823b3e06983d71485a8e1f23715ebd87d98ef8",
}
every_version = pytest.mark.parametrize("version", COMMITS)


@cache
def recorded(version: str) -> list[dict[str, Any]]:
    return read_traces(TRACES / f"{version}.jsonl")


@every_version
def test_every_decision_is_nano_vllms(version: str) -> None:
    traces = recorded(version)
    assert len(traces) == 100
    assert {trace["recorded_from"] for trace in traces} == {f"nano-vllm {COMMITS[version]}"}
    assert {trace["config"]["nano_vllm"] for trace in traces} == {version}
    failed = [f"{trace['name']}: {difference}" for trace in traces if (difference := replay(trace))]
    assert not failed, (
        f"{len(failed)} of {len(traces)} traces differ from nano-vllm:\n" + "\n".join(failed)
    )


class PlacesBoundWhoRuns(NanoVllmScheduler):
    """as many run as there are places"""

    def _next_waiting(self) -> Request | None:
        return super()._next_waiting() if len(self.running) < self.max_num_seqs else None


class DecodesPay(NanoVllmScheduler):
    """a decode pays a token of the budget"""

    def _schedule_running(
        self, requests: Sequence[Request], output: SchedulerOutput, token_budget: int
    ) -> int:
        return Scheduler._schedule_running(
            self, requests[: self.max_num_seqs], output, token_budget
        )


class HitsNeedNotFit(NanoVllmScheduler):
    """what has to fit into the budget is what is left to compute"""

    def _schedule_waiting(self, output: SchedulerOutput, token_budget: int) -> None:
        self.nano_vllm = "newest"
        super()._schedule_waiting(output, token_budget)
        self.nano_vllm = "first"

    def _may_admit(
        self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock]
    ) -> bool:
        return super()._may_admit(request, num_tokens, ())


class HitsCost(HitsNeedNotFit):
    """hits have to fit into the budget"""

    def _schedule_waiting(self, output: SchedulerOutput, token_budget: int) -> None:
        self.nano_vllm = "first"
        NanoVllmScheduler._schedule_waiting(self, output, token_budget)
        self.nano_vllm = "newest"

    def _may_admit(
        self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock]
    ) -> bool:
        return PrefillFirstScheduler._may_admit(self, request, num_tokens, computed_blocks)


class CutsAnybody(NanoVllmScheduler):
    """the last of a step is cut, too"""

    def _schedule_waiting(self, output: SchedulerOutput, token_budget: int) -> None:
        self.output = output
        super()._schedule_waiting(output, token_budget)

    def _chunk_size(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
        if hasattr(self, "output"):
            left = self.max_num_batched_tokens - self.output.total_num_scheduled_tokens
            token_budget = min(token_budget, max(left, 1))
        return super()._chunk_size(request, num_computed_tokens, token_budget)


class HeldBlocksAreNoNeed(NanoVllmScheduler):
    """a hit that a request holds needs no free block"""

    def _may_admit(
        self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock]
    ) -> bool:
        return PrefillFirstScheduler._may_admit(self, request, num_tokens, computed_blocks)


class HeldBlocksAreNeeded(NanoVllmScheduler):
    """a hit that a request holds needs a free block all the same"""

    def _may_admit(
        self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock]
    ) -> bool:
        return super()._may_admit(request, num_tokens, ())


class BlocksAsChunksGo(NanoVllmKVCacheManager):
    """who is cut gets the blocks of its chunk"""

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        num_tokens = request.num_computed_tokens + len(computed_blocks) * self.block_size
        self._end = (num_tokens + num_new_tokens) // self.block_size
        return KVCacheManager.allocate_slots(self, request, num_new_tokens, computed_blocks)


class DecodesTakeTheLastBlock(NanoVllmKVCacheManager):
    """a decode wants a block if it needs one"""

    def allocate_slots(self, *args: Any) -> list[KVCacheBlock] | None:
        return KVCacheManager.allocate_slots(self, *args)


class DecodesWantABlock(NanoVllmKVCacheManager):
    """a decode wants a free block, needed or not"""

    def allocate_slots(self, *args: Any) -> list[KVCacheBlock] | None:
        self.nano_vllm, version = "first", self.nano_vllm
        try:
            return (
                super().allocate_slots(*args)
                if args[0].num_computed_tokens
                else self._admit(version, *args)
            )
        finally:
            self.nano_vllm = version

    def _admit(self, version: str, *args: Any) -> list[KVCacheBlock] | None:
        self.nano_vllm = version
        return super().allocate_slots(*args)

    def _cache_blocks(self, request: Request, start: int, end: int) -> None:
        table = self._tables[request.request_id]
        self._unpublished[request.request_id] = request, table, start, end


class PublishesAtOnce(NanoVllmKVCacheManager):
    """a block can be found when it is allocated"""

    def _cache_blocks(self, request: Request, start: int, end: int) -> None:
        KVCacheManager._cache_blocks(self, request, start, end)


class PublishesLate(NanoVllmKVCacheManager):
    """a block can be found after the step"""

    def _cache_blocks(self, request: Request, start: int, end: int) -> None:
        table = self._tables[request.request_id]
        self._unpublished[request.request_id] = request, table, start, end

    def end_step(self, result: Any) -> None:
        for request, table, start, end in self._unpublished.values():
            if self._tables.get(request.request_id) is table:
                KVCacheManager._cache_blocks(self, request, start, end)
        self._unpublished.clear()


def with_pool(pool_cls: type[BlockPool]) -> type[NanoVllmKVCacheManager]:
    class ManagerWithPool(NanoVllmKVCacheManager):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            head_first = self.nano_vllm == "first"
            self.block_pool = pool_cls(self.num_blocks, head_first=head_first)  # type: ignore[call-arg]

    return ManagerWithPool


class OldestAnswers(NanoVllmBlockPool):
    """of blocks with equal content the first is found"""

    def cache_block(self, block: KVCacheBlock, block_hash: Hashable) -> None:
        BlockPool.cache_block(self, block, block_hash)


class OtherWayRound(NanoVllmBlockPool):
    """a table is freed from its other end"""

    def __init__(self, num_blocks: int, *, head_first: bool) -> None:
        super().__init__(num_blocks, head_first=not head_first)


class UselessFirst(NanoVllmBlockPool):
    """a block without a hash is taken next"""

    def free_blocks(self, table: Sequence[KVCacheBlock]) -> None:
        BlockPool.free_blocks(self, table)


BROKEN: dict[str, tuple[type, ...]] = {
    "first": (
        *(
            PlacesBoundWhoRuns,
            HitsNeedNotFit,
            HeldBlocksAreNoNeed,
            DecodesTakeTheLastBlock,
            PublishesLate,
        ),
        *(OldestAnswers, OtherWayRound, UselessFirst),
    ),
    "newest": (
        *(
            PlacesBoundWhoRuns,
            DecodesPay,
            HitsCost,
            CutsAnybody,
            HeldBlocksAreNeeded,
            BlocksAsChunksGo,
        ),
        *(DecodesWantABlock, PublishesAtOnce, OldestAnswers, OtherWayRound, UselessFirst),
    ),
}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("version", "broken"), [(version, broken) for version in BROKEN for broken in BROKEN[version]]
)
def test_the_traces_notice_every_rule_of_nano_vllms(version: str, broken: type) -> None:
    classes: dict[str, Any] = {"scheduler_cls": NanoVllmScheduler}
    if issubclass(broken, NanoVllmScheduler):
        classes["scheduler_cls"] = broken
    else:
        classes["kv_cache_manager_cls"] = (
            with_pool(broken) if issubclass(broken, BlockPool) else broken
        )
    found = [difference for trace in recorded(version) if (difference := replay(trace, **classes))]
    assert len(found) >= 3, broken.__doc__
    assert not any("Error" in difference for difference in found), (
        "a rule is broken, and not the class"
    )


@every_version
def test_the_rules_of_prefill_first_are_others(version: str) -> None:
    traces = [
        trace | {"config": trace["config"] | {"scheduler": "prefill_first", "nano_vllm": "newest"}}
        for trace in recorded(version)
    ]
    assert sum(replay(trace) is not None for trace in traces) > 50


SIZES = {"num_blocks": 9, "block_size": 4, "max_num_seqs": 2, "max_num_batched_tokens": 20}


def sched(version: str, *prompts: list[int], **options: Any) -> list[dict[str, int]]:
    """What is scheduled of requests a, b, c, ..., which get two tokens each, with nano-vllm's
    rules.
    """
    requests = [
        {"id": "abc"[i], "prompt": prompt, "max_tokens": 2} for i, prompt in enumerate(prompts)
    ]
    config = {**SIZES, "scheduler": "nano_vllm", "nano_vllm": version, **options}
    return [
        dict(record["sched"])
        for record in run_trace({"config": config, "requests": requests})["steps"]
    ]


@every_version
def test_places_of_nano_vllm_limit_a_step_and_not_who_runs(version: str) -> None:
    prompts = [[10 * i + j for j in range(4)] for i in range(3)]
    assert sched(version, *prompts) == [{"a": 4, "b": 4}, {"c": 4}, {"a": 1, "b": 1}, {"c": 1}]


def test_alone_a_request_wants_no_block_that_it_does_not_need() -> None:
    """nano-vllm's first version preempts it here, has nobody to schedule, and fails."""
    assert sched("first", list(range(7)), num_blocks=3) == [{"a": 7}, {"a": 1}]


def test_a_prompt_that_nano_vllm_finds_whole_computes_its_last_block() -> None:
    """Its first version finds nothing to compute here, and fails."""
    assert sched("first", list(range(8)), list(range(8))) == [{"a": 8, "b": 4}, {"a": 1, "b": 1}]


def test_a_scheduler_of_nano_vllms_rules_can_be_made_again() -> None:
    scheduler = make_by_options({**SIZES, "scheduler": "nano_vllm", "nano_vllm": "first"})
    assert describe(scheduler) == {
        "scheduler": "nano_vllm",
        "nano_vllm": "first",
        "max_model_len": 33,
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nano_vllm": "second"}, "nano_vllm must be 'first' or 'newest', got 'second'"),
        ({"nano_vllm": 1}, "nano_vllm must be str, got 1"),
        (
            {"nano_vllm": "first", "scheduler": "v1"},
            "Scheduler with KVCacheManager has no option nano_vllm",
        ),
        (
            {"nano_vllm": "first", "charge_cached_tokens": True},
            "has no option charge_cached_tokens",
        ),
        ({"nano_vllm": "first", "preemption_mode": "swap"}, "has no option preemption_mode"),
    ],
)
def test_what_goes_with_nano_vllms_rules(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        make_by_options({**SIZES, "scheduler": "nano_vllm", **options})


def test_scheduler_and_manager_are_of_one_version() -> None:
    limits: dict[str, Any] = {"max_num_seqs": 2, "max_num_batched_tokens": 8}
    for manager in (KVCacheManager(9, 4), NanoVllmKVCacheManager(9, 4, nano_vllm="newest")):
        with pytest.raises(
            InvalidParameterError, match="nano_vllm 'first' needs a KV cache manager of it"
        ):
            NanoVllmScheduler(manager, nano_vllm="first", **limits)
