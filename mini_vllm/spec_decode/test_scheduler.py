"""Drafts: the decisions of vLLM 0.33.0, and which of its rules the traces notice."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from labkit.compare.replay import (
    EagleKVCacheManager,
    EagleScheduler,
    differences,
    find_trace_files,
    read_traces,
    replay,
)
from mini_vllm.errors import InvalidParameterError
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.observe.trace import fake_token
from mini_vllm.params import SamplingParams
from mini_vllm.policies.prefill_first import PrefillFirstScheduler
from mini_vllm.policies.warm_first import WarmFirstScheduler
from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler
from mini_vllm.scheduler_interface import Step
from mini_vllm.spec_decode.kv_cache import KVCacheManager as LookaheadManager
from mini_vllm.spec_decode.scheduler import SpeculativeScheduler, with_drafts

FILES = find_trace_files(Path(__file__).parents[2] / "traces" / "vllm-0.33.0-spec")
SETTINGS = settings(
    derandomize=True,
    database=None,
    deadline=None,
    stateful_step_count=40,
    suppress_health_check=list(HealthCheck),
)
TRACES = list(itertools.chain(*map(read_traces, FILES)))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_decision_is_vllms(file: Path) -> None:
    assert differences(file) == []


class Broken(SpeculativeScheduler):
    """A scheduler that one of the RULES breaks."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.spoil()

    def spoil(self) -> None:
        pass


def without(method: str) -> dict[str, Any]:
    return {method: getattr(Scheduler, method)}


def leave_counter(self: Any, request: Request, output: Any, sampled: Any) -> None:
    sampled[request.request_id] = sampled[request.request_id][-1:]


def keep_drafts(self: Any, request: Request) -> None:
    drafts = self._drafts.get(request.request_id)
    SpeculativeScheduler._preempt(self, request)
    if drafts:
        self._drafts[request.request_id] = drafts


def to_max_model_len(self: Any, request: Request) -> int:
    return min(
        request.num_tokens + len(self._drafts.get(request.request_id, ())), self.max_model_len
    )


def first_draft_for_all(self: Any, drafts: dict[str, list[int]]) -> None:
    self._chunks.clear()
    SpeculativeScheduler.update_draft_token_ids(self, drafts)


RULES: dict[str, dict[str, Any]] = {
    "no lookahead": {
        "spoil": lambda self: setattr(self.kv_cache_manager, "num_lookahead_tokens", 0)
    },
    "the draft model's rows are free": {"spoil": lambda self: setattr(self, "num_draft_slots", 0)},
    "no padding": {"_pads": lambda self, request, num_computed: False},
    "padding is for a request alone, too": {
        "_pads": lambda self, request, n: (
            setattr(self, "_num_decided", self._num_decided or -1)
            or SpeculativeScheduler._pads(self, request, n)
        )
    },
    "a chunk has drafts": {"update_draft_token_ids": first_draft_for_all},
    "drafts up to max_model_len": {"_target": to_max_model_len},
    "no roll-back": {"_take_in_accepted": leave_counter},
    "the watermark has no lookahead": without("_may_admit"),
}


def notices(trace: dict[str, Any], rule: dict[str, Any]) -> bool:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("labkit.compare.replay.SpeculativeScheduler", type("Broken", (Broken,), rule))
        return replay(trace) is not None


@pytest.mark.parametrize("rule", RULES)
def test_a_broken_rule_is_noticed(rule: str) -> None:
    assert any(notices(trace, RULES[rule]) for trace in TRACES)


@pytest.mark.parametrize(
    ("method", "spoilt"),
    [
        ("_block_hashes", KVCacheManager._block_hashes),
        ("get_computed_blocks", KVCacheManager.get_computed_blocks),
        ("free", KVCacheManager.free),
    ],
)
def test_a_broken_rule_of_eagle_is_noticed(method: str, spoilt: Any) -> None:
    broken = type("Broken", (EagleKVCacheManager,), {method: spoilt})
    eagle = [trace for trace in TRACES if trace["config"]["spec"]["method"] == "eagle"]
    assert any(replay(trace, kv_cache_manager_cls=broken) for trace in eagle)


