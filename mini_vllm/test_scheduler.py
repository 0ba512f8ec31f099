"""The scheduler's decisions, one rule a test, through schedule() and update_from_output() alone.

Source of the rules: vLLM 0.33.0's V1 scheduler with async_scheduling=False; test_vllm_parity.py
compares whole runs.
"""

import itertools
import os
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from mini_vllm.errors import (
    DuplicateRequestError,
    InvalidParameterError,
    PromptTooLongError,
    RequestFailedError,
)
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.params import SamplingParams
from mini_vllm.request import FINISH_REASONS, Request, RequestStatus
from mini_vllm.scheduler import Scheduler, SchedulerOutput
from mini_vllm.scheduler_interface import Part, SchedulerInterface, Step

BLOCK = 4  # block size of all schedulers below, unless they say otherwise
VOCABULARY = 1000


class KVCache(KVCacheManager):
    """A manager together with the cache that it manages, in which the K and V of a token are one
    number.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.slots: dict[tuple[int, int], int] = {}  # (block id, offset) -> K and V


def execute(scheduler: Scheduler, output: SchedulerOutput) -> dict[str, list[int]]:
    """A model of integers that attends like a real one, so that its tokens tell what the KV cache
    held.

    The K and V of a token are made from the token, its position and all K and V before it, which
    are read from their slots. The next token is made from all of them. A slot that holds another
    prefix changes what is generated; reading one that nobody wrote is a KeyError. expected_output()
    is the same model without a cache.
    """
    kv, sampled = scheduler.kv_cache_manager, {}
    assert isinstance(kv, KVCache)
    for request in output.scheduled_requests:
        table = kv.get_block_ids(request.request_id)
        num_scheduled = output.num_scheduled_tokens[request.request_id]
        start, end = request.num_computed_tokens, request.num_computed_tokens + num_scheduled
        slots = [(table[p // kv.block_size], p % kv.block_size) for p in range(end)]
        attended = sum(kv.slots[slot] for slot in slots[:start])
        for p in range(start, end):
            kv.slots[slots[p]] = hash((attended, p, request.all_token_ids[p]))
            attended += kv.slots[slots[p]]
        if scheduler.needs_sample(request, num_scheduled):
            sampled[request.request_id] = [hash((attended, -1)) % VOCABULARY]
    return sampled


def expected_output(prompt: Sequence[int], num_tokens: int) -> list[int]:
    """What execute() generates for a prompt: without a cache, a block or a neighbour."""
    attended, tokens = 0, list(prompt)
    for p in itertools.count():
        attended += hash((attended, p, tokens[p]))
        if p == len(tokens) - 1:
            tokens.append(hash((attended, -1)) % VOCABULARY)
        if len(tokens) == len(prompt) + num_tokens:
            return tokens[len(prompt) :]
    raise AssertionError


def make_scheduler(num_blocks: int = 100, block_size: int = BLOCK, **options: Any) -> Scheduler:
    """A scheduler with room for everything, unless an option says otherwise. num_blocks counts the
    null block.
    """
    caching = {
        key: options.pop(key)
        for key in ("enable_prefix_caching", "hash_function")
        if key in options
    }
    options = {"max_num_seqs": 16, "max_num_batched_tokens": 1000} | options
    return Scheduler(KVCache(num_blocks, block_size, **caching), **options)


def make_request(
    request_id: str, prompt: int | Sequence[int], max_tokens: int = 16, **options: Any
) -> Request:
    """prompt: its tokens, or how many; then no other request has one of them."""
    if isinstance(prompt, int):
        base = 1000 * (1 + sum(ord(c) * 31**i for i, c in enumerate(request_id)))
        prompt = range(base, base + prompt)
    params = {key: options.pop(key) for key in ("ignore_eos", "stop_token_ids") if key in options}
    return Request(request_id, prompt, SamplingParams(max_tokens=max_tokens, **params), **options)


def add(scheduler: Scheduler, *requests: Request) -> None:
    for request in requests:
        scheduler.add_request(request)


def step(scheduler: Scheduler) -> dict[str, int]:
    """One whole step; returns who computed how many tokens."""
    output = scheduler.schedule()
    scheduler.update_from_output(output, execute(scheduler, output))
    return output.num_scheduled_tokens


def steps(scheduler: Scheduler, limit: int = 10_000) -> Iterator[SchedulerOutput]:
    """Run until all are finished; yields every step between schedule() and the model."""
    for _ in range(limit):
        if not scheduler.has_unfinished_requests():
            return
        output = scheduler.schedule()
        assert output.num_scheduled_tokens, "a step without work would never end"
        yield output
        scheduler.update_from_output(output, execute(scheduler, output))
    raise AssertionError(f"not finished after {limit} steps")


def run(scheduler: Scheduler, requests: Sequence[Request]) -> list[SchedulerOutput]:
    """Add the requests and run them to their end; returns the steps."""
    add(scheduler, *requests)
    return list(steps(scheduler))


def ids(requests: Sequence[Request]) -> list[str]:
    return [request.request_id for request in requests]


def assert_idle(scheduler: Scheduler) -> None:
    """Nothing is left of anybody."""
    kv = scheduler.kv_cache_manager
    assert not scheduler.has_unfinished_requests()
    assert (list(scheduler.waiting), scheduler.running, scheduler._requests) == ([], [], {})
    assert sorted(kv.free_block_ids()) == list(range(1, kv.num_blocks))
    assert kv._tables == {}
    assert all(block.ref_cnt == 0 for block in kv.block_pool.blocks)


# --- who comes first ------------------------------------------------------------------------------


def test_requests_wait_until_the_next_step() -> None:
    scheduler = make_scheduler()
    assert not scheduler.has_unfinished_requests()
    requests = [make_request(name, 5) for name in "abc"]
    add(scheduler, *requests)
    assert scheduler.has_unfinished_requests()
    assert ids(scheduler.waiting) == ["a", "b", "c"]
    assert scheduler.running == []
    output = scheduler.schedule()
    assert output.num_scheduled_tokens == {"a": 5, "b": 5, "c": 5}
    assert output.scheduled_requests == requests == scheduler.running
    assert output.total_num_scheduled_tokens == 15
    assert output.preempted_req_ids == []
    assert not scheduler.waiting
    assert all(request.status is RequestStatus.RUNNING for request in requests)


def test_an_idle_scheduler_schedules_nothing() -> None:
    output = make_scheduler().schedule()
    assert (output.num_scheduled_tokens, output.scheduled_requests, output.preempted_req_ids) == (
        {},
        [],
        [],
    )
    assert output.total_num_scheduled_tokens == 0


def test_a_request_first_computes_its_prompt_and_then_one_token_a_step() -> None:
    scheduler = make_scheduler()
    add(scheduler, request := make_request("a", 6, max_tokens=4))
    assert [step(scheduler) for _ in range(4)] == [{"a": 6}, {"a": 1}, {"a": 1}, {"a": 1}]
    assert request.finish_reason == "length"
    assert request.num_computed_tokens == request.num_tokens - 1, "the last token is never computed"
    assert_idle(scheduler)


def test_fcfs_admits_in_order_of_arrival() -> None:
    scheduler = make_scheduler(max_num_seqs=2, max_num_batched_tokens=8)
    add(
        scheduler,
        *[make_request(name, 4, max_tokens=1, priority=-i) for i, name in enumerate("abcde")],
    )
    assert [list(step(scheduler)) for _ in range(3)] == [["a", "b"], ["c", "d"], ["e"]]


def test_fcfs_does_not_look_at_priority_or_arrival_time() -> None:
    scheduler = make_scheduler(max_num_seqs=1)
    add(scheduler, make_request("a", 4, priority=9, arrival_time=9.0), make_request("b", 4))
    assert list(step(scheduler)) == ["a"]


def test_priority_admits_by_priority_then_arrival_time_then_id() -> None:
    scheduler = make_scheduler(policy="priority", max_num_seqs=1)
    for name, priority, arrival_time in (
        ("e", 2, 0),
        ("d", 1, 5),
        ("c", 1, 4),
        ("b", 1, 4),
        ("a", 0, 9),
    ):
        scheduler.add_request(
            make_request(name, 4, max_tokens=1, priority=priority, arrival_time=arrival_time)
        )
    assert ids(scheduler.waiting) == ["a", "b", "c", "d", "e"]
    assert [list(step(scheduler)) for _ in range(5)] == [["a"], ["b"], ["c"], ["d"], ["e"]]


def test_priority_of_a_waiting_request_preempts_nobody() -> None:
    scheduler = make_scheduler(policy="priority", max_num_seqs=1)
    add(scheduler, make_request("low", 4, max_tokens=3, priority=9))
    step(scheduler)
    add(scheduler, make_request("high", 4, priority=0))
    assert [list(step(scheduler)) for _ in range(3)] == [["low"], ["low"], ["high"]]


# --- the token budget -----------------------------------------------------------------------------


def test_token_budget_goes_to_running_requests_first() -> None:
    scheduler = make_scheduler(max_num_batched_tokens=10)
    add(scheduler, make_request("a", 4))
    assert step(scheduler) == {"a": 4}
    add(scheduler, make_request("b", 20))
    assert step(scheduler) == {"a": 1, "b": 9}
    assert step(scheduler) == {"a": 1, "b": 9}
    add(scheduler, make_request("c", 20))
    assert step(scheduler) == {"a": 1, "b": 2, "c": 7}


def test_token_budget_that_is_spent_leaves_the_last_ones_out() -> None:
    scheduler = make_scheduler(max_num_batched_tokens=2)
    add(scheduler, *[make_request(name, 1, max_tokens=3) for name in "abc"])
    assert [step(scheduler) for _ in range(4)] == [
        {"a": 1, "b": 1},
        {"a": 1, "b": 1},
        {"a": 1, "b": 1},
        {"c": 1},
    ]


@pytest.mark.parametrize("budget", [1, 2, 3, 5, 8, 13, 1000])
def test_token_budget_is_never_exceeded_and_never_wasted(budget: int) -> None:
    scheduler = make_scheduler(max_num_batched_tokens=budget)
    requests = [make_request(str(i), 3 + 5 * i, max_tokens=4) for i in range(5)]
    behind = sum(request.num_tokens for request in requests)
    add(scheduler, *requests)
    while scheduler.has_unfinished_requests():
        behind = sum(r.num_tokens - r.num_computed_tokens for r in requests if not r.is_finished)
        assert sum(step(scheduler).values()) == min(budget, behind)


def test_trap_20_token_budget_does_not_count_what_the_prefix_cache_has() -> None:
    scheduler = make_scheduler(max_num_batched_tokens=10)
    prompt = list(range(21))
    run(scheduler, [make_request("a", prompt, max_tokens=1)])
    add(
        scheduler,
        make_request("b", prompt, max_tokens=1),
        make_request("c", [*prompt[:20], 99], max_tokens=1),
    )
    assert step(scheduler) == {"b": 1, "c": 1}


@pytest.mark.parametrize("num_shared", [1, 3, 4, 5, 22, 23, 24])
def test_trap_20_a_cached_prefix_changes_no_output(num_shared: int) -> None:
    scheduler = make_scheduler()
    prompt = list(range(24))
    run(scheduler, [make_request("a", prompt[:num_shared], max_tokens=1)])
    run(scheduler, [request := make_request("b", prompt, max_tokens=6)])
    assert request.num_cached_tokens == min(num_shared, 23) // BLOCK * BLOCK
    assert request.output_token_ids == expected_output(prompt, 6)


# --- chunking -------------------------------------------------------------------------------------


def test_chunking_computes_a_long_prompt_in_pieces() -> None:
    scheduler = make_scheduler(max_num_batched_tokens=10)
    add(scheduler, request := make_request("a", 25, max_tokens=2))
    assert [step(scheduler) for _ in range(4)] == [{"a": 10}, {"a": 10}, {"a": 5}, {"a": 1}]
    assert len(request.output_token_ids) == 2


@pytest.mark.parametrize("chunk", [1, 2, 4, 5, 12, 13, 14])
def test_trap_25_chunking_samples_once_and_from_the_last_chunk_only(chunk: int) -> None:
    scheduler = make_scheduler(max_num_batched_tokens=chunk)
    add(scheduler, request := make_request("a", list(range(13)), max_tokens=3))
    num_outputs = []
    for output in steps(scheduler):
        num_outputs.append(len(request.output_token_ids))
        assert output.num_scheduled_tokens["a"] <= chunk
    assert num_outputs == [0] * -(-13 // chunk) + [1, 2]
    assert request.output_token_ids == expected_output(range(13), 3)


def test_needs_sample_is_true_for_the_step_that_catches_up() -> None:
    request = make_request("a", 10)
    assert [n for n in range(1, 11) if Scheduler.needs_sample(request, n)] == [10]
    request.num_computed_tokens = 7
    assert [n for n in range(1, 4) if Scheduler.needs_sample(request, n)] == [3]


def test_chunking_with_a_threshold_leaves_room_for_others() -> None:
    """vLLM's example: 3 x 800 tokens, at most 400 of one request in a step, 1024 of all."""
    scheduler = make_scheduler(1000, max_num_batched_tokens=1024, long_prefill_token_threshold=400)
    add(scheduler, *[make_request(name, 800) for name in "abc"])
    assert step(scheduler) == {"a": 400, "b": 400, "c": 224}
    assert step(scheduler) == {"a": 400, "b": 400, "c": 224}
    assert step(scheduler) == {"a": 1, "b": 1, "c": 352}


