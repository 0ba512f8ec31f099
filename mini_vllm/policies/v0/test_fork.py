"""Forks and copy-on-write: nobody ever reads what another one wrote over a past they share.

ForkWorld holds the manager against a model of the content of every slot; a copy happens when the
manager asks for it.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from mini_vllm.params import SamplingParams
from mini_vllm.policies.v0.fork import ForkingKVCacheManager
from mini_vllm.request import Request, RequestStatus
from mini_vllm.step import KVPlan
from mini_vllm.test_core_properties import Cache, check_pool, explore, prefix, snapshot


def make_request(request_id: str, prompt: Sequence[int]) -> Request:
    return Request(request_id, prompt, SamplingParams())


class ForkWorld:
    def __init__(
        self, num_blocks: int = 12, block_size: int = 3, enable_prefix_caching: bool = True
    ) -> None:
        self.kv = ForkingKVCacheManager(
            num_blocks, block_size, enable_prefix_caching=enable_prefix_caching
        )
        self.cache = Cache(self.kv)
        self.live: list[Request] = []
        self.num_requests = 0

    def new_request(self, prompt: Sequence[int]) -> Request:
        self.num_requests += 1
        return make_request(str(self.num_requests), prompt)

    def compute(self, request: Request, n: int, written: bool = True) -> bool:
        """Allocate and compute n tokens; written: False is a step that fails. Returns whether there
        was room.
        """
        kv, pool = self.kv, self.kv.block_pool
        before, table = snapshot(pool), kv.get_block_ids(request.request_id)
        start, size = request.num_computed_tokens, kv.block_size
        num_needed = kv.num_blocks_needed(request, start + n)
        assert snapshot(pool) == before
        new = kv.allocate_slots(request, n)
        assert (new is None) == (num_needed > len(before[0]))
        if new is None:
            assert (snapshot(pool), kv.get_block_ids(request.request_id), kv.begin_step().copy) == (
                before,
                table,
                (),
            )
            return False
        assert kv.num_free_blocks == len(before[0]) - num_needed, "the copies are counted"
        after = kv.get_block_ids(request.request_id)
        for i in range(start // size, len(after)):
            assert pool.blocks[after[i]].ref_cnt == 1, "what is written is nobody else's"
        plan = kv.begin_step()
        copies = list(plan.copy)
        assert [(a, b) for a, b in zip(table, after, strict=False) if a != b] == copies
        assert request.request_id in plan.rewritten_req_ids or not copies
        assert all(
            pool.blocks[a].ref_cnt and pool.blocks[a].block_hash is None for a, _ in copies
        ), "only a partial one"
        for source, target in copies:
            for offset in range(size):
                self.cache.slots[target, offset] = self.cache.slots.get((source, offset))  # type: ignore[assignment]
        if written:
            self.cache.write_and_read([(request, n)])
            request.num_computed_tokens += n
        else:
            kv.free(request)
            self.live.remove(request)
        return True

    def add(self, prompt: Sequence[int]) -> None:
        request = self.new_request(prompt)
        self.live.append(request)
        if not self.compute(request, request.num_tokens):
            self.live.remove(request)

    def grow(self, choice: int, tokens: Sequence[int], written: bool) -> None:
        if self.live:
            request = self.live[choice % len(self.live)]
            if request.num_computed_tokens == request.num_tokens:
                for token_id in tokens:
                    request.append_output_token(token_id)
            self.compute(request, request.num_tokens - request.num_computed_tokens, written)

    def fork(self, choice: int) -> None:
        if self.live:
            parent = self.live[choice % len(self.live)]
            child = self.new_request(parent.all_token_ids)
            child.num_computed_tokens = parent.num_computed_tokens
            num_free = self.kv.num_free_blocks
            self.kv.fork(parent, child)
            assert self.kv.get_block_ids(child.request_id) == self.kv.get_block_ids(
                parent.request_id
            )
            assert self.kv.num_free_blocks == num_free, "a fork costs no block"
            self.live.append(child)

    def append_all(self, choice: int) -> None:
        """Every request that shares blocks with one request decodes at once: what
        num_blocks_to_append counts for.
        """
        if not self.live:
            return
        first = set(self.kv.get_block_ids(self.live[choice % len(self.live)].request_id))
        family = [r for r in self.live if first & set(self.kv.get_block_ids(r.request_id))]
        tails = {self.kv.get_block_ids(r.request_id)[-1] for r in family}
        family = [r for r in self.live if tails & set(self.kv.get_block_ids(r.request_id))]
        if any(r.num_computed_tokens < r.num_tokens for r in family):
            return
        for i, request in enumerate(family):
            request.append_output_token(i % 2)
        num_needed, num_free = self.kv.num_blocks_to_append(family), self.kv.num_free_blocks
        if num_needed <= num_free:
            assert all(self.compute(request, 1) for request in family)
            assert self.kv.num_free_blocks == num_free - num_needed
        else:
            assert not all(self.compute(request, 1) for request in family)

    def free(self, choice: int, finished: bool) -> None:
        if self.live:
            request = self.live.pop(choice % len(self.live))
            if finished:
                request.status = RequestStatus.FINISHED_ABORTED
            self.kv.free(request)

    def move(self, choices: Sequence[int]) -> None:
        """Out to somewhere else, and back into other blocks that are shared as before."""
        chosen = list(
            {
                id(r): r for c in choices if self.live for r in [self.live[c % len(self.live)]]
            }.values()
        )
        tables = {r.request_id: self.kv.get_block_ids(r.request_id) for r in chosen}
        content = {
            b: [self.cache.slots.get((b, i)) for i in range(self.kv.block_size)]
            for t in tables.values()
            for b in t
        }
        for request in chosen:
            self.kv.free(request)
        before = snapshot(self.kv.block_pool)
        # other requests hold what these shared with them
        if len(content) > self.kv.num_free_blocks:
            with pytest.raises(ValueError, match="are free"):
                self.kv.rebuild(tables)
            assert snapshot(self.kv.block_pool) == before
            self.live = [r for r in self.live if r not in chosen]
            return
        self.kv.rebuild(tables)
        assert self.kv.num_free_blocks == len(before[0]) - len(content)
        for request in chosen:
            for old, new in zip(
                tables[request.request_id], self.kv.get_block_ids(request.request_id), strict=True
            ):
                for i, each in enumerate(content[old]):
                    self.cache.slots[new, i] = each  # type: ignore[assignment]

    def check(self) -> None:
        kv, size = self.kv, self.kv.block_size
        check_pool(
            kv.block_pool, [[block.block_id for block in table] for table in kv._tables.values()]
        )
        assert set(kv._tables) == {request.request_id for request in self.live}
        for request in self.live:
            table = kv.get_block_ids(request.request_id)
            assert len(table) == -(-request.num_computed_tokens // size)
            for p in range(request.num_computed_tokens):
                assert self.cache.slots[table[p // size], p % size] == prefix(request, p + 1)
        self.cache.check()


TOKENS = st.integers(0, 1)
CHOICES = st.integers(0, 5)


class ForkMachine(RuleBasedStateMachine):
    @initialize(block_size=st.integers(1, 4), enable_prefix_caching=st.booleans())
    def begin(self, block_size: int, enable_prefix_caching: bool) -> None:
        self.world = ForkWorld(12, block_size, enable_prefix_caching)

    @rule(prompt=st.lists(TOKENS, min_size=1, max_size=9))
    def add(self, prompt: list[int]) -> None:
        self.world.add(prompt)
        self.world.check()

    @rule(
        choice=CHOICES,
        tokens=st.lists(TOKENS, min_size=1, max_size=5),
        written=st.sampled_from((True, True, False)),
    )
    def grow(self, choice: int, tokens: list[int], written: bool) -> None:
        self.world.grow(choice, tokens, written)
        self.world.check()

    @rule(choice=CHOICES)
    def fork(self, choice: int) -> None:
        self.world.fork(choice)
        self.world.check()

    @rule(choice=CHOICES)
    def append_all(self, choice: int) -> None:
        self.world.append_all(choice)
        self.world.check()

    @rule(choice=CHOICES, finished=st.booleans())
    def free(self, choice: int, finished: bool) -> None:
        self.world.free(choice, finished)
        self.world.check()

    @rule(choices=st.lists(CHOICES, max_size=4))
    def move(self, choices: list[int]) -> None:
        self.world.move(choices)
        self.world.check()


@pytest.mark.slow
def test_laws_of_forks() -> None:
    explore(ForkMachine, 60)


def test_the_partial_block_is_copied_by_all_writers_but_the_last() -> None:
    kv = ForkingKVCacheManager(20, 4)
    family = [make_request(name, range(6)) for name in "abc"]
    kv.allocate_slots(family[0], 6)
    for request in family:
        request.num_computed_tokens = 6
        if request is not family[0]:
            kv.fork(family[0], request)
        request.append_output_token(9)
    assert kv.num_free_blocks == 17
    assert kv.num_blocks_to_append(family) == 2
    assert [kv.num_blocks_needed(request, 7) for request in family] == [1, 1, 1]
    for request in family:
        kv.allocate_slots(request, 1)
    assert kv.begin_step().copy == ((2, 3), (2, 4))
    assert [kv.get_block_ids(name) for name in "abc"] == [[1, 3], [1, 4], [1, 2]]
    assert kv.begin_step() == KVPlan()


def test_a_full_block_is_shared_for_ever() -> None:
    kv = ForkingKVCacheManager(20, 4, enable_prefix_caching=False)
    parent, child = make_request("a", range(8)), make_request("b", range(8))
    kv.allocate_slots(parent, 8)
    parent.num_computed_tokens = child.num_computed_tokens = 8
    kv.fork(parent, child)
    for request in (parent, child):
        request.append_output_token(9)
        kv.allocate_slots(request, 1)
    assert kv.begin_step() == KVPlan()
    assert [kv.get_block_ids(name) for name in "ab"] == [[1, 2, 3], [1, 2, 4]]


def test_a_copy_without_a_free_block_changes_nothing() -> None:
    kv = ForkingKVCacheManager(3, 4)
    parent, child = make_request("a", range(6)), make_request("b", range(6))
    kv.allocate_slots(parent, 6)
    parent.num_computed_tokens = child.num_computed_tokens = 6
    kv.fork(parent, child)
    child.append_output_token(9)
    before: Any = snapshot(kv.block_pool)
    assert kv.allocate_slots(child, 1) is None
    assert (snapshot(kv.block_pool), kv.begin_step()) == (before, KVPlan())
    with pytest.raises(AssertionError, match="holds blocks already"):
        kv.fork(parent, child)