# --- without a trace ------------------------------------------------------------------------------


def make(num_blocks: int = 40, block_size: int = 4, **options: Any) -> SpeculativeScheduler:
    return SpeculativeScheduler(
        LookaheadManager(num_blocks, block_size),
        **{"max_num_seqs": 8, "max_num_batched_tokens": 64, **options},
    )


def add(
    scheduler: SpeculativeScheduler, name: str, prompt: Sequence[int], **options: Any
) -> Request:
    request = Request(
        name, prompt, SamplingParams(**{"max_tokens": 30, "ignore_eos": True, **options})
    )
    scheduler.add_request(request)
    return request


def test_drafts_are_no_tokens_until_they_are_accepted() -> None:
    scheduler = make()
    request = add(scheduler, "a", [1, 2, 3])
    scheduler.update_from_output(scheduler.schedule(), {"a": [4]})
    scheduler.update_draft_token_ids({"a": [5, 6, 7, 8]})
    output = scheduler.schedule()
    assert output.drafts == {"a": [5, 6, 7, 8]}
    assert output.num_scheduled_tokens == {"a": 5}
    assert request.all_token_ids == [1, 2, 3, 4]
    assert scheduler.kv_cache_manager.num_cached_blocks == 1
    scheduler.update_from_output(output, {"a": [5, 6, 9]})
    assert request.all_token_ids == [1, 2, 3, 4, 5, 6, 9]
    assert request.num_computed_tokens == 6
    assert scheduler.kv_cache_manager.num_cached_blocks == 1
    stats = scheduler.speculation_stats
    assert (stats.num_drafts, stats.num_draft_tokens, stats.num_accepted_tokens) == (1, 4, 2)
    assert stats.num_accepted_tokens_per_pos == [1, 1, 0, 0]


def test_what_ends_a_request_among_accepted_drafts_ends_it_there() -> None:
    scheduler = make()
    request = add(scheduler, "a", [1, 2, 3], stop_token_ids=(6,))
    scheduler.update_from_output(scheduler.schedule(), {"a": [4]})
    scheduler.update_draft_token_ids({"a": [5, 6, 7, 8]})
    finished = scheduler.update_from_output(scheduler.schedule(), {"a": [5, 6, 7, 8, 9]})
    assert finished == [request]
    assert (request.output_token_ids, request.finish_reason) == ([4, 5, 6], "stop")
    assert scheduler.kv_cache_manager.num_free_blocks == 39


def test_a_step_that_failed_drops_the_drafts() -> None:
    scheduler = make()
    request = add(scheduler, "a", [1, 2, 3])
    scheduler.update_from_output(scheduler.schedule(), {"a": [4]})
    scheduler.update_draft_token_ids({"a": [5, 6]})
    scheduler.fail_step(scheduler.schedule())
    assert request.num_computed_tokens == 0
    assert not scheduler.schedule().drafts


@pytest.mark.parametrize(
    "options",
    [
        {"long_prefill_token_threshold": 3, "num_speculative_tokens": 4},
        {"max_num_batched_tokens": 6, "num_speculative_tokens": 6},
    ],
)
def test_padding_that_never_fits_is_left_out(options: dict[str, Any]) -> None:
    """vLLM 0.33.0 raises an AssertionError at the first, and waits without end at the second."""
    scheduler = make(block_size=1, **options)
    add(scheduler, "a", [1, 2, 3, 4, 5], max_tokens=2)
    add(scheduler, "b", [1, 2, 3, 4, 5], max_tokens=2)
    for _ in range(20):
        output = scheduler.schedule()
        sampled = {
            r.request_id: [7]
            for r in output.scheduled_requests
            if scheduler.needs_sample(r, output.num_scheduled_tokens[r.request_id])
        }
        scheduler.update_from_output(output, sampled)
    assert not scheduler.has_unfinished_requests()