def test_chunking_threshold_is_ignored_when_alone() -> None:
    scheduler = make_scheduler(1000, max_num_batched_tokens=1024, long_prefill_token_threshold=400)
    add(scheduler, make_request("a", 2500))
    assert step(scheduler) == {"a": 1024}
    add(scheduler, make_request("b", 100))
    assert step(scheduler) == {"a": 400, "b": 100}
    scheduler.abort_request("b")
    assert step(scheduler) == {"a": 1024}


def test_chunking_threshold_counts_requests_that_wait() -> None:
    scheduler = make_scheduler(1000, max_num_seqs=1, long_prefill_token_threshold=400)
    add(scheduler, make_request("a", 800), make_request("b", 800))
    assert step(scheduler) == {"a": 400}


def test_chunking_off_admits_whole_prompts_only() -> None:
    """A prompt that exceeds what is left of the budget waits, and those behind it wait too (vLLM's
    example).
    """
    scheduler = make_scheduler(
        1000, max_num_batched_tokens=1024, max_model_len=1024, enable_chunked_prefill=False
    )
    add(
        scheduler,
        *[make_request(name, n, max_tokens=3) for name, n in (("a", 800), ("b", 800), ("c", 10))],
    )
    assert step(scheduler) == {"a": 800}
    assert step(scheduler) == {"a": 1, "b": 800, "c": 10}


