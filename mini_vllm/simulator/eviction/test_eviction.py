"""Eviction policies against slow ones that follow the definitions, and against brute force."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from random import Random

import pytest

from mini_vllm.errors import InvalidParameterError
from mini_vllm.load.workload import TraceRequest
from mini_vllm.simulator.eviction import (
    ARC,
    LRU,
    POLICIES,
    AgeingLFU,
    Belady,
    EvictionPolicy,
    LeafFirst,
    PromptOrderLRU,
)
from mini_vllm.simulator.eviction.policy import Prompt, prompts_of, replay

SEEDS = range(25)


def some_prompts(rng: Random, num_prompts: int, depth: int, width: int) -> list[Prompt]:
    """Paths from the root of a tree; a name stands for its whole path."""
    names: dict[tuple[int, ...], int] = {}
    prompts = []
    for _ in range(num_prompts):
        path = tuple(min(rng.randrange(width), rng.randrange(width)) for _ in range(depth))
        path = path[: rng.randint(1, depth)]
        prompts.append([names.setdefault(path[: i + 1], len(names)) for i in range(len(path))])
    return prompts


def single_blocks(rng: Random, num_prompts: int, num_names: int) -> list[Prompt]:
    """Prompts of one block, as the papers know requests; some names are asked for more often."""
    return [[min(rng.randrange(num_names), rng.randrange(num_names))] for _ in range(num_prompts)]


def hits_one_by_one(policy: EvictionPolicy, prompts: Sequence[Prompt]) -> list[int]:
    return [policy.use(prompt) for prompt in prompts]


# --- the rules of the cache -----------------------------------------------------------------------


@pytest.mark.parametrize("name", POLICIES)
def test_a_prompt_is_there_when_it_was_computed_and_the_cache_is_never_too_full(name: str) -> None:
    for seed in SEEDS:
        rng = Random(seed)
        prompts = some_prompts(rng, 40, 4, 3)
        policy = POLICIES[name](rng.randint(4, 12), prompts)
        for prompt in prompts:
            before = {*policy}
            num_hits = policy.use(prompt)
            assert {*prompt} <= {*policy}
            assert len(policy) == len({*policy}) <= policy.num_blocks
            assert [each in before for each in prompt[: num_hits + 1]] == (
                [True] * num_hits + [False] * (num_hits < len(prompt))
            )
            # nothing goes before there is no room left
            assert len(policy) == min(len(before | {*prompt}), policy.num_blocks)


@pytest.mark.parametrize("name", POLICIES)
def test_a_cache_for_all_finds_whatever_was_asked_before(name: str) -> None:
    prompts = some_prompts(Random(1), 60, 4, 3)
    seen: set[int] = set()
    expected = 0
    for prompt in prompts:
        expected += sum(block in seen for block in prompt)
        seen.update(prompt)
    assert replay(prompts, POLICIES[name](1000, prompts)).num_hits == expected


@pytest.mark.parametrize("name", POLICIES)
def test_a_prompt_that_does_not_fit_is_refused_and_changes_nothing(name: str) -> None:
    policy = POLICIES[name](3, [[1, 2]])
    policy.use([1, 2])
    with pytest.raises(InvalidParameterError, match="a prompt of 4 blocks does not fit into 3"):
        policy.use([1, 2, 3, 4])
    assert {*policy} == {1, 2}
    with pytest.raises(InvalidParameterError, match="num_blocks must be at least 1, got 0"):
        POLICIES[name](0)


def test_only_full_blocks_of_a_prompt_are_asked_for() -> None:
    trace = [TraceRequest(0.0, 1024, 9, (5, 6)), TraceRequest(1.0, 1000, 9, (5, 7))]
    prompts = prompts_of(trace)
    assert [[*prompt] for prompt in prompts] == [[5, 6], [5]]
    found = replay(prompts, LRU(10))
    assert (found.num_asked, found.num_hits, found.hit_rate) == (3, 1, 1 / 3)


# --- each policy against its definition -----------------------------------------------------------


def test_lru_and_leaf_first_keep_the_same_blocks() -> None:
    """With tails used before heads, the oldest block of all is always a leaf."""
    for seed in SEEDS:
        rng = Random(seed)
        prompts, num_blocks = some_prompts(rng, 60, 4, 3), rng.randint(4, 12)
        lru, leaf_first = LRU(num_blocks), LeafFirst(num_blocks)
        for prompt in prompts:
            assert lru.use(prompt) == leaf_first.use(prompt)
            assert {*lru} == {*leaf_first}


def test_lru_forgets_what_was_used_longest_ago() -> None:
    for seed in SEEDS:
        rng = Random(seed)
        policy, last_use = LRU(5), dict[int, int]()
        for time, (block,) in enumerate(single_blocks(rng, 80, 12)):
            policy.use([block])
            last_use[block] = time
            assert {*policy} == {*sorted(last_use, key=last_use.__getitem__)[-5:]}


def test_the_order_of_the_prompt_leaves_tails_without_heads() -> None:
    prompts = [[1, 2, 3], [4, 5], [1, 2, 3]]
    good, bad = (replay(prompts[:2], policy(4)) for policy in (LRU, PromptOrderLRU))
    assert (good.num_orphans, bad.num_orphans) == (0, 2)
    good, bad = (replay(prompts, policy(4)) for policy in (LRU, PromptOrderLRU))
    assert (good.num_hits, bad.num_hits) == (2, 0)


def arc_of_the_paper(blocks: Sequence[int], c: int) -> list[bool]:
    """Figure 4 of the paper, line by line."""
    t1, t2, b1, b2 = (list[int]() for _ in range(4))
    p, hits = 0.0, []

    def replace(x: int) -> None:
        if t1 and (len(t1) > p or (x in b2 and len(t1) == p)):
            b1.append(t1.pop(0))
        else:
            b2.append(t2.pop(0))

    for x in blocks:
        hits.append(x in t1 or x in t2)
        if hits[-1]:
            (t1 if x in t1 else t2).remove(x)
            t2.append(x)
        elif x in b1:
            p = min(c, p + max(1, len(b2) / len(b1)))
            replace(x)
            b1.remove(x)
            t2.append(x)
        elif x in b2:
            p = max(0, p - max(1, len(b1) / len(b2)))
            replace(x)
            b2.remove(x)
            t2.append(x)
        else:
            if len(t1) + len(b1) == c:
                if len(t1) < c:
                    b1.pop(0)
                    replace(x)
                else:
                    t1.pop(0)
            elif len(t1) + len(t2) + len(b1) + len(b2) >= c:
                if len(t1) + len(t2) + len(b1) + len(b2) == 2 * c:
                    b2.pop(0)
                replace(x)
            t1.append(x)
    return hits


def test_arc_is_that_of_the_paper() -> None:
    num_moved = 0
    for seed in SEEDS:
        rng = Random(seed)
        prompts = single_blocks(rng, 200, 14)
        policy = ARC(5)
        found = [bool(hit) for hit in hits_one_by_one(policy, prompts)]
        assert found == arc_of_the_paper([block for (block,) in prompts], 5)
        num_moved += policy.target not in (0, 5)
    assert num_moved > 3, "the border moved"


def test_the_lists_of_arc_stay_within_their_limits() -> None:
    for seed in SEEDS:
        rng = Random(seed)
        num_blocks = rng.randint(4, 9)
        policy = ARC(num_blocks)
        for prompt in some_prompts(rng, 80, 4, 3):
            policy.use(prompt)
            ghosts = {*policy.once_ghosts} | {*policy.again_ghosts}
            assert ghosts.isdisjoint(policy)
            assert len(policy.once) + len(policy.once_ghosts) <= num_blocks
            assert len(policy) + len(ghosts) <= 2 * num_blocks
            assert 0 <= policy.target <= num_blocks


def test_lfu_forgets_the_least_priority() -> None:
    for seed in SEEDS:
        rng, age, policy = Random(seed), 0, AgeingLFU(5)
        cached: dict[int, tuple[int, int, int]] = {}  # uses, priority, last use
        for time, (block,) in enumerate(single_blocks(rng, 120, 14)):
            policy.use([block])
            if block not in cached and len(cached) == 5:
                victim = min(cached, key=lambda name: cached[name][1:])
                age = cached.pop(victim)[1]
            num_uses = cached.get(block, (0, 0, 0))[0] + 1
            cached[block] = num_uses, age + num_uses, time
            assert {*policy} == {*cached}


def test_what_was_used_often_long_ago_goes_at_last() -> None:
    policy = AgeingLFU(2)
    for _ in range(9):
        policy.use([1])
    for block in range(2, 40):
        policy.use([block])
        policy.use([block])
    assert 1 not in policy


# --- the bound ------------------------------------------------------------------------------------


def most_hits(prompts: Sequence[Prompt], num_blocks: int) -> int:
    """Of all ways to choose what stays behind each prompt, the best one."""

    @lru_cache(None)
    def best(number: int, cached: frozenset[int]) -> int:
        if number == len(prompts):
            return 0
        prompt = prompts[number]
        found = next((i for i, name in enumerate(prompt) if name not in cached), len(prompt))
        rest = cached - {*prompt}
        num_kept = min(len(rest), num_blocks - len(prompt))
        return found + max(
            best(number + 1, frozenset(prompt).union(kept)) for kept in combinations(rest, num_kept)
        )

    return best(0, frozenset())


def test_belady_is_as_good_as_every_choice_there_is() -> None:
    num_full = 0
    for seed in SEEDS:
        rng = Random(seed)
        prompts, num_blocks = some_prompts(rng, 9, 3, 3), rng.randint(3, 6)
        found = replay(prompts, Belady(num_blocks, prompts))
        assert found.num_hits == most_hits(prompts, num_blocks)
        assert found.num_orphans == 0
        num_full += found.num_hits > replay(prompts, LRU(num_blocks)).num_hits
    assert num_full > 5, "blocks gave way, and it mattered which"


def test_no_policy_beats_belady() -> None:
    for seed in SEEDS:
        rng = Random(seed)
        prompts, num_blocks = some_prompts(rng, 50, 5, 3), rng.randint(5, 30)
        bound = replay(prompts, Belady(num_blocks, prompts)).num_hits
        for policy in POLICIES.values():
            assert replay(prompts, policy(num_blocks, prompts)).num_hits <= bound