@pytest.mark.parametrize("lengths", [(1,), (5, 1, 2, 3)])
def test_rows_of_a_draft_model_cut_no_prompt_of_prefill_first_that_fits(
    lengths: Sequence[int],
) -> None:
    scheduler = with_drafts(PrefillFirstScheduler)(
        LookaheadManager(12, 4),
        max_num_seqs=4,
        max_num_batched_tokens=64,
        speculative="draft_model",
    )
    for i, length in enumerate(lengths):
        add(scheduler, str(i), range(length), max_tokens=2)
    assert tuple(scheduler.schedule().num_scheduled_tokens.values()) == tuple(lengths)


@pytest.mark.parametrize("base", [Scheduler, PrefillFirstScheduler, WarmFirstScheduler])
def test_the_draft_models_rows_end_any_admission(base: type[Scheduler]) -> None:
    """A step has as many rows more as it has requests, however it admits; none gets no token."""
    scheduler = with_drafts(base)(
        LookaheadManager(40, 4),
        max_num_seqs=8,
        max_num_batched_tokens=7,
        speculative="draft_model",
        num_speculative_tokens=2,
    )
    for i in range(8):
        add(scheduler, str(i), range(10 * i, 10 * i + 3 + i % 3), max_tokens=6)
    while scheduler.has_unfinished_requests():
        step = Step.decide(scheduler)
        num_tokens = step.output.num_scheduled_tokens
        assert min(num_tokens.values()) > 0
        assert sum(num_tokens.values()) + len(num_tokens) <= 7
        step.update(scheduler, {name: [1] for name in num_tokens})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"speculative": "medusa"}, "speculative must be one of .*, got 'medusa'"),
        ({"num_speculative_tokens": 0}, "num_speculative_tokens must be at least 1 .* got 0"),
        (
            {"speculative": "draft_model", "num_speculative_tokens": 64},
            "max_num_batched_tokens 64 .* got 64",
        ),
        (
            {"speculative": "draft_model", "enable_chunked_prefill": False, "num_blocks": 17},
            "longest chunk: 64",
        ),
    ],
)
def test_a_bad_option_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        make(**options)


@pytest.mark.parametrize("method", ["draft_model", "eagle"])
def test_a_manager_without_lookahead_is_refused(method: str) -> None:
    with pytest.raises(
        InvalidParameterError, match=f"{method} needs lookahead, got .*mini_vllm.kv"
    ):
        SpeculativeScheduler(
            KVCacheManager(12, 4), max_num_seqs=4, max_num_batched_tokens=64, speculative=method
        )


def compute(kv: LookaheadManager, request: Request, num_tokens: int) -> list[int]:
    """Admit a request with its first num_tokens tokens; which blocks of its table are published."""
    blocks, num_hit = kv.get_computed_blocks(request)
    assert kv.allocate_slots(request, num_tokens - num_hit, blocks) is not None
    request.num_computed_tokens = num_tokens
    return published(kv, request)


def published(kv: LookaheadManager, request: Request) -> list[int]:
    pool = kv.block_pool
    return [
        int(pool.blocks[i].block_hash is not None) for i in kv.get_block_ids(request.request_id)
    ]


def prompt_of(length: int, **options: Any) -> Request:
    return Request("a", range(length), SamplingParams(), **options)


def test_lookahead_slots_are_allocated_and_not_published() -> None:
    kv, request = LookaheadManager(5, 4), prompt_of(8)
    kv.num_lookahead_tokens = 3
    assert compute(kv, request, 4) == [1, 0]
    assert kv.allocate_slots(request, 4) is not None
    assert published(kv, request) == [1, 1, 0]


def test_lookahead_ends_where_the_request_or_the_pool_does() -> None:
    kv = LookaheadManager(5, 4)
    kv.num_lookahead_tokens = 5
    short = [kv.num_slots(prompt_of(1, max_model_len=9), n) for n in (1, 4, 7, 9, 10)]
    assert short == [6, 9, 9, 9, 10]
    assert [kv.num_slots(prompt_of(1), n) for n in (1, 11, 14, 16)] == [6, 16, 16, 16]
    assert compute(kv, prompt_of(16), 16) == [1, 1, 1, 1]