def test_chunking_off_admits_a_prompt_of_exactly_the_budget_that_is_left() -> None:
    scheduler = make_scheduler(
        1000, max_num_batched_tokens=1024, max_model_len=1024, enable_chunked_prefill=False
    )
    add(scheduler, *[make_request(name, n) for name, n in (("a", 800), ("b", 224), ("c", 1))])
    assert step(scheduler) == {"a": 800, "b": 224}


def test_chunking_off_still_splits_by_the_threshold() -> None:
    scheduler = make_scheduler(
        1000,
        max_num_batched_tokens=1024,
        max_model_len=1024,
        enable_chunked_prefill=False,
        long_prefill_token_threshold=400,
    )
    add(scheduler, *[make_request(name, 800) for name in "abc"])
    assert step(scheduler) == {"a": 400, "b": 400}


def test_chunking_off_does_not_count_the_cached_prefix() -> None:
    scheduler = make_scheduler(
        max_num_batched_tokens=40, max_model_len=40, enable_chunked_prefill=False
    )
    prompt = list(range(30))
    run(scheduler, [make_request("a", prompt, max_tokens=1)])
    add(scheduler, make_request("b", 30), make_request("c", prompt))
    assert step(scheduler) == {"b": 30, "c": 2}


# --- max_num_seqs ---------------------------------------------------------------------------------


def test_trap_04_max_num_seqs_bounds_who_runs_not_who_is_scheduled() -> None:
    scheduler = make_scheduler(max_num_seqs=4, max_num_batched_tokens=6)
    add(scheduler, *[make_request(str(i), 2, max_tokens=5) for i in range(12)])
    most = 0
    for _ in steps(scheduler):
        most = max(most, len(scheduler.running))
        assert len(scheduler.running) <= 4
    assert most == 4


def test_a_place_is_free_again_when_somebody_finishes() -> None:
    scheduler = make_scheduler(max_num_seqs=2)
    add(
        scheduler,
        *[
            make_request(name, 4, max_tokens=n)
            for name, n in (("a", 1), ("b", 3), ("c", 2), ("d", 1))
        ],
    )
    assert [list(step(scheduler)) for _ in range(4)] == [["a", "b"], ["b", "c"], ["b", "c"], ["d"]]


# --- admission and memory -------------------------------------------------------------------------


def test_trap_30_a_head_that_does_not_fit_blocks_those_behind_it() -> None:
    """It is not skipped, or it would starve under a stream of small requests."""
    scheduler = make_scheduler(num_blocks=6)
    add(scheduler, make_request("a", 12, max_tokens=4))
    step(scheduler)
    add(scheduler, make_request("big", 20, max_tokens=1))
    small = 0
    while scheduler.waiting and scheduler.waiting[0].request_id == "big":
        add(scheduler, make_request(f"small {small}", 1, max_tokens=1))
        small += 1
        assert len(step(scheduler)) == 1, "a, then big"
        assert small < 10, "big is admitted as soon as a has left"
    assert small == 4


def test_reserve_full_sequence_admits_what_fits_as_a_whole() -> None:
    """The chunk would take 2 of the 4 free blocks, the whole prompt needs 5."""
    for options, scheduled in (
        ({}, {"a": 1}),
        ({"reserve_full_sequence": False}, {"a": 1, "b": 7}),
    ):
        scheduler = make_scheduler(num_blocks=7, max_num_batched_tokens=8, **options)
        add(scheduler, make_request("a", 7))
        step(scheduler)
        add(scheduler, make_request("b", 17))
        assert step(scheduler) == scheduled


def test_reserve_full_sequence_takes_only_the_chunks_blocks() -> None:
    scheduler = make_scheduler(num_blocks=7, max_num_batched_tokens=8)
    add(scheduler, make_request("a", 24, max_tokens=1))
    step(scheduler)
    assert scheduler.kv_cache_manager.num_free_blocks == 4


def test_reserve_full_sequence_counts_the_prefix_cache() -> None:
    scheduler = make_scheduler(num_blocks=6)
    prompt = list(range(12))
    add(scheduler, make_request("a", prompt))
    step(scheduler)
    add(scheduler, make_request("b", [*prompt, *range(50, 58)]))
    assert step(scheduler) == {"a": 1}, (
        "3 hits + 2 new blocks, but a's next token takes one of the two"
    )
    scheduler.abort_request("a")
    assert step(scheduler) == {"b": 8}


def test_watermark_is_left_free_while_anything_runs() -> None:
    """A share of all 11 blocks, rounded down: 0.3 x 11 = 3."""
    for watermark, admitted in ((0.0, True), (0.3, False), (0.27, True)):
        scheduler = make_scheduler(num_blocks=11, watermark=watermark)
        assert scheduler.watermark == watermark
        add(scheduler, make_request("a", 16))
        step(scheduler)
        add(scheduler, make_request("b", 12))  # 4 + 1 held, 5 free, 3 needed, so 2 are left
        assert ("b" in step(scheduler)) == admitted


def test_watermark_does_not_hold_for_a_request_that_is_alone() -> None:
    scheduler = make_scheduler(num_blocks=11, watermark=0.5)
    add(scheduler, make_request("a", 40, max_tokens=1), make_request("b", 1))
    assert step(scheduler) == {"a": 40}
    assert step(scheduler) == {"b": 1}


def test_watermark_counts_those_admitted_in_the_same_step_as_running() -> None:
    scheduler = make_scheduler(num_blocks=11, watermark=0.5)
    add(scheduler, *[make_request(name, 10) for name in "ab"])
    assert step(scheduler) == {"a": 10}


def test_watermark_holds_for_the_chunk_too() -> None:
    """a holds 3 of the 10 blocks, b's chunk takes 2 and leaves 5."""
    for watermark, scheduled in ((0.5, {"a": 10, "b": 8}), (0.6, {"a": 10})):
        scheduler = make_scheduler(
            num_blocks=11,
            watermark=watermark,
            reserve_full_sequence=False,
            max_num_batched_tokens=18,
        )
        add(scheduler, make_request("a", 10), make_request("b", 20))
        assert step(scheduler) == scheduled


def test_watermark_does_not_hold_for_running_requests() -> None:
    scheduler = make_scheduler(num_blocks=3, watermark=0.9)
    add(scheduler, make_request("a", 4))
    assert [step(scheduler) for _ in range(4)] == [{"a": 4}, {"a": 1}, {"a": 1}, {"a": 1}]


# --- prefix head start ----------------------------------------------------------------------------


def test_prefix_head_start_skips_what_another_request_computed() -> None:
    scheduler = make_scheduler()
    prompt = list(range(16))
    add(scheduler, make_request("a", [*prompt, 100]))
    step(scheduler)
    add(scheduler, request := make_request("b", [*prompt, 200, 201]))
    output = scheduler.schedule()
    assert output.num_scheduled_tokens == {"a": 1, "b": 2}
    assert (request.num_computed_tokens, request.num_cached_tokens) == (16, 16)
    tables = [scheduler.kv_cache_manager.get_block_ids(name) for name in "ab"]
    assert tables == [[1, 2, 3, 4, 5], [1, 2, 3, 4, 6]]


def test_prefix_head_start_outlives_the_request_that_computed_it() -> None:
    scheduler = make_scheduler()
    prompt = list(range(16))
    run(scheduler, [make_request("a", [*prompt, 100])])
    run(scheduler, [request := make_request("b", [*prompt, 200], max_tokens=5)])
    assert request.num_cached_tokens == 16
    assert request.output_token_ids == expected_output([*prompt, 200], 5)


def test_prefix_head_start_in_a_conversation_covers_the_answer_too() -> None:
    """The second turn starts with the first one's prompt and output."""
    scheduler = make_scheduler()
    run(scheduler, [first := make_request("turn 1", 10, max_tokens=10)])
    run(scheduler, [second := make_request("turn 2", [*first.all_token_ids, 1, 2, 3])])
    assert second.num_cached_tokens == 16, "19 of the 20 tokens were computed: 4 full blocks"


