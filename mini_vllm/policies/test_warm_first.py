"""The rules of warm_first: its score, the order that follows from it, and the bounds on waiting."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mini_vllm.errors import InvalidParameterError
from mini_vllm.policies.warm_first import PATIENCE, WarmFirstScheduler, score
from mini_vllm.request import Request, RequestStatus
from mini_vllm.test_scheduler import (
    BLOCK,
    KVCache,
    add,
    assert_idle,
    execute,
    expected_output,
    ids,
    make_request,
    step,
    steps,
)

SETTINGS = settings(derandomize=True, database=None, deadline=None, max_examples=60)


def make_scheduler(num_blocks: int = 100, **options: Any) -> WarmFirstScheduler:
    caching = {key: options.pop(key) for key in ("enable_prefix_caching",) if key in options}
    options = {"max_num_seqs": 16, "max_num_batched_tokens": 1000} | options
    return WarmFirstScheduler(KVCache(num_blocks, BLOCK, **caching), **options)


# --- the score ------------------------------------------------------------------------------------

AGES = st.integers(0, 1000)
WARMTHS = st.floats(0, 1, exclude_max=True)


@SETTINGS
@given(age=AGES, older=AGES, warmth=WARMTHS, warmer=WARMTHS)
def test_score_grows_with_age_and_warmth_up_to_a_limit(
    age: int, older: int, warmth: float, warmer: float
) -> None:
    age, older = sorted((age, older))
    warmth, warmer = sorted((warmth, warmer))
    assert 1 <= score(age, warmth) <= score(older, warmer) <= 2
    assert score(PATIENCE, warmth) == 2


def test_score_puts_warm_resumes_before_prefills_before_decodes() -> None:
    assert score(1, 0.9) > score(1, 0.5) > score(1, 0.0)
    assert score(0, 0.0) > score(PATIENCE - 1, 1.0, is_decode=True) == 0
    assert score(1, 1.0) == 2, "under way"


@pytest.mark.parametrize("is_decode", [False, True])
def test_score_of_a_running_request_without_patience_is_above_all_who_wait(is_decode: bool) -> None:
    longer, long = (score(age, 1.0, is_decode=is_decode) for age in (PATIENCE + 1, PATIENCE))
    assert longer > long > score(10**6, 0.9)


# --- the order of a step --------------------------------------------------------------------------


def test_prefills_come_before_decodes_which_fill_up_the_step() -> None:
    scheduler = make_scheduler(max_num_batched_tokens=10)
    add(scheduler, make_request("a", 4, max_tokens=30))
    step(scheduler)
    add(scheduler, make_request("b", 25, max_tokens=3), make_request("c", 3, max_tokens=3))
    assert step(scheduler) == {"b": 10}
    assert step(scheduler) == {"b": 10}
    assert step(scheduler) == {"b": 5, "c": 3, "a": 1}
    assert step(scheduler) == {"a": 1, "b": 1, "c": 1}


def test_a_decode_that_waited_long_enough_comes_first() -> None:
    scheduler = make_scheduler(max_num_batched_tokens=10)
    add(scheduler, make_request("a", 4, max_tokens=30))
    step(scheduler)
    add(scheduler, make_request("b", 200, max_tokens=3))
    for _ in range(PATIENCE - 1):
        assert step(scheduler) == {"b": 10}
    assert step(scheduler) == {"a": 1, "b": 9}
    assert step(scheduler) == {"b": 10}


def bring_back(num_evicted: int) -> WarmFirstScheduler:
    """A scheduler with "old", preempted after 41 tokens, and "new", both waiting; some blocks of
    "old" are evicted.
    """
    scheduler = make_scheduler(num_blocks=31, max_num_seqs=3, max_num_batched_tokens=41)
    add(scheduler, old := make_request("old", 40, max_tokens=20))
    step(scheduler)
    step(scheduler)
    scheduler.running.remove(old)
    scheduler._preempt(old)
    free = scheduler.kv_cache_manager.block_pool
    for block in [block for block in free.blocks if block.block_hash is not None][
        10 - num_evicted :
    ]:
        free.uncache_block(block)
    return scheduler


def test_a_warm_resume_comes_before_a_prefill_and_a_cold_one_after_an_older_prefill() -> None:
    for num_evicted, order in ((0, ["old", "new"]), (10, ["new", "old"])):
        scheduler = bring_back(num_evicted)
        add(scheduler, make_request("new", 9, max_tokens=2))
        scheduler._since["new"] -= 3  # it waited 3 steps longer
        assert list(step(scheduler)) == order, num_evicted
        list(steps(scheduler))
        assert_idle(scheduler)


def test_the_warmest_of_the_resumed_comes_first() -> None:
    scheduler = make_scheduler(num_blocks=60, max_num_batched_tokens=100)
    requests = [make_request(name, 20, max_tokens=9) for name in "abc"]
    add(scheduler, *requests)
    step(scheduler)
    scheduler.fail_step(scheduler.schedule())
    pool = scheduler.kv_cache_manager.block_pool
    for name, num_kept in (("a", 1), ("b", 5), ("c", 3)):
        request = next(r for r in requests if r.request_id == name)
        for block_hash in request.block_hashes[num_kept:]:
            pool.uncache_hash(block_hash)
    assert ids(scheduler.waiting) == ["a", "b", "c"]
    assert step(scheduler) == {"b": 1, "c": 9, "a": 17}
    list(steps(scheduler))
    for request in requests:
        assert request.output_token_ids == expected_output(request.prompt_token_ids, 9)


def test_a_preempted_request_keeps_its_place() -> None:
    scheduler = make_scheduler(num_blocks=7, max_num_seqs=2, enable_prefix_caching=False)
    add(scheduler, make_request("a", 11, max_tokens=9), make_request("b", 11, max_tokens=9))
    step(scheduler)
    add(scheduler, make_request("c", 1, max_tokens=9))
    while "b" not in ids(scheduler.waiting):
        step(scheduler)
    step(scheduler)
    assert ids(scheduler.running) == ["a"]
    assert ids(scheduler.waiting) == ["b", "c"], "c would fit, but the place is b's"


def test_admission_leaves_a_block_for_each_decode_that_follows() -> None:
    """Else the decode would preempt who was just admitted, in the same step, again and again."""
    scheduler = make_scheduler(num_blocks=6, max_num_batched_tokens=9, enable_prefix_caching=False)
    add(scheduler, make_request("a", 8, max_tokens=6))
    step(scheduler)
    add(scheduler, make_request("b", 12, max_tokens=1))
    output = scheduler.schedule()
    assert output.num_scheduled_tokens == {"a": 1}, (
        "a takes one of the three blocks that are free; b needs all"
    )
    assert not output.preempted_req_ids


def test_a_victim_that_was_scheduled_in_the_step_is_taken_out_of_it() -> None:
    """Two decodes are overdue; the younger one has waited longer and is first, and then the victim
    of the other.
    """
    scheduler = make_scheduler(num_blocks=4, enable_prefix_caching=False)
    add(scheduler, make_request("a", 4, max_tokens=9), make_request("b", 5, max_tokens=9))
    assert step(scheduler) == {"a": 4, "b": 5}
    scheduler._since["b"] -= PATIENCE + 1
    scheduler._since["a"] -= PATIENCE
    output = scheduler.schedule()
    assert output.preempted_req_ids == ["b"]
    assert output.num_scheduled_tokens == {"a": 1}


def test_priority_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="policy must be 'fcfs', got 'priority'"):
        make_scheduler(policy="priority")
    with pytest.raises(InvalidParameterError, match="policy must be 'fcfs', got 'lifo'"):
        make_scheduler(policy="lifo")


# --- bounds ---------------------------------------------------------------------------------------


def drive(
    scheduler: WarmFirstScheduler, arrivals: dict[int, list[Request]], num_steps: int
) -> dict[str, list[int]]:
    """The steps in which each request got tokens; while it runs, the gap between two of them is
    bounded.
    """
    served: dict[str, list[int]] = {}
    bound = PATIENCE + scheduler.max_num_seqs
    for at in range(num_steps):
        add(scheduler, *arrivals.get(at, ()))
        output = scheduler.schedule()
        scheduler.update_from_output(output, execute(scheduler, output))
        for request_id in output.preempted_req_ids:  # its gap begins again
            served[request_id].append(at)
        for request_id in output.num_scheduled_tokens:
            served.setdefault(request_id, []).append(at)
        for request in scheduler.running:
            assert at - served[request.request_id][-1] < bound, "it starves"
    return served


@SETTINGS
@given(
    seed=st.integers(0, 10**6),
    budget=st.sampled_from((1, 3, 8, 16)),
    max_num_seqs=st.sampled_from((2, 5, 9)),
    num_blocks=st.sampled_from((12, 20, 60)),
)
@pytest.mark.slow
def test_nobody_who_runs_starves_under_endless_arrivals(
    seed: int, budget: int, max_num_seqs: int, num_blocks: int
) -> None:
    rng = random.Random(seed)
    scheduler = make_scheduler(num_blocks, max_num_batched_tokens=budget, max_num_seqs=max_num_seqs)
    arrivals = {
        at: [
            make_request(f"{at}.{i}", rng.randint(1, 30), max_tokens=rng.randint(1, 12))
            for i in range(rng.randint(0, 2))
        ]
        for at in range(120)
    }
    drive(scheduler, arrivals, 120)
    waiting, num_running = list(scheduler.waiting), len(scheduler.running)
    num_resumed = sum(request.status is RequestStatus.PREEMPTED for request in waiting)
    assert all(request.status is RequestStatus.PREEMPTED for request in waiting[:num_resumed])
    assert num_resumed + num_running <= max_num_seqs


@settings(SETTINGS, max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    budget=st.sampled_from((4, 16, 40)),
    num_blocks=st.sampled_from((12, 20)),
)
@pytest.mark.slow
def test_nobody_who_waits_starves_under_endless_arrivals(
    seed: int, budget: int, num_blocks: int
) -> None:
    """New ones are admitted in turn, and every one of the first ones ends, though one more arrives
    in every step.
    """
    rng = random.Random(seed)
    scheduler = make_scheduler(num_blocks, max_num_batched_tokens=budget, max_num_seqs=4)
    first = [
        make_request(f"f{i}", rng.randint(1, 30), max_tokens=rng.randint(1, 8)) for i in range(6)
    ]
    arrivals = {
        at: [make_request(f"{at}", rng.randint(1, 8), max_tokens=3)] for at in range(1, 250)
    }
    served = drive(scheduler, {0: first} | arrivals, 250)
    for request in first:
        assert request.is_finished
        assert request.output_token_ids == expected_output(
            request.prompt_token_ids, request.max_tokens
        )
    order = list(served)  # by their first tokens
    assert order == [f"f{i}" for i in range(6)] + [str(at) for at in range(1, len(order) - 5)]


def test_nothing_remembers_a_request_that_is_gone() -> None:
    scheduler = make_scheduler()
    add(scheduler, make_request("a", 4, max_tokens=1), make_request("b", 4), make_request("c", 4))
    step(scheduler)
    scheduler.abort_request("b")
    scheduler.finish_request("c", "stop")
    assert scheduler._since == {}