@pytest.mark.parametrize("num_lookahead", range(3))
def test_what_is_refused_for_its_lookahead_changes_nothing(num_lookahead: int) -> None:
    """A request with a hit of 1 block, which wants 2 more of the 2 that are free, and a third
    one for the lookahead.
    """
    kv, first, second, other = LookaheadManager(5, 4), prompt_of(4), prompt_of(3), prompt_of(12)
    second.request_id, other.request_id = "b", "c"
    compute(kv, first, 4)
    compute(kv, second, 3)
    kv.num_lookahead_tokens = num_lookahead
    blocks, num_hit = kv.get_computed_blocks(other)
    assert num_hit == 4
    before = kv.free_block_ids()
    new_blocks = kv.allocate_slots(other, 8, blocks)
    if num_lookahead:
        assert new_blocks is None
        assert (kv.free_block_ids(), kv.num_cached_blocks, blocks[0].ref_cnt) == (before, 1, 1)
    else:
        assert new_blocks is not None
        assert [block.block_id for block in (*blocks, *new_blocks)] == kv.get_block_ids("c")


# --- what holds after every operation -------------------------------------------------------------


class DraftWorld:
    """A scheduler in a pool that is too small, a model that knows the truth, and what was written
    to each block.
    """

    def __init__(self, method: str, num_blocks: int, budget: int, policy: str) -> None:
        self.kv = (EagleKVCacheManager if method == "eagle" else LookaheadManager)(num_blocks, 4)
        self.scheduler = (EagleScheduler if method == "eagle" else SpeculativeScheduler)(
            self.kv,
            max_num_seqs=4,
            max_num_batched_tokens=budget,
            max_model_len=40,
            policy=policy,
            speculative=method,
            num_speculative_tokens=3,
        )
        self.scheduler.proposer = None
        self.requests: list[Request] = []
        self.contents: dict[Any, tuple[int, ...]] = {}  # by block: its tokens and all before them
        self.num_preemptions = 0

    def add(self, num_shared: int, max_tokens: int, priority: int) -> None:
        name = len(self.requests)
        prompt = [*range(100, 100 + num_shared), name % 2]
        params = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
        self.requests.append(Request(str(name), prompt, params, priority=priority))
        self.scheduler.add_request(self.requests[-1])

    def truth(self, request: Request, position: int) -> int:
        return fake_token(int(request.request_id) % 2, position, 50)

    def step(self, fails: bool = False) -> None:
        scheduler, output, sampled = self.scheduler, self.scheduler.schedule(), {}
        self.num_preemptions += len(output.preempted_req_ids)
        for r in output.scheduled_requests:
            n, drafts = (
                output.num_scheduled_tokens[r.request_id],
                output.drafts.get(r.request_id, []),
            )
            tokens = [*r.all_token_ids, *drafts][: r.num_computed_tokens + n]
            for i, block_id in enumerate(self.kv.get_block_ids(r.request_id)):
                if len(tokens) >= 4 * i + 4 > r.num_computed_tokens:
                    self.contents[block_id] = tuple(tokens[: 4 * i + 4])
            if scheduler.needs_sample(r, n):
                answer = [self.truth(r, r.num_tokens + i) for i in range(len(drafts) + 1)]
                num_right = next(
                    (i for i, draft in enumerate(drafts) if draft != answer[i]), len(drafts)
                )
                sampled[r.request_id] = answer[: num_right + 1]
        if fails:
            scheduler.fail_step(output)
        else:
            scheduler.update_from_output(output, sampled)
        self.check()

    def propose(self, choices: Sequence[Sequence[bool]]) -> None:
        """New drafts for the first running requests; True: a right one, if those before it are."""
        drafts = {
            r.request_id: [
                self.truth(r, r.num_tokens + i) if right else 77 for i, right in enumerate(each)
            ]
            for r, each in zip(self.scheduler.running, choices, strict=False)
        }
        self.scheduler.update_draft_token_ids(drafts)
        self.check()

    def abort(self, choice: int) -> None:
        self.scheduler.abort_request(str(choice))
        self.check()

    def check(self) -> None:
        """No draft is returned; none has a part in a hash; and what can be found was written as its
        hash says.
        """
        known = {}
        for r in self.requests:
            start = r.num_prompt_tokens
            assert r.all_token_ids[start:] == r.output_token_ids
            assert r.output_token_ids == [
                self.truth(r, start + i) for i in range(len(r.output_token_ids))
            ]
            assert len(r.output_token_ids) <= r.max_tokens
            assert r.num_computed_tokens < r.num_tokens or r.is_finished
            assert len(r.block_hashes) <= r.num_tokens // 4
            known |= {
                name: tuple(r.all_token_ids[: 4 * i + 4]) for i, name in enumerate(r.block_hashes)
            }
        for block in self.kv.block_pool.blocks:
            if block.block_hash is not None:
                assert self.contents[block.block_id] == known[block.block_hash]

    def drain(self) -> None:
        for _ in range(400):
            if not self.scheduler.has_unfinished_requests():
                break
            self.step()
        assert not self.scheduler.has_unfinished_requests()
        assert self.kv.num_free_blocks == self.kv.num_usable_blocks
        assert [self.scheduler._drafts, self.scheduler._chunks, self.scheduler._paces] == [
            {},
            set(),
            {},
        ]