def test_prefix_head_start_is_capped_when_the_whole_prompt_is_cached() -> None:
    scheduler = make_scheduler()
    prompt = list(range(16))
    run(scheduler, [first := make_request("a", prompt)])
    run(scheduler, [second := make_request("b", prompt)])
    assert second.num_cached_tokens == 12
    assert first.output_token_ids == second.output_token_ids == expected_output(prompt, 16)


def test_prefix_head_start_without_prefix_caching_is_none() -> None:
    scheduler = make_scheduler(enable_prefix_caching=False)
    prompt = list(range(16))
    run(scheduler, [make_request("a", prompt)])
    run(scheduler, [request := make_request("b", prompt)])
    assert request.num_cached_tokens == 0
    assert scheduler.prefix_cache_stats.requests == 0


@pytest.mark.parametrize("budget", [1000, 20, 16, 14, 9])
def test_trap_12_a_prefix_may_be_shared_in_the_step_that_computes_it(budget: int) -> None:
    """Every layer writes all K and V before it attends, so the second request reads what the first
    writes.
    """
    scheduler = make_scheduler(max_num_batched_tokens=budget)
    prompt = list(range(16))
    requests = [make_request("a", [*prompt, 100]), make_request("b", [*prompt, 200])]
    outputs = run(scheduler, requests)
    if budget > 17:
        assert outputs[0].num_scheduled_tokens == {"a": 17, "b": 1}
    for request in requests:
        assert request.output_token_ids == expected_output(request.prompt_token_ids, 16)


def test_prefix_statistics_count_admissions() -> None:
    scheduler = make_scheduler(num_blocks=6)
    prompt = list(range(9))
    add(scheduler, make_request("a", prompt), make_request("b", [*prompt, 50, 51, 52]))
    step(scheduler)
    stats = scheduler.prefix_cache_stats
    assert (stats.requests, stats.queries, stats.hits) == (2, 21, 8)
    add(scheduler, make_request("c", 12))
    for _ in range(3):  # c is looked up in every step and never fits: that is not counted
        step(scheduler)
    assert stats.requests == 2


# --- preemption -----------------------------------------------------------------------------------


def make_crowd(**options: Any) -> tuple[Scheduler, list[Request]]:
    """Three requests of one full block each, 3 usable blocks: the next token of anybody needs a
    preemption.
    """
    scheduler = make_scheduler(num_blocks=4, **options)
    requests = [make_request(name, BLOCK, max_tokens=6) for name in "abc"]
    add(scheduler, *requests)
    assert step(scheduler) == {"a": 4, "b": 4, "c": 4}
    return scheduler, requests


def test_preemption_takes_the_youngest_until_the_oldest_fits() -> None:
    scheduler, (a, b, c) = make_crowd()
    output = scheduler.schedule()
    assert output.num_scheduled_tokens == {"a": 1}
    assert output.preempted_req_ids == ["c", "b"]
    assert ids(scheduler.waiting) == ["b", "c"], "back at the front, in their old order"
    assert ids(scheduler.running) == ["a"]
    assert [request.num_preemptions for request in (a, b, c)] == [0, 1, 1]


def test_preemption_takes_back_everything_but_the_tokens() -> None:
    scheduler, (_, _, c) = make_crowd()
    outputs = list(c.output_token_ids)
    assert (c.num_tokens, c.num_computed_tokens, len(outputs)) == (5, 4, 1)
    scheduler.schedule()
    assert c.status is RequestStatus.PREEMPTED
    assert (c.num_tokens, c.num_computed_tokens, c.output_token_ids) == (5, 0, outputs)
    assert scheduler.kv_cache_manager.get_block_ids("c") == []
    assert not c.is_finished


def test_preemption_and_admission_never_share_a_step() -> None:
    """d needs one block, and c's preemption freed more than that; but memory is short, so nobody
    new comes in.
    """
    scheduler = make_scheduler(num_blocks=7)
    add(scheduler, make_request("a", 12), make_request("b", 12))
    step(scheduler)
    add(scheduler, make_request("c", 1))
    output = scheduler.schedule()
    assert output.num_scheduled_tokens == {"a": 1}
    assert output.preempted_req_ids == ["b"]
    assert ids(scheduler.waiting) == ["b", "c"]
    assert scheduler.kv_cache_manager.num_free_blocks == 2


def test_preemption_may_hit_the_request_that_asked() -> None:
    scheduler = make_scheduler(num_blocks=4)
    add(scheduler, make_request("a", 2, max_tokens=20), b := make_request("b", 7, max_tokens=20))
    step(scheduler)
    step(scheduler)
    output = scheduler.schedule()
    assert output.num_scheduled_tokens == {"a": 1}
    assert output.preempted_req_ids == ["b"]
    assert b.status is RequestStatus.PREEMPTED


def test_preempted_request_is_resumed_with_its_outputs_and_the_prefix_that_is_left() -> None:
    scheduler = make_scheduler(num_blocks=7)
    add(scheduler, make_request("a", 11, max_tokens=4), b := make_request("b", 11, max_tokens=6))
    assert [list(step(scheduler)) for _ in range(2)] == [["a", "b"], ["a", "b"]]
    assert list(step(scheduler)) == ["a"]
    assert (b.status, b.num_tokens) == (RequestStatus.PREEMPTED, 13)
    assert list(step(scheduler)) == ["a"]  # a is finished now
    output = scheduler.schedule()
    assert output.num_scheduled_tokens == {"b": 5}, (
        "a took one of the three blocks that b had computed"
    )
    assert b.num_computed_tokens == 8
    assert b.num_cached_tokens == 0, "that is about the first admission"
    again = scheduler.preempted_prefix_cache_stats
    assert (again.requests, again.queries, again.hits) == (1, 13, 8)
    assert scheduler.prefix_cache_stats.requests == 2


def admit_one_by_one(scheduler: Scheduler, *requests: Request) -> None:
    for request in requests:
        add(scheduler, request)
        step(scheduler)
    assert scheduler.running == list(requests)


def test_trap_27_preemption_gives_the_tokens_of_a_scheduled_victim_back_to_the_budget() -> None:
    """Under priority the victim may be scheduled already: it leaves the step, and late gets its
    token.
    """
    scheduler = make_scheduler(num_blocks=6, policy="priority")
    low, high = make_request("low", 4, priority=9), make_request("high", 7, arrival_time=1.0)
    admit_one_by_one(scheduler, low, high, make_request("late", 1, arrival_time=2.0))
    scheduler.max_num_batched_tokens = 2
    output = scheduler.schedule()
    assert output.num_scheduled_tokens == {"high": 1, "late": 1}
    assert ids(output.scheduled_requests) == ["high", "late"]
    assert output.total_num_scheduled_tokens == 2
    assert output.preempted_req_ids == ["low"]
    assert ids(scheduler.running) == ["high", "late"]


def test_preemption_of_the_request_that_asked_does_not_stop_the_others() -> None:
    """Under priority the least urgent may stand first in running; those behind it go on."""
    scheduler = make_scheduler(num_blocks=4, policy="priority")
    admit_one_by_one(scheduler, make_request("low", 7, priority=9), make_request("high", 2))
    output = scheduler.schedule()
    assert output.num_scheduled_tokens == {"high": 1}
    assert output.preempted_req_ids == ["low"]


