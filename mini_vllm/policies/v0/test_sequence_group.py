"""The rules of vLLM V0's scheduler, and the three laws under forks, copy-on-write and swapping.

GroupWorld drives the scheduler with a model of what every slot of every block holds, on the device
and in main memory. Its checks are what the rules allow, not a copy of them. The numbers of laws are
those of test_core_properties.py.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from mini_vllm.config import EngineConfig
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.recovery import RecoveringCore
from mini_vllm.errors import (
    DuplicateRequestError,
    GroupTooLargeError,
    InvalidParameterError,
    PromptTooLongError,
)
from mini_vllm.frontend.output_processor import RequestOutput
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.observe.trace import run_trace
from mini_vllm.params import SamplingParams
from mini_vllm.policies.v0.group_kv_cache import GroupKVCacheManager
from mini_vllm.policies.v0.sequence import GroupSchedulerOutput
from mini_vllm.policies.v0.sequence_group import SequenceGroupScheduler
from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import SchedulerOutput
from mini_vllm.step import KVPlan, KVResult
from mini_vllm.test_core_properties import (
    SALTS,
    a_sixth,
    check_pool,
    prefix,
)


@dataclass(frozen=True, slots=True)
class Options:
    """What a scheduler is made with."""

    num_blocks: int = 14
    block_size: int = 2
    num_cpu_blocks: int = 20
    enable_prefix_caching: bool = True
    max_num_seqs: int = 6
    max_num_batched_tokens: int = 12
    policy: str = "fcfs"
    watermark: float = 0.0


DOMAINS: dict[str, tuple[Any, ...]] = {
    "num_blocks": (6, 9, 14, 14, 20),
    "block_size": (1, 2, 2, 3),
    "num_cpu_blocks": (0, 6, 20, 60, 60),
    "enable_prefix_caching": (True, False),
    "max_num_seqs": (2, 4, 6),
    "max_num_batched_tokens": (2, 4, 7, 20),
    "policy": ("fcfs", "fcfs", "priority"),
    "watermark": (0.0, 0.0, 0.2),
}


def choice_of(request: Request) -> int:
    return int(request.request_id.split("_")[0])


def next_token(token_ids: Sequence[int], choice: int) -> int:
    """The fake model; 2 is EOS. Choices soon part."""
    return hash((choice, len(token_ids), *token_ids)) % 11 % 3


def expected_output(request: Request) -> list[int]:
    outputs: list[int] = []
    assert request.max_model_len is not None
    while (
        len(outputs) < request.max_tokens
        and request.num_prompt_tokens + len(outputs) < request.max_model_len
    ):
        outputs.append(next_token(request.prompt_token_ids + outputs, choice_of(request)))
        if outputs[-1] in request.stop_token_ids:
            break
    return outputs


class GroupWorld:
    """A scheduler, its cache, its CPU pool and its model."""

    def __init__(self, options: Options) -> None:
        o = self.options = options
        self.kv = GroupKVCacheManager(
            o.num_blocks,
            o.block_size,
            enable_prefix_caching=o.enable_prefix_caching,
            num_cpu_blocks=o.num_cpu_blocks,
        )
        self.scheduler = SequenceGroupScheduler(
            self.kv,
            max_num_seqs=o.max_num_seqs,
            max_num_batched_tokens=o.max_num_batched_tokens,
            policy=o.policy,
            watermark=o.watermark,
        )
        self.slots: dict[tuple[int, int], Any] = {}
        self.cpu_slots: dict[tuple[int, int], Any] = {}
        self.live: dict[str, Request] = {}
        self.num_groups = 0
        self.seen: Counter[str] = Counter()
        self.plan = KVPlan()  # of the step in flight

    # operations

    def add(
        self,
        prompt: Sequence[int],
        salt: str | None,
        n: int,
        max_tokens: int,
        priority: int,
        eos: bool,
    ) -> None:
        requests = [
            Request(
                f"{i}_{self.num_groups}",
                prompt,
                SamplingParams(max_tokens=max_tokens, ignore_eos=not eos),
                eos_token_ids=(2,),
                priority=priority,
                arrival_time=float(self.num_groups // 2),
                cache_salt=salt,
            )
            for i in range(n)
        ]
        self.num_groups += 1
        before = list(self.scheduler.waiting), dict(self.scheduler._groups)
        try:
            self.scheduler.add_group(requests)
            self.live.update({request.request_id: request for request in requests})
        except (GroupTooLargeError, PromptTooLongError):
            assert (list(self.scheduler.waiting), self.scheduler._groups) == before
        self.check()

    def step(self, aborts: Sequence[int] = ()) -> None:
        output = self.schedule()
        sampled = self.execute(output)
        for choice in aborts:
            self.abort(choice)
        self.kv.end_step(KVResult())
        self.scheduler.update_from_output(output, sampled)
        for request_id, request in list(self.live.items()):
            assert request.is_finished == (request_id not in self.scheduler._requests)
            # (28)
            assert (
                request.output_token_ids
                == expected_output(request)[: len(request.output_token_ids)]
            )
            if request.is_finished:
                assert request.output_token_ids == expected_output(request)  # (30)
                del self.live[request_id]
        self.check()

    def fail(self, aborts: Sequence[int] = ()) -> None:
        """A step that raises; of what it was to write, copy and swap nothing is done."""
        output = self.schedule()
        for choice in aborts:
            self.abort(choice)
        self.scheduler.fail_step(output)
        for request in output.scheduled_requests:
            if not request.is_finished:
                # (33)
                assert (request.status, request.num_computed_tokens) == (RequestStatus.PREEMPTED, 0)
        assert not any(group.is_swapped for group in output.swapped_out)
        self.scheduler.fail_step(output)  # twice undoes it once
        self.kv.end_step(None)
        self.check()

    def abort(self, choice: int) -> None:
        if self.live:
            request_id = list(self.live)[choice % len(self.live)]
            self.scheduler.abort_request(request_id)
            assert self.live.pop(request_id).finish_reason == "abort"
            # (32)
            assert (
                self.kv.get_block_ids(request_id)
                == self.kv.cpu_pool.get_block_ids(request_id)
                == []
            )

    def preempt(self, choice: int) -> None:
        """From outside, as tests of the engine do."""
        running = self.scheduler.running
        if running:
            self.scheduler._preempt_group(self.group(running[choice % len(running)]))
        self.check()

    def drain(self) -> None:
        bound = 4 * sum(r.num_prompt_tokens + r.max_tokens for r in self.live.values()) ** 2
        for _ in range(bound):
            if not self.live:
                break
            self.step()
        assert not self.live  # (25)
        scheduler, space = self.scheduler, self.kv.cpu_pool
        maps = (
            scheduler._requests,
            scheduler._groups,
            self.kv._tables,
            space._tables,
            +space._ref_cnt,
        )
        assert not any((*maps, scheduler.waiting, scheduler.running))  # (34)
        assert sorted(self.kv.free_block_ids()) == list(range(1, self.kv.num_blocks))  # (34)
        assert sorted(space._free) == list(range(space.num_blocks))

    # what a step must look like

    def group(self, request: Request) -> Any:
        return self.scheduler._groups[request.request_id]

    def schedule(self) -> GroupSchedulerOutput:
        scheduler, kv, o = self.scheduler, self.kv, self.options
        running, waiting = list(scheduler.running), list(scheduler.waiting)
        was_swapped = [r for r in waiting if self.group(r).is_swapped]
        ready = [
            r
            for r in running
            if r.num_tokens - r.num_computed_tokens == 1
            and r.num_computed_tokens >= r.num_prefill_tokens
        ]
        pending = bool(self.kv._swap_out)
        output = scheduler.schedule()
        self.plan = kv.begin_step()
        preempted = [r for r in running if r.request_id in output.preempted_req_ids]
        stayed = [r for r in running if r not in preempted]
        entered = scheduler.running[len(stayed) :]
        assert scheduler.running == stayed + entered
        assert waiting[: len(entered)] == entered, "nobody is overtaken"
        came_back = [r for r in entered if r in was_swapped]
        self.seen["swap out"] += bool(output.swapped_out)
        self.seen["swap in"] += bool(came_back)
        self.seen["recompute"] += any(not self.group(r).is_swapped for r in preempted)
        self.seen["copy"] += bool(self.plan.copy)
        self.seen["fork"] += bool(output.sampling_along)
        # V0's rules of order
        assert not (self.plan.swap_in and self.plan.swap_out)
        if preempted:
            assert not entered, "nothing comes in when something was preempted"
        if was_swapped:
            assert entered == came_back, "swapped groups come before waiting ones"
        scheduled = output.scheduled_requests
        in_cache = [
            r
            for r in entered
            if len(self.group(r).sequences) > 1 and r.num_tokens - r.num_computed_tokens == 1
        ]
        decoding = [r for r in (*ready, *came_back, *in_cache) if not self.group(r).unforked]
        if any(r in decoding for r in scheduled):
            prompts = [r for r in scheduled if r not in decoding and r not in ready]
            assert not prompts, "prefills and decodes never share a step"
            assert all(n == 1 for n in output.num_scheduled_tokens.values())
            assert all(r in came_back or r in in_cache for r in entered)
            for request in scheduled:
                group = self.group(request)
                assert [r for r in scheduled if self.group(r) is group] == group.sequences, (
                    "a group decodes in step"
                )
            if not was_swapped and not preempted and scheduler.waiting:
                self.check_head_does_not_fit(ready)
        self.check_victims(preempted, running, waiting)
        # budgets and progress
        assert output.total_num_scheduled_tokens <= o.max_num_batched_tokens  # (21)
        assert len(scheduler.running) <= o.max_num_seqs  # (21)
        assert bool(scheduled) == bool(self.live) or pending  # (24)
        for name, forks in output.sampling_along.items():
            assert self.group(self.live[name]).unforked == forks
            assert scheduler.needs_sample(self.live[name], output.num_scheduled_tokens[name])
        assert not kv.begin_step(), "everything is told once"
        self.check()
        return output

    def check_head_does_not_fit(self, ready: Sequence[Request]) -> None:
        """A decode step though a group waits: there was no room for it before it, so there is none
        after it.
        """
        group = self.group(self.scheduler.waiting[0])
        places = self.options.max_num_seqs - len(self.scheduler.running)
        first = group.sequences[0]
        num_blocks = -(-first.num_tokens // self.kv.block_size)
        spare = self.scheduler.num_watermark_blocks
        if len(group.sequences) == 1:
            assert len(group.requests) > places or num_blocks + spare > self.kv.num_free_blocks

    def check_victims(
        self, preempted: list[Request], running: list[Request], waiting: list[Request]
    ) -> None:
        scheduler = self.scheduler
        groups = list(dict.fromkeys(self.group(r) for r in running))
        if self.options.policy == "priority":
            groups.sort(key=lambda group: group.urgency)
        victims = [group for group in groups if group.requests[0] in preempted]
        assert victims == groups[len(groups) - len(victims) :], "victims are taken from the tail"
        assert len(victims) < len(groups) or not groups, "the first group always fits"
        for group in victims:
            assert all(r.status is RequestStatus.PREEMPTED for r in group.requests)
            if len(group.sequences) == 1:
                assert not group.is_swapped, "one sequence is recomputed"
        if preempted and self.options.policy == "fcfs":
            swapped = [r for g in reversed(victims) if g.is_swapped for r in g.requests]
            others = [r for g in victims if not g.is_swapped for r in g.requests]
            before = [r for r in waiting if self.group(r).is_swapped]
            behind = [r for r in waiting if r not in before]
            assert list(scheduler.waiting) == before + swapped + others + behind

    def execute(self, output: SchedulerOutput) -> dict[str, list[int]]:
        """Swap out, swap in, copy, then write, then read, as the runner does."""
        size = self.kv.block_size
        for pairs, sources, targets in (
            (self.plan.swap_out, self.slots, self.cpu_slots),
            (self.plan.swap_in, self.cpu_slots, self.slots),
            (self.plan.copy, self.slots, self.slots),
        ):
            assert len({target for _, target in pairs}) == len(pairs)
            moved = {(b, i): sources.get((a, i)) for a, b in pairs for i in range(size)}
            targets.update(moved)
        chunks = [
            (r, r.num_computed_tokens, output.num_scheduled_tokens[r.request_id])
            for r in output.scheduled_requests
        ]
        written: set[tuple[int, int]] = set()
        for request, start, n in chunks:
            table = self.kv.get_block_ids(request.request_id)
            for p in range(start, start + n):
                slot = table[p // size], p % size
                assert slot not in written, "two requests write one slot"
                written.add(slot)
                self.slots[slot] = prefix(request, p + 1)
        sampled = {}
        for request, start, n in chunks:
            table = self.kv.get_block_ids(request.request_id)
            for p in range(start + n):
                assert self.slots[table[p // size], p % size] == prefix(request, p + 1)  # (7)
            if self.scheduler.needs_sample(request, n):
                for each in (request, *output.sampling_along.get(request.request_id, ())):
                    sampled[each.request_id] = [next_token(each.all_token_ids, choice_of(each))]
        return sampled

    def check(self) -> None:
        scheduler, kv, space = self.scheduler, self.kv, self.kv.cpu_pool
        # (2, 3)
        check_pool(
            kv.block_pool, [[block.block_id for block in table] for table in kv._tables.values()]
        )
        held = Counter(i for table in space._tables.values() for i in table)
        assert held == +space._ref_cnt
        assert sorted((*held, *space._free)) == list(range(space.num_blocks)), (
            "CPU blocks are held or free"
        )
        places = [*scheduler.waiting, *scheduler.running]
        # (23)
        assert (
            sorted(r.request_id for r in places)
            == sorted(scheduler._requests)
            == sorted(scheduler._groups)
        )
        groups = [self.group(r) for r in places]
        assert [g for i, g in enumerate(groups) if not i or g is not groups[i - 1]] == list(
            dict.fromkeys(groups)
        )
        assert [r for g in dict.fromkeys(groups) for r in g.requests] == places, (
            "a group stands together"
        )
        flags = [self.group(r).is_swapped for r in scheduler.waiting]
        assert flags == sorted(flags, reverse=True), "swapped ones stand first"
        for request in places:
            status = request.status
            group = self.group(request)
            assert (status is RequestStatus.RUNNING) == (request in scheduler.running)  # (23)
            assert (request.request_id in space) == group.is_swapped
            has_table = request.request_id in kv._tables
            assert not has_table or (
                status is RequestStatus.RUNNING and request not in group.unforked
            )
            assert request.num_computed_tokens == 0 or has_table or group.is_swapped


def drive(rng: random.Random, num_operations: int, **fixed: Any) -> GroupWorld:
    world = GroupWorld(
        Options(**({name: rng.choice(values) for name, values in DOMAINS.items()} | fixed))
    )
    for _ in range(num_operations):
        operation = rng.random()
        aborts = [rng.randrange(8) for _ in range(rng.choice((0, 0, 0, 0, 1, 2)))]
        if operation < 0.25 and len(world.live) < 10:
            prompt = [rng.randrange(2) for _ in range(rng.randint(1, 9))]
            n, salt = rng.choice((1, 1, 2, 3, 4)), rng.choice(SALTS)
            world.add(prompt, salt, n, rng.randint(1, 9), rng.randrange(3), rng.random() < 0.3)
        elif operation < 0.88:
            world.step(aborts)
        elif operation < 0.93:
            world.fail(aborts)
        elif operation < 0.96:
            world.preempt(rng.randrange(8))
        else:
            world.abort(rng.randrange(8))
            world.check()
    world.drain()
    return world


def test_laws_of_the_scheduler() -> None:
    for seed in range(20):
        drive(random.Random(seed), 50)


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
@pytest.mark.slow
def test_laws_hold_in_crowded_worlds_and_everything_occurs_there(policy: str) -> None:
    seen: Counter[str] = Counter()
    for seed in range(40):
        crowded = {
            "num_blocks": 14,
            "num_cpu_blocks": 60,
            "max_num_seqs": 6,
            "max_num_batched_tokens": 20,
        }
        seen += drive(
            random.Random(seed), 60, policy=policy, block_size=2, watermark=0.0, **crowded
        ).seen
    counts = {name: seen[name] for name in ("swap out", "swap in", "recompute", "copy", "fork")}
    assert min(counts.values()) >= 10, counts


@pytest.mark.slow
def test_laws_hold_for_long() -> None:
    """100,000 operations at night."""
    for seed in range(a_sixth(1000)):
        try:
            drive(random.Random(seed), 100)
        except Exception as error:
            raise AssertionError(f"drive(random.Random({seed}), 100) breaks a law") from error


# --- the rules, one a test ------------------------------------------------------------------------


def make_scheduler(
    num_blocks: int = 100, block_size: int = 4, **options: Any
) -> SequenceGroupScheduler:
    caching, num_cpu_blocks = (
        options.pop("enable_prefix_caching", False),
        options.pop("num_cpu_blocks", 50),
    )
    kv = GroupKVCacheManager(
        num_blocks, block_size, enable_prefix_caching=caching, num_cpu_blocks=num_cpu_blocks
    )
    return SequenceGroupScheduler(
        kv, **({"max_num_seqs": 16, "max_num_batched_tokens": 100} | options)
    )


def make_group(
    name: str, num_prompt_tokens: int, n: int = 1, max_tokens: int = 20
) -> list[Request]:
    base = 1000 * sum(ord(c) for c in name)
    prompt = range(base, base + num_prompt_tokens)
    return [Request(f"{i}_{name}", prompt, SamplingParams(max_tokens=max_tokens)) for i in range(n)]


def step(scheduler: SequenceGroupScheduler) -> GroupSchedulerOutput:
    return step_with_plan(scheduler)[0]


def step_with_plan(scheduler: SequenceGroupScheduler) -> tuple[GroupSchedulerOutput, KVPlan]:
    """One step of a model whose choices part at once."""
    output = scheduler.schedule()
    plan = scheduler.kv_cache_manager.begin_step()
    sampled = {}
    for request in output.scheduled_requests:
        if scheduler.needs_sample(request, output.num_scheduled_tokens[request.request_id]):
            for each in (request, *output.sampling_along.get(request.request_id, ())):
                sampled[each.request_id] = [choice_of(each)]
    scheduler.kv_cache_manager.end_step(KVResult())
    scheduler.update_from_output(output, sampled)
    return output, plan


def test_prompts_go_first_and_decodes_stand_still() -> None:
    scheduler = make_scheduler()
    scheduler.add_group(make_group("a", 5))
    assert step(scheduler).num_scheduled_tokens == {"0_a": 5}
    scheduler.add_group(make_group("b", 7))
    assert step(scheduler).num_scheduled_tokens == {"0_b": 7}
    assert step(scheduler).num_scheduled_tokens == {"0_a": 1, "0_b": 1}


def test_prompts_are_whole_and_only_one_larger_than_the_budget_is_cut() -> None:
    scheduler = make_scheduler(max_num_batched_tokens=10)
    for name, n in (("a", 6), ("b", 5), ("c", 23)):
        scheduler.add_group(make_group(name, n))
    seen = [step(scheduler).num_scheduled_tokens for _ in range(6)]
    assert seen[:3] == [{"0_a": 6}, {"0_b": 5}, {"0_c": 10}]
    assert seen[3:] == [{"0_c": 10}, {"0_c": 3}, {"0_a": 1, "0_b": 1, "0_c": 1}]


def test_one_sequence_computes_the_prompt_and_the_others_fork() -> None:
    scheduler = make_scheduler()
    group = make_group("a", 6, n=3)
    scheduler.add_group(group)
    output = step(scheduler)
    assert (output.num_scheduled_tokens, output.sampling_along) == ({"0_a": 6}, {"0_a": group[1:]})
    kv = scheduler.kv_cache_manager
    assert [kv.get_block_ids(r.request_id) for r in group] == [[1, 2]] * 3
    assert [r.output_token_ids for r in group] == [[0], [1], [2]]
    output, plan = step_with_plan(scheduler)
    assert output.num_scheduled_tokens == {"0_a": 1, "1_a": 1, "2_a": 1}
    assert (plan.copy, set(plan.rewritten_req_ids)) == (((2, 3), (2, 4)), {"0_a", "1_a"})
    assert [kv.get_block_ids(r.request_id) for r in group] == [[1, 3], [1, 4], [1, 2]]


def test_sharing_saves_blocks_against_requests_on_their_own() -> None:
    """8 choices of a prompt of 62 tokens, 10 tokens each, blocks of 4: 15 + 8 * 3 blocks are held,
    not 8 * 18.
    """
    held = {}
    for together in (True, False):
        scheduler = make_scheduler(num_blocks=200, max_num_batched_tokens=600)
        group = make_group("a", 62, n=8, max_tokens=10)
        for each in [group] if together else [[request] for request in group]:
            scheduler.add_group(each)
        held[together] = 0
        while scheduler.has_unfinished_requests():
            step(scheduler)
            kv = scheduler.kv_cache_manager
            held[together] = max(held[together], kv.num_usable_blocks - kv.num_free_blocks)
    assert held == {True: 39, False: 144}


def crowd(scheduler: SequenceGroupScheduler) -> tuple[list[Request], list[Request]]:
    """a: one sequence, then b: two. They soon need more than the 10 blocks."""
    a, b = make_group("a", 11, max_tokens=24), make_group("b", 11, n=2, max_tokens=13)
    scheduler.add_group(a)
    scheduler.add_group(b)
    step(scheduler)
    return a, b


def test_a_group_of_several_is_swapped_and_comes_back_before_those_who_wait() -> None:
    scheduler = make_scheduler(num_blocks=11)
    a, b = crowd(scheduler)
    late = make_group("late", 3)
    output, plan = step_with_plan(scheduler)
    while not output.preempted_req_ids:
        output, plan = step_with_plan(scheduler)
    assert output.preempted_req_ids == ["0_b", "1_b"]
    assert plan.swap_out
    assert len(plan.swap_out) == len({block for block, _ in plan.swap_out})
    assert not plan.swap_in
    assert [r.status for r in b] == [RequestStatus.PREEMPTED] * 2
    num_computed = [r.num_computed_tokens for r in b]
    assert min(num_computed) > 11
    scheduler.add_group(late)
    assert list(scheduler.waiting) == [*b, *late]
    while b[0].status is RequestStatus.PREEMPTED:
        assert late[0].status is RequestStatus.WAITING
        before = a[0].is_finished
        output, plan = step_with_plan(scheduler)
    assert before, "there is room only when a is done"
    assert sorted(output.num_scheduled_tokens) == ["0_b", "1_b"]
    assert plan.swap_in
    assert [r.num_computed_tokens for r in b] == [n + 1 for n in num_computed], (
        "nothing is computed again"
    )
    assert scheduler.kv_cache_manager.cpu_pool.num_free_blocks == 50


def test_one_sequence_is_computed_again() -> None:
    scheduler = make_scheduler(num_blocks=8)
    a, b = make_group("a", 11), make_group("b", 11)
    scheduler.add_group(a)
    scheduler.add_group(b)
    output, plan = step_with_plan(scheduler)
    while not output.preempted_req_ids:
        output, plan = step_with_plan(scheduler)
    assert output.preempted_req_ids == ["0_b"]
    assert (plan.swap_out, b[0].num_computed_tokens) == ((), 0)
    assert scheduler.kv_cache_manager.cpu_pool.num_free_blocks == 50


def test_without_room_in_main_memory_a_group_is_computed_again_and_decodes_in_step() -> None:
    scheduler = make_scheduler(num_blocks=11, num_cpu_blocks=2)
    _, b = crowd(scheduler)
    output, plan = step_with_plan(scheduler)
    while not output.preempted_req_ids:
        output, plan = step_with_plan(scheduler)
    assert (plan.swap_out, [r.num_computed_tokens for r in b]) == ((), [0, 0])
    while b[0].num_computed_tokens == 0:
        output = step(scheduler)
    kv, n = scheduler.kv_cache_manager, b[0].num_tokens
    assert output.num_scheduled_tokens == {"0_b": n - 1, "1_b": n - 1 - 8}, (
        "the full blocks of the prompt are shared"
    )
    assert kv.get_block_ids("0_b")[:2] == kv.get_block_ids("1_b")[:2]
    assert step(scheduler).num_scheduled_tokens == {"0_b": 1, "1_b": 1}


def test_the_next_choice_takes_over_a_prompt_that_is_aborted_while_the_model_runs() -> None:
    scheduler = make_scheduler(max_num_batched_tokens=10)
    group = make_group("a", 14, n=3)
    scheduler.add_group(group)
    step(scheduler)
    table = scheduler.kv_cache_manager.get_block_ids("0_a")
    output = scheduler.schedule()
    scheduler.abort_request("0_a")
    scheduler.update_from_output(output, {"0_a": [0], "1_a": [1], "2_a": [2]})
    assert [r.output_token_ids for r in group] == [[], [1], [2]]
    assert scheduler.kv_cache_manager.get_block_ids("1_a")[: len(table)] == table
    assert step(scheduler).num_scheduled_tokens == {"1_a": 1, "2_a": 1}


def test_who_shares_what_a_failed_step_was_to_write_is_reset_too() -> None:
    """It computes nothing in that step itself, and the one it leans on is aborted while the model
    runs.
    """
    scheduler = make_scheduler(num_blocks=20, block_size=1, num_cpu_blocks=0)
    group = make_group("a", 6, n=2, max_tokens=4)
    scheduler.add_group(group)
    step(scheduler)
    scheduler._preempt_group(scheduler._groups[scheduler.running[-1].request_id])
    output = scheduler.schedule()
    assert output.num_scheduled_tokens == {"0_a": 6}
    assert group[1].num_computed_tokens == 6
    scheduler.abort_request("0_a")
    scheduler.fail_step(output)
    assert (group[1].status, group[1].num_computed_tokens) == (RequestStatus.PREEMPTED, 0)
    assert scheduler.kv_cache_manager.num_free_blocks == 19


def test_who_found_in_the_cache_what_a_failed_step_was_to_write_is_reset_too() -> None:
    scheduler = make_scheduler(
        num_blocks=40, block_size=1, num_cpu_blocks=0, enable_prefix_caching=True
    )
    group = make_group("a", 6, n=2, max_tokens=4)
    alone = Request("0_alone", group[0].prompt_token_ids, SamplingParams(max_tokens=4))
    scheduler.add_request(alone)
    scheduler.add_group(group)
    step(scheduler)
    scheduler._preempt_group(scheduler._groups[scheduler.running[-1].request_id])
    scheduler._preempt_group(scheduler._groups[scheduler.running[-1].request_id])
    assert list(scheduler.waiting) == [alone, *group]
    assert scheduler.kv_cache_manager.reset_prefix_cache()
    output = scheduler.schedule()
    assert output.num_scheduled_tokens == {"0_alone": 7}
    assert [r.num_computed_tokens for r in group] == [6, 6]
    scheduler.fail_step(output)
    assert [r.num_computed_tokens for r in (alone, *group)] == [0, 0, 0]
    assert list(scheduler.waiting) == [alone, *group]
    assert scheduler.kv_cache_manager.num_free_blocks == 39


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_num_seqs": 2}, "need 3 places, there are 2"),
        ({"max_num_batched_tokens": 2}, "need 3 tokens a step, there are 2"),
        (
            {"num_blocks": 18},
            "3 sequences of up to 25 computed tokens need 19 blocks, there are 17",
        ),
    ],
)
def test_a_group_that_never_fits_is_refused(options: dict[str, int], message: str) -> None:
    scheduler = make_scheduler(**options)
    with pytest.raises(GroupTooLargeError, match=message):
        scheduler.add_group(make_group("a", 6, n=3))
    assert (scheduler._requests, scheduler._groups, list(scheduler.waiting)) == ({}, {}, [])


def test_a_group_at_the_bound_runs_to_its_end() -> None:
    scheduler = make_scheduler(num_blocks=20)
    scheduler.add_group(group := make_group("a", 6, n=3))
    while scheduler.has_unfinished_requests():
        assert step(scheduler).num_scheduled_tokens
    assert [len(r.output_token_ids) for r in group] == [20, 20, 20]
    assert [r.num_preemptions for r in group] == [0, 0, 0]


def test_bad_requests_and_managers_are_refused() -> None:
    scheduler = make_scheduler(num_blocks=5)
    scheduler.add_group(make_group("a", 3))
    with pytest.raises(DuplicateRequestError, match="'0_a' is still in flight"):
        scheduler.add_group(make_group("a", 3, n=2, max_tokens=2))
    with pytest.raises(PromptTooLongError, match="at most 16 fit"):
        scheduler.add_group(make_group("b", 17))
    assert list(scheduler._groups) == ["0_a"]
    with pytest.raises(InvalidParameterError, match="that forks groups, got KVCacheManager"):
        SequenceGroupScheduler(KVCacheManager(9, 4), max_num_seqs=1, max_num_batched_tokens=9)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError, match="num_cpu_blocks must be at least 0, got -1"):
        make_scheduler(num_cpu_blocks=-1)


def test_a_trace_names_copies_swaps_and_forks() -> None:
    config = {"scheduler": "sequence_group", "num_blocks": 8, "block_size": 4, "num_cpu_blocks": 9}
    config |= {"max_num_seqs": 4, "max_num_batched_tokens": 64}
    requests = [{"id": name, "prompt": [i] * 11, "max_tokens": 20} for i, name in enumerate("ab")]
    trace = run_trace({"config": config, "requests": requests})
    assert trace["totals"]["preemptions"] > 0
    assert [len(trace["outputs"][name]) for name in "ab"] == [18, 18]


# --- on the model ---------------------------------------------------------------------------------

PROMPT = [5, 9, 20, 31, 42, 53, 64, 75, 86, 11, 22, 33, 44, 55, 66, 77, 88, 10, 21, 32, 43]
MIX = {
    "a": (PROMPT, SamplingParams(temperature=0, max_tokens=16, ignore_eos=True)),
    "b": (
        PROMPT[:13],
        SamplingParams(temperature=1.0, seed=5, max_tokens=14, n=4, ignore_eos=True),
    ),
    "c": (
        [70],
        SamplingParams(temperature=0.8, seed=-1, max_tokens=12, n=2, repetition_penalty=1.3),
    ),
    "d": (PROMPT[5:], SamplingParams(temperature=1.2, seed=9, max_tokens=9, top_p=0.9)),
}


def make_engine(model: Path, **config: Any) -> LLMEngine:
    options = {
        "dtype": "float32",
        "block_size": 4,
        "num_kv_blocks": 200,
        "scheduler": "sequence_group",
    } | config
    engine = LLMEngine(EngineConfig(str(model), **options), core_cls=RecoveringCore)
    for caches in engine.executor.runner.kv_caches:
        for cache in caches:
            cache.fill_(torch.nan)  # nothing that was not written may be read, nor copied and read
    return engine


def finish(
    engine: LLMEngine, aborts: dict[int, str] | None = None, fail_at: int = -1
) -> tuple[Any, Counter[str]]:
    """Token ids by request and choice, and the sums of the steps' statistics. aborts: choices by
    step.
    """
    for request_id, (prompt, params) in MIX.items():
        engine.add_request(request_id, prompt, params)
    done: dict[str, RequestOutput] = {}
    sums: Counter[str] = Counter()
    execute = engine.executor.runner.execute
    for number in range(2000):
        if not engine.has_unfinished_requests():
            break
        if aborts and number in aborts:
            engine.scheduler.abort_request(aborts[number])
        if number == fail_at:
            engine.executor.runner.execute = lambda step: execute(step) and [][1]  # type: ignore[method-assign]
            assert engine.step() == []
            engine.executor.runner.execute = execute  # type: ignore[method-assign]
            continue
        done |= {output.request_id: output for output in engine.step()}
        assert engine.stats is not None
        sums.update(asdict(engine.stats))
    assert not engine.has_unfinished_requests()
    kv = engine.scheduler.kv_cache_manager
    assert isinstance(kv, GroupKVCacheManager)
    assert kv.num_free_blocks == kv.num_usable_blocks
    assert kv.cpu_pool.num_free_blocks == kv.num_cpu_blocks
    return {
        name: [choice.token_ids for choice in output.outputs] for name, output in done.items()
    }, sums


@pytest.fixture(scope="module")
def expected(checkpoint: Path) -> Any:
    engine = LLMEngine(
        EngineConfig(str(checkpoint), dtype="float32", block_size=4, num_kv_blocks=200)
    )
    for request_id, (prompt, params) in MIX.items():
        engine.add_request(request_id, prompt, params)
    done = {}
    while engine.has_unfinished_requests():
        done |= {output.request_id: output for output in engine.step()}
    return {name: [choice.token_ids for choice in output.outputs] for name, output in done.items()}


@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize("num_cpu_blocks", [0, 60])
@pytest.mark.parametrize("num_blocks", [24, 200])
def test_no_swap_copy_or_fork_changes_a_token_of_v1(
    checkpoint: Path, expected: Any, num_blocks: int, num_cpu_blocks: int, caching: bool
) -> None:
    engine = make_engine(
        checkpoint,
        num_kv_blocks=num_blocks,
        num_cpu_blocks=num_cpu_blocks,
        enable_prefix_caching=caching,
    )
    tokens, sums = finish(engine)
    assert tokens == expected
    assert sums["num_copied_blocks"] > 0
    if num_blocks == 24:
        assert sums["num_preempted_reqs"] > 0
        assert (
            bool(sums["num_swapped_out_blocks"])
            == bool(sums["num_swapped_in_blocks"])
            == bool(num_cpu_blocks)
        )


@pytest.mark.parametrize("fail_at", range(1, 24, 4))
def test_a_step_that_raises_changes_no_token(checkpoint: Path, expected: Any, fail_at: int) -> None:
    assert (
        finish(make_engine(checkpoint, num_kv_blocks=24, num_cpu_blocks=60), fail_at=fail_at)[0]
        == expected
    )


@pytest.mark.parametrize(
    ("at", "choice"), [(0, "0_b"), (1, "0_b"), (1, "2_b"), (2, "0_c"), (9, "2_b")]
)
def test_the_other_choices_go_on_when_one_is_aborted(
    checkpoint: Path, expected: Any, at: int, choice: str
) -> None:
    tokens, _ = finish(
        make_engine(checkpoint, num_kv_blocks=24, num_cpu_blocks=60), aborts={at: choice}
    )
    index, name = int(choice[0]), choice[2]
    for each, choices in expected.items():
        for i, token_ids in enumerate(choices):
            if (each, i) != (name, index):
                assert tokens[each][i] == token_ids
    cut = tokens[name][index] if name in tokens else []
    assert cut == expected[name][index][: len(cut)]