# as DraftWorld.add takes them
ARRIVALS = st.tuples(st.integers(0, 12), st.integers(1, 16), st.integers(0, 1))
DRAFTS = ((True, True, True), (True, True), (True, False, True), (False, True), ())


class DraftMachine(RuleBasedStateMachine):
    world: DraftWorld
    worlds: ClassVar[list[DraftWorld]] = []

    @initialize(
        method=st.sampled_from(("ngram", "draft_model", "eagle")),
        num_blocks=st.integers(11, 16),
        budget=st.sampled_from((8, 16, 64)),
        policy=st.sampled_from(("fcfs", "priority")),
        arrivals=st.lists(ARRIVALS, min_size=3, max_size=6),
    )
    def begin(
        self,
        method: str,
        num_blocks: int,
        budget: int,
        policy: str,
        arrivals: list[tuple[int, ...]],
    ) -> None:
        self.world = DraftWorld(method, num_blocks, budget, policy)
        self.worlds.append(self.world)
        for arrival in arrivals:
            self.world.add(*arrival)

    @precondition(
        lambda self: len(self.world.scheduler.running) + len(self.world.scheduler.waiting) < 6
    )
    @rule(arrival=ARRIVALS)
    def add(self, arrival: tuple[int, ...]) -> None:
        self.world.add(*arrival)

    @rule(choices=st.tuples(*[st.sampled_from(DRAFTS)] * 4))
    def propose_and_step(self, choices: Sequence[Sequence[bool]]) -> None:
        self.world.propose(choices)
        self.world.step()

    @rule()
    def step(self) -> None:
        self.world.step()

    @rule()
    def fail(self) -> None:
        self.world.step(fails=True)

    @rule(choice=st.integers(0, 9))
    def abort(self, choice: int) -> None:
        self.world.abort(choice)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.drain()


@pytest.mark.slow
def test_no_draft_is_ever_published_hashed_or_returned() -> None:
    """Right and wrong drafts, preemptions, failed steps and aborts, in pools that are too small."""
    DraftMachine.worlds.clear()
    run_state_machine_as_test(DraftMachine, settings=settings(SETTINGS, max_examples=150))
    stats = [world.scheduler.speculation_stats for world in DraftMachine.worlds]
    num_accepted = sum(each.num_accepted_tokens for each in stats)
    assert num_accepted > 400
    assert sum(each.num_draft_tokens for each in stats) - num_accepted > 400
    assert sum(world.num_preemptions for world in DraftMachine.worlds) > 50