def test_preemption_in_the_middle_of_running_skips_nobody() -> None:
    """low stands between high and mid and is preempted by high; mid still gets its token in this
    step.
    """
    scheduler = make_scheduler(num_blocks=5, policy="priority")
    low, mid = make_request("low", 1, priority=9), make_request("mid", 1, priority=5)
    admit_one_by_one(scheduler, make_request("high", 6), low, mid)
    assert scheduler.kv_cache_manager.num_free_blocks == 0
    output = scheduler.schedule()
    assert output.num_scheduled_tokens == {"high": 1, "mid": 1}
    assert output.preempted_req_ids == ["low"]


def test_preemption_among_equals_takes_the_first_of_them() -> None:
    """max() returns the first maximum: vLLM's order for equal priority and arrival time."""
    scheduler = make_scheduler(num_blocks=4, policy="priority")
    admit_one_by_one(
        scheduler, make_request("a", 2, priority=-1), make_request("b", 1), make_request("c", 1)
    )
    while not (output := scheduler.schedule()).preempted_req_ids:
        scheduler.update_from_output(output, execute(scheduler, output))
    assert output.preempted_req_ids == ["b"]


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_trap_29_preemption_never_takes_the_more_urgent(policy: str) -> None:
    """fcfs: the last of running. priority: the largest (priority, arrival_time), wherever it
    stands.
    """
    scheduler = make_scheduler(num_blocks=9, policy=policy)
    requests = [
        make_request(str(i), 1 + i % 5, priority=i * 7 % 3, arrival_time=i * 5 % 8)
        for i in range(8)
    ]
    num_preemptions = 0
    while requests or scheduler.has_unfinished_requests():
        if requests:
            add(scheduler, requests.pop())
        candidates = list(scheduler.running)
        output = scheduler.schedule()
        for request_id in output.preempted_req_ids:
            victim = candidates[-1]
            if policy == "priority":
                victim = max(candidates, key=lambda r: (r.priority, r.arrival_time))
            assert victim.request_id == request_id
            candidates.remove(victim)
            num_preemptions += 1
        scheduler.update_from_output(output, execute(scheduler, output))
    assert num_preemptions > 3


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
@pytest.mark.parametrize("enable_prefix_caching", [True, False])
def test_trap_28_preemption_does_not_go_back_and_forth(
    policy: str, enable_prefix_caching: bool
) -> None:
    """Two requests, memory for one and a half: the older one is never preempted, so both end
    soon.
    """
    scheduler = make_scheduler(
        num_blocks=7, policy=policy, enable_prefix_caching=enable_prefix_caching
    )
    old, young = (
        make_request("a", 8, max_tokens=8),
        make_request("b", 8, max_tokens=8, arrival_time=1.0),
    )
    outputs = run(scheduler, [old, young])
    assert old.num_preemptions == 0
    assert young.num_preemptions == 1
    assert len(outputs) <= 8 + 8
    assert_idle(scheduler)


@pytest.mark.parametrize("enable_prefix_caching", [True, False])
@pytest.mark.parametrize("when", range(12))
def test_trap_23_preemption_at_any_step_changes_no_output(
    when: int, enable_prefix_caching: bool
) -> None:
    scheduler = make_scheduler(
        max_num_batched_tokens=7, enable_prefix_caching=enable_prefix_caching
    )
    requests = [make_request("a", 13, max_tokens=6), make_request("b", 9, max_tokens=6)]
    add(scheduler, *requests)
    for i, _ in enumerate(steps(scheduler)):
        if (
            i == when + 1
        ):  # the step that was just scheduled fails: both requests have to start again
            break
    scheduler.fail_step(_)
    assert all(request.num_computed_tokens == 0 for request in requests if not request.is_finished)
    list(steps(scheduler))
    for request in requests:
        assert request.output_token_ids == expected_output(request.prompt_token_ids, 6)
    assert_idle(scheduler)


@pytest.mark.parametrize("num_outputs", range(1, 6))
def test_trap_24_preempted_request_with_outputs_computes_them_again_and_samples_once(
    num_outputs: int,
) -> None:
    scheduler = make_scheduler(enable_prefix_caching=False)
    add(scheduler, request := make_request("a", 9, max_tokens=6))
    for _ in range(num_outputs):
        step(scheduler)
    scheduler.running.remove(request)
    scheduler._preempt(request)
    assert step(scheduler) == {"a": 9 + num_outputs}
    assert len(request.output_token_ids) == num_outputs + 1
    list(steps(scheduler))
    assert request.output_token_ids == expected_output(request.prompt_token_ids, 6)


def quirk_steps(scheduler: Scheduler) -> Iterator[dict[str, int]]:
    """The stale hit of the trace quirk_005: two chunks of B are computed, the third is scheduled
    and dropped.
    """
    d = make_request("D", [99], max_tokens=1, arrival_time=-1.0)
    b = make_request("B", list(range(1, 25)), max_tokens=2, priority=5)
    add(scheduler, d, b)
    yield step(scheduler)
    add(scheduler, make_request("A", list(range(50, 58)), max_tokens=3, arrival_time=1.0))
    while scheduler.has_unfinished_requests():
        yield step(scheduler)
    assert b.output_token_ids == expected_output(range(1, 25), 2)


def test_quirk_stale_hit_a_dropped_chunk_is_not_found_in_the_prefix_cache() -> None:
    """In step 2 B gets 8 tokens, then A preempts it. vLLM 0.33.0 resumes B at 20 tokens; only 16
    were computed.
    """
    scheduler = make_scheduler(
        9,
        policy="priority",
        max_num_seqs=4,
        max_num_batched_tokens=32,
        long_prefill_token_threshold=8,
    )
    run = quirk_steps(scheduler)
    assert [next(run) for _ in range(4)] == [{"D": 1, "B": 8}, {"B": 8, "A": 8}, {"A": 1}, {"A": 1}]
    (request,) = scheduler.waiting
    assert (request.request_id, request.num_preemptions) == ("B", 1)
    assert scheduler.kv_cache_manager.get_computed_blocks(request)[1] == 16
    assert list(run) == [{"B": 8}, {"B": 1}]
    assert_idle(scheduler)


# --- fairness and progress ------------------------------------------------------------------------


def test_trap_22_arrivals_do_not_starve_those_who_run() -> None:
    """A prompt of 16 tokens arrives in every step, and still every running request advances in
    every step.
    """
    scheduler = make_scheduler(500, max_num_seqs=8, max_num_batched_tokens=20)
    for i in range(60):
        add(scheduler, make_request(str(i), 16, max_tokens=6))
        running = ids(scheduler.running)
        assert set(running) <= set(step(scheduler))


