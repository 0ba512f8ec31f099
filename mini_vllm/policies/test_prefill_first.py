"""The rules of prefill_first: what a prefill step admits and cuts, what it charges, and what nano-vllm asserts away."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mini_vllm.errors import InvalidParameterError, PromptTooLongError
from mini_vllm.policies.prefill_first import PrefillFirstScheduler, in_prefill
from mini_vllm.request import Request
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


# --- two kinds of step ------------------------------------------------------------------------------------------------


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
    requests = [make_request(name, n, max_tokens=2) for name, n in (("a", 6), ("b", 3), ("c", 5), ("d", 1))]
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
    scheduler = make_scheduler(enable_chunked_prefill=False, max_num_batched_tokens=40, max_model_len=40)
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
    requests = [make_request(name, 5, max_tokens=1, priority=p) for name, p in (("a", 2), ("b", 0), ("c", 1))]
    assert counts(scheduler, *requests) == [{"b": 5}, {"c": 5}, {"a": 5}]


# --- what the budget pays for -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("charge_cached_tokens", "expected"), [(False, [{"b": 3, "c": 4}]), (True, [{"b": 3}, {"c": 4}])]
)
def test_what_cached_tokens_cost(charge_cached_tokens: bool, expected: list[dict[str, int]]) -> None:
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


# --- where nano-vllm asserts ------------------------------------------------------------------------------------------


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


# --- preemption -------------------------------------------------------------------------------------------------------


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
    """Under priority the victim of a chunk may be a chunk that was scheduled before it in the same step."""
    options = {"policy": "priority", "reserve_full_sequence": False, "long_prefill_token_threshold": 4}
    scheduler = make_scheduler(num_blocks=6, max_num_batched_tokens=4, enable_prefix_caching=False, **options)
    add(scheduler, make_request("a", 20, max_tokens=1, priority=9))
    assert step(scheduler) == {"a": 4}
    add(scheduler, make_request("b", 20, max_tokens=1, priority=0), make_request("c", 20, max_tokens=1, priority=1))
    scheduler.max_num_batched_tokens = 12
    assert step(scheduler) == {"a": 4, "b": 4, "c": 4}
    scheduler.max_num_batched_tokens = budget
    assert step(scheduler) == {"b": 4, "c": 4}, "a had taken 4 of 9; with 20 there would be room for its first block"
    assert ids(scheduler.waiting) == ["a"]


# --- as laws ----------------------------------------------------------------------------------------------------------

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
        admitted += [r.request_id for r in output.scheduled_requests if r.request_id not in admitted]
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