def test_trap_26_every_request_ends_within_its_steps() -> None:
    for num_prompt_tokens, max_tokens, chunk in itertools.product(
        (1, 5, 12), (1, 2, 7), (1, 3, 100)
    ):
        scheduler = make_scheduler(max_num_batched_tokens=chunk)
        outputs = run(scheduler, [request := make_request("a", num_prompt_tokens, max_tokens)])
        assert len(outputs) == -(-num_prompt_tokens // chunk) + max_tokens - 1
        assert request.num_tokens == len(request.all_token_ids) == num_prompt_tokens + max_tokens
        assert request.all_token_ids == request.prompt_token_ids + request.output_token_ids


# --- after the step -------------------------------------------------------------------------------


def finish_with(token_ids: Sequence[int], max_tokens: int = 16, **options: Any) -> Request:
    """A request whose model says these tokens, one a step, until it is finished or they are used
    up.
    """
    scheduler = make_scheduler()
    add(scheduler, request := make_request("a", 4, max_tokens, **options))
    for token_id in token_ids:
        output = scheduler.schedule()
        assert scheduler.update_from_output(output, {"a": [token_id]}) == (
            [request] if request.is_finished else []
        )
        if request.is_finished:
            assert_idle(scheduler)
            break
    return request


@pytest.mark.parametrize(
    ("token_ids", "options", "output", "reason"),
    [
        ([5, 6, 7], {}, [5, 6, 7], None),
        ([5, 6, 7], {"max_tokens": 2}, [5, 6], "length"),
        ([5, 6, 7], {"eos_token_ids": [6, 7]}, [5, 6], "stop"),
        ([5, 6, 7], {"eos_token_ids": [6], "ignore_eos": True}, [5, 6, 7], None),
        ([5, 6, 7], {"stop_token_ids": [6]}, [5, 6], "stop"),
        (
            [5, 6, 7],
            {"stop_token_ids": [7], "eos_token_ids": [6], "ignore_eos": True},
            [5, 6, 7],
            "stop",
        ),
        ([5, 6, 7], {"eos_token_ids": [6], "max_tokens": 2}, [5, 6], "stop"),
        ([5, 6, 7], {"max_model_len": 6}, [5, 6], "length"),
        ([5, 6, 7], {"max_model_len": 4}, [5], "length"),
    ],
)
def test_why_a_request_ends(
    token_ids: list[int], options: Any, output: list[int], reason: str | None
) -> None:
    request = finish_with(token_ids, **options)
    assert request.output_token_ids == output
    assert request.finish_reason == reason


def test_nothing_is_kept_after_the_token_that_ends_a_request() -> None:
    scheduler = make_scheduler()
    add(scheduler, request := make_request("a", 4, stop_token_ids=[6]))
    output = scheduler.schedule()
    assert scheduler.update_from_output(output, {"a": [5, 6, 7]}) == [request]
    assert request.output_token_ids == [5, 6]


def test_update_returns_who_finished_in_step_order() -> None:
    scheduler = make_scheduler()
    requests = [make_request(name, 4, max_tokens=n) for name, n in (("a", 1), ("b", 2), ("c", 1))]
    add(scheduler, *requests)
    output = scheduler.schedule()
    assert ids(scheduler.update_from_output(output, {name: [7] for name in "cab"})) == ["a", "c"]
    assert ids(scheduler.running) == ["b"]
    assert scheduler.kv_cache_manager.get_block_ids("a") == []


def test_update_advances_the_counter_by_what_was_scheduled() -> None:
    scheduler = make_scheduler(max_num_batched_tokens=6)
    add(scheduler, request := make_request("a", 10))
    output = scheduler.schedule()
    assert request.num_computed_tokens == 0
    assert scheduler.update_from_output(output, {}) == []
    assert request.num_computed_tokens == 6
    assert request.output_token_ids == []


# --- from outside ---------------------------------------------------------------------------------

STATES = ["waiting", "chunk", "decoding", "preempted", "in flight", "first step in flight"]


def bring_to(
    state: str, **options: Any
) -> tuple[Scheduler, Request, list[Request], SchedulerOutput | None]:
    """A scheduler in which the request "x" is in the given state; the other requests; the step that
    is in flight.
    """
    small = state == "preempted"
    scheduler = make_scheduler(num_blocks=7 if small else 40, max_num_batched_tokens=22, **options)
    others = [
        make_request("a", 10, max_tokens=9),
        make_request("b", 6 if small else 10, max_tokens=9, arrival_time=1.0),
    ]
    x = make_request("x", 60 if state == "chunk" else 5, max_tokens=8, arrival_time=2.0)
    if state == "waiting":
        add(scheduler, *others, make_request("c", 80, max_tokens=1, arrival_time=1.5), x)
        step(scheduler)
        return scheduler, x, others, None
    add(scheduler, *others, x)
    if state == "first step in flight":
        return scheduler, x, others, scheduler.schedule()
    while small and not x.num_preemptions:
        step(scheduler)
    for _ in range(0 if small else 2):
        step(scheduler)
    return scheduler, x, others, scheduler.schedule() if state == "in flight" else None


@pytest.mark.parametrize("reason", FINISH_REASONS)
@pytest.mark.parametrize("state", STATES)
def test_a_request_can_be_finished_from_outside_in_any_state(state: str, reason: str) -> None:
    scheduler, x, others, in_flight = bring_to(state)
    expected = {"waiting": "WAITING", "preempted": "PREEMPTED"}.get(state, "RUNNING")
    assert x.status is RequestStatus[expected]
    sampled = execute(scheduler, in_flight) if in_flight else {}
    outputs = list(x.output_token_ids)
    scheduler.finish_request("x", reason)
    assert x.finish_reason == reason
    assert scheduler.kv_cache_manager.get_block_ids("x") == []
    assert x not in scheduler.running
    assert x not in scheduler.waiting
    if in_flight:
        assert "x" in in_flight.num_scheduled_tokens
        assert x not in scheduler.update_from_output(in_flight, sampled)
    scheduler.finish_request("x", "abort")  # nobody of that name any more: ignored
    for output in steps(scheduler):
        assert "x" not in output.num_scheduled_tokens
    assert (x.output_token_ids, x.finish_reason) == (outputs, reason), (
        "what was in flight is dropped"
    )
    for other in others:
        assert other.output_token_ids == expected_output(other.prompt_token_ids, 9), (
            "nobody else notices"
        )
    assert_idle(scheduler)


def test_abort_is_a_finish_with_that_reason() -> None:
    scheduler = make_scheduler()
    add(scheduler, request := make_request("a", 4))
    scheduler.abort_request("nobody")
    scheduler.abort_request("a")
    assert request.status is RequestStatus.FINISHED_ABORTED
    assert_idle(scheduler)


def test_finish_with_an_unknown_reason_is_refused() -> None:
    scheduler = make_scheduler()
    add(scheduler, request := make_request("a", 4))
    for reason in ("running", "because"):
        with pytest.raises(
            InvalidParameterError, match=rf"\['stop', 'length', 'abort', 'error'\], got '{reason}'"
        ):
            scheduler.finish_request("a", reason)
    assert not request.is_finished
    assert ids(scheduler.waiting) == ["a"]


def test_a_request_id_can_be_used_again_while_the_old_request_is_in_flight() -> None:
    """The old request's token must not reach the new one."""
    scheduler = make_scheduler()
    add(scheduler, old := make_request("a", 4))
    output = scheduler.schedule()
    sampled = execute(scheduler, output)
    scheduler.abort_request("a")
    add(scheduler, new := make_request("a", 6))
    assert scheduler.update_from_output(output, sampled) == []
    assert (old.output_token_ids, new.output_token_ids, new.num_computed_tokens) == ([], [], 0)
    list(steps(scheduler))
    assert new.output_token_ids == expected_output(new.prompt_token_ids, 16)


def test_abort_of_the_first_request_in_flight_leaves_the_others_their_tokens() -> None:
    scheduler = make_scheduler()
    a, b = make_request("a", 4), make_request("b", 5)
    add(scheduler, a, b)
    output = scheduler.schedule()
    sampled = execute(scheduler, output)
    scheduler.abort_request("a")
    scheduler.update_from_output(output, sampled)
    assert (a.output_token_ids, b.output_token_ids) == ([], expected_output(b.prompt_token_ids, 1))
    assert b.num_computed_tokens == 5


def test_content_of_an_aborted_step_may_be_hit_since_the_model_ran() -> None:
    scheduler = make_scheduler()
    prompt = list(range(9))
    add(scheduler, make_request("a", prompt))
    output = scheduler.schedule()
    sampled = execute(scheduler, output)
    scheduler.abort_request("a")
    scheduler.update_from_output(output, sampled)
    run(scheduler, [request := make_request("b", prompt)])
    assert request.num_cached_tokens == 8
    assert request.output_token_ids == expected_output(prompt, 16)


# --- a step that failed ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "aborted", [(), ("a",), ("b",), ("c",), ("a", "b"), ("a", "b", "c"), ("b", "a")]
)
@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_fail_step_leaves_no_unwritten_block_in_the_prefix_cache(
    policy: str, aborted: tuple[str, ...]
) -> None:
    """b and c share in the step that fails what a was to write; some are aborted while it is in
    flight.
    """
    scheduler = make_scheduler(policy=policy)
    kv = scheduler.kv_cache_manager
    prompt = list(range(16))
    add(
        scheduler,
        *[
            make_request(name, [*prompt, *range(100 * i, 100 * i + 9)])
            for i, name in enumerate("abc", 1)
        ],
    )
    output = scheduler.schedule()
    assert output.num_scheduled_tokens == {"a": 25, "b": 9, "c": 9}
    assert kv.num_cached_blocks == 4 + 3 * 2
    for request_id in aborted:
        scheduler.abort_request(request_id)
    scheduler.fail_step(output)
    assert kv.num_cached_blocks == 0
    assert kv.num_free_blocks == kv.num_usable_blocks
    assert ids(scheduler.waiting) == [name for name in "abc" if name not in aborted]
    for request in scheduler.waiting:
        assert request.status is RequestStatus.PREEMPTED
        assert (request.num_computed_tokens, request.num_preemptions) == (0, 1)
    add(scheduler, make_request("d", [*prompt, 5]))
    for request in (waiting := list(scheduler.waiting)):
        assert kv.get_computed_blocks(request)[1] == 0
    list(steps(scheduler))
    for request in waiting:
        assert request.output_token_ids == expected_output(request.prompt_token_ids, 16)
    assert_idle(scheduler)


def test_fail_step_keeps_what_earlier_steps_wrote() -> None:
    scheduler = make_scheduler(max_num_batched_tokens=10)
    add(scheduler, request := make_request("a", 25))
    step(scheduler)
    output = scheduler.schedule()
    assert scheduler.kv_cache_manager.num_cached_blocks == 5
    scheduler.fail_step(output)
    assert scheduler.kv_cache_manager.num_cached_blocks == 2
    assert step(scheduler) == {"a": 10}
    assert request.num_computed_tokens == 18


def test_fail_step_keeps_what_an_aborted_request_wrote_before() -> None:
    scheduler = make_scheduler(max_num_batched_tokens=10)
    add(scheduler, request := make_request("a", 25))
    step(scheduler)
    output = scheduler.schedule()
    scheduler.abort_request("a")
    scheduler.fail_step(output)
    assert scheduler.kv_cache_manager.num_cached_blocks == 2
    run(scheduler, [again := make_request("b", request.prompt_token_ids)])
    assert again.num_cached_tokens == 8
    assert again.output_token_ids == expected_output(again.prompt_token_ids, 16)


def test_fail_step_leaves_those_who_were_not_in_the_step_alone() -> None:
    scheduler = make_scheduler(max_num_batched_tokens=2)
    requests = [make_request(name, 1, max_tokens=5) for name in "abc"]
    add(scheduler, *requests)
    step(scheduler)
    scheduler.max_num_batched_tokens = 3
    step(scheduler)
    scheduler.max_num_batched_tokens = 2
    scheduler.fail_step(scheduler.schedule())
    assert ids(scheduler.running) == ["c"]
    assert ids(scheduler.waiting) == ["a", "b"]
    list(steps(scheduler))
    for request in requests:
        assert request.output_token_ids == expected_output(request.prompt_token_ids, 5)


def test_fail_step_twice_undoes_it_once() -> None:
    scheduler = make_scheduler()
    add(scheduler, request := make_request("a", 9))
    output = scheduler.schedule()
    scheduler.fail_step(output)
    scheduler.fail_step(output)
    assert request.num_preemptions == 1
    assert list(scheduler.waiting) == [request]
    scheduler.fail_step(scheduler.schedule())
    assert request.num_preemptions == 2


# --- refusals -------------------------------------------------------------------------------------


def test_trap_01_a_prompt_larger_than_the_cache_is_refused_and_nobody_else_notices() -> None:
    scheduler = make_scheduler(num_blocks=4)
    add(scheduler, request := make_request("a", 12, max_tokens=1))
    with pytest.raises(
        PromptTooLongError,
        match=r"'b': the prompt has 13 tokens, at most 12 fit .* cache 12 tokens",
    ):
        add(scheduler, make_request("b", 13))
    assert ids(scheduler.waiting) == ["a"]
    assert step(scheduler) == {"a": 12}
    assert request.finish_reason == "length"
    assert_idle(scheduler)


def test_trap_03_whatever_cannot_be_served_is_answered_at_once() -> None:
    """The refusal is an exception in the caller's hands, never a request that waits without end."""
    scheduler = make_scheduler(num_blocks=40, max_model_len=20)
    for request in (
        make_request("a", 21),
        make_request("b", 9, max_model_len=8),
        make_request("c", 500),
    ):
        with pytest.raises(PromptTooLongError, match="at most"):
            add(scheduler, request)
        assert not scheduler.has_unfinished_requests()
    add(scheduler, make_request("a", 20), make_request("b", 8, max_model_len=8))
    assert step(scheduler) == {"a": 20, "b": 8}


def test_a_request_id_in_flight_is_refused() -> None:
    scheduler = make_scheduler()
    add(scheduler, request := make_request("a", 4, max_tokens=2))
    for _ in range(2):
        with pytest.raises(DuplicateRequestError, match="'a' is still in flight"):
            add(scheduler, make_request("a", 4))
        step(scheduler)
    assert request.is_finished
    add(scheduler, make_request("a", 4))


@pytest.mark.parametrize("num_prompt_tokens", range(1, 13))
def test_trap_02_a_request_that_outgrows_the_cache_ends_with_length(num_prompt_tokens: int) -> None:
    """The cache has 12 slots. The 13th token needs none, since the last token is never computed."""
    scheduler = make_scheduler(num_blocks=4)
    outputs = run(scheduler, [request := make_request("a", num_prompt_tokens, max_tokens=100)])
    assert request.finish_reason == "length"
    assert request.num_tokens == 13
    assert request.num_preemptions == 0
    assert len(outputs) == 13 - num_prompt_tokens
    assert request.output_token_ids == expected_output(
        request.prompt_token_ids, 13 - num_prompt_tokens
    )


def test_max_model_len_is_lowered_to_what_fits() -> None:
    assert make_scheduler(num_blocks=4).max_model_len == 13
    assert make_scheduler(num_blocks=4, max_model_len=13).max_model_len == 13
    scheduler = make_scheduler(num_blocks=4, max_model_len=100)
    assert scheduler.max_model_len == 13
    requests = [
        make_request(name, 2, max_model_len=n) for name, n in (("a", None), ("b", 100), ("c", 7))
    ]
    add(scheduler, *requests)
    assert [request.max_model_len for request in requests] == [13, 13, 7]
    scheduler = make_scheduler(num_blocks=4, max_model_len=9)
    add(scheduler, request := make_request("a", 2, max_tokens=100))
    list(steps(scheduler))
    assert (request.num_tokens, request.finish_reason) == (9, "length")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policy": "lifo"}, "policy must be 'fcfs' or 'priority', got 'lifo'"),
        ({"max_num_seqs": 0}, "at least 1, got max_num_seqs 0, max_num_batched_tokens 1000"),
        (
            {"max_num_batched_tokens": 0},
            "at least 1, got max_num_seqs 16, max_num_batched_tokens 0",
        ),
        (
            {"long_prefill_token_threshold": -1},
            "long_prefill_token_threshold must be at least 0, got -1",
        ),
        ({"watermark": -0.1}, "got -0.1, 397"),
        ({"watermark": 1.0}, r"watermark must be in \[0, 1\), .* got 1.0, 397"),
        ({"max_model_len": 0}, "max_model_len at least 1, got 0.0, 0"),
        (
            {"enable_chunked_prefill": False, "max_num_batched_tokens": 395},
            "at least max_model_len 397, got 395",
        ),
        (
            {"enable_chunked_prefill": False, "max_num_batched_tokens": 39, "max_model_len": 40},
            "at least max_model_len 40, got 39",
        ),
    ],
)
def test_limits_of_the_constructor(options: Mapping[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        make_scheduler(**options)


def test_limits_themselves_are_allowed() -> None:
    make_scheduler(max_num_seqs=1, max_num_batched_tokens=1, max_model_len=1)
    make_scheduler(enable_chunked_prefill=False, max_num_batched_tokens=40, max_model_len=40)
    scheduler = make_scheduler(enable_chunked_prefill=False, max_num_batched_tokens=396)
    run(scheduler, [request := make_request("a", 396, max_tokens=5)])
    assert request.finish_reason == "length"


def test_trap_62_an_option_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError, match="max_num_batch_tokens"):
        make_scheduler(max_num_batch_tokens=100)


# --- parts ----------------------------------------------------------------------------------------


class Doorkeeper(Part):
    """Lets in what it is told to, and ends what it is told to."""

    def __init__(self) -> None:
        self.admitted: set[str] = set()
        self.ending: dict[str, int] = {}
        self.told: list[tuple[str, ...]] = []

    def add(self, requests: Sequence[Request]) -> None:
        self.told.append(("add", *(request.request_id for request in requests)))

    def before_schedule(self, scheduler: SchedulerInterface) -> None:
        self.told.append(("before", *(request.request_id for request in scheduler.waiting)))

    def may_admit(self, request: Request) -> bool:
        return request.request_id in self.admitted

    def after_schedule(self, step: Step, scheduler: SchedulerInterface) -> None:
        for request in scheduler.requests:
            if request.request_id in self.ending:
                num_tokens = self.ending[request.request_id]
                step.end(request, RequestFailedError("no more"), num_tokens)

    def ended(self, request: Request) -> None:
        self.told.append(("ended", request.request_id))


def test_a_part_holds_requests_back_and_they_keep_their_places() -> None:
    scheduler, part = make_scheduler(), Doorkeeper()
    scheduler.attach(part)
    add(scheduler, *(make_request(name, 5) for name in "abcd"))
    part.admitted = {"b", "d"}
    output = Step.decide(scheduler).output
    assert list(output.num_scheduled_tokens) == ["b", "d"]
    assert output.blocked == {"a": "a part", "c": "a part"}
    assert [request.request_id for request in scheduler.waiting] == ["a", "c"]
    scheduler.abort_request("a")
    adds = [("add", name) for name in "abcd"]
    assert part.told == [*adds, ("before", *"abcd"), ("ended", "a")]


def test_a_part_ends_a_request_in_its_place_of_the_step_or_out_of_the_queue() -> None:
    scheduler, part = make_scheduler(), Doorkeeper()
    scheduler.attach(part)
    requests = [make_request(name, 5) for name in "abc"]
    add(scheduler, *requests)
    part.admitted, part.ending = {"a", "b"}, {"a": 1, "c": 1}
    step = Step.decide(scheduler)
    finished = step.update(scheduler, {"a": [7], "b": [7]})
    assert [request.request_id for request in finished] == ["a", "c"]
    assert [request.finish_reason for request in requests] == ["error", None, "error"]
    assert [request.output_token_ids for request in requests] == [[7], [7], []]
    assert {request.request_id for request in step.errors} == {"a", "c"}
    assert part.told[-2:] == [("ended", "a"), ("ended", "c")]
    assert scheduler.kv_cache_manager.get_block_ids("a") == []


# --- determinism ----------------------------------------------------------------------------------

WHOLE_RUN = """
import json, random
from mini_vllm.observe.trace import run_trace
rng = random.Random(7)
requests = [
    {"id": f"r{i}", "arrival_step": i, "max_tokens": 6, "sample_seed": i % 2, "priority": i % 3,
     "prompt": [rng.randrange(2) for _ in range(rng.randint(1, 12))],
     "cache_salt": (None, "a", "b")[i % 3]} for i in range(20)]
config = {"block_size": 2, "num_blocks": 16, "max_num_seqs": 5, "max_num_batched_tokens": 12,
          "policy": "priority", "vocab_size": 2}
print(json.dumps(run_trace({"name": "x", "config": config, "requests": requests})))
"""


def test_trap_21_decisions_do_not_depend_on_pythons_hash_seed() -> None:
    """Two processes, two seeds, the same blocks: else the ranks of a parallel engine would
    disagree.
    """
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", WHOLE_RUN],
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONHASHSEED": seed},
            cwd=Path(__file__).parent.parent,
        )
        for seed in ("1", "2")
    ]
    one, two = (process.communicate()[0] for process in runs)
    assert one == two
    assert b"preempted" in one


# --- the places that a subclass opens -------------------------------------------------------------


class PassesOver(Scheduler):
    """Admits the first that is ready."""

    not_ready: Collection[str] = ()

    def _next_waiting(self) -> Request | None:
        return next(
            (request for request in self.waiting if request.request_id not in self.not_ready), None
        )


def test_a_request_that_is_not_ready_is_passed_over_and_keeps_its_turn() -> None:
    scheduler = PassesOver(KVCache(100, BLOCK), max_num_seqs=16, max_num_batched_tokens=1000)
    scheduler.not_ready = {"a", "c"}
    requests = [make_request(name, 5, max_tokens=3) for name in "abcd"]
    add(scheduler, *requests)
    assert step(scheduler) == {"b": 5, "d": 5}
    assert ids(scheduler.waiting) == ["a", "c"]
    scheduler.not_ready = {"a"}
    assert step(scheduler) == {"b": 1, "d": 1, "c": 5}
    scheduler.not_ready = ()
    assert list(step(scheduler))[-1] == "a"
    assert scheduler.prefix_cache_stats.requests == 4


def test_running_requests_are_served_in_the_order_that_is_asked_for() -> None:
    scheduler = make_scheduler()
    requests = [make_request(name, 5) for name in "abc"]
    add(scheduler, *requests)
    step(scheduler)
    output = SchedulerOutput()
    assert scheduler._schedule_running(requests[:0:-1], output, 7) == 5
    assert output.num_scheduled_tokens == {"c": 1, "b": 1}


def test_a_request_catches_up_with_its_target() -> None:
    class TwoDrafts(Scheduler):
        def _target(self, request: Request) -> int:
            return request.num_tokens + 2 * (request.status is RequestStatus.RUNNING)

    scheduler = TwoDrafts(KVCache(100, BLOCK), max_num_seqs=16, max_num_batched_tokens=1000)
    request = make_request("a", 5)
    add(scheduler, request)
    step(scheduler)
    output = scheduler.schedule()
    assert output.num_scheduled_tokens == {"a": 3}
    assert [scheduler.needs_sample(request, n) for n in (0, 1, 3)] == [False, True, True]
