"""One step ahead: vLLM's own decisions, and the same tokens as without it."""

import json
import random
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labkit.compare.replay import (
    RecordedGrammars,
    differences,
    find_trace_files,
    read_traces,
    replay,
)
from mini_vllm import LLM
from mini_vllm.engine.ahead import one_step_ahead
from mini_vllm.engine.ahead.scheduler import AsyncScheduler
from mini_vllm.engine.core import EngineCore
from mini_vllm.engine.test_steps_in_flight import FeedingExecutor, core_of, outcome
from mini_vllm.errors import InvalidParameterError
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.observe.listener import StepListener
from mini_vllm.params import SamplingParams, StructuredOutputs
from mini_vllm.policies.registry import get_scheduler_cls
from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler
from mini_vllm.scheduler_interface import SchedulerInterface, SchedulerOutput
from mini_vllm.spec_decode import MATCHES
from mini_vllm.spec_decode.scheduler import with_drafts
from mini_vllm.step import SampledToken, SamplingRow, StepInput, StepOutput
from mini_vllm.structured.scheduler import GrammarGate

TRACES = find_trace_files(Path(__file__).parents[2] / "traces" / "vllm-0.33.0-async")


@pytest.mark.parametrize("file", TRACES, ids=lambda file: file.stem)
def test_every_decision_is_vllms(file: Path) -> None:
    assert differences(file) == []


# One rule at a time is broken.
def drop_late_tokens(self: Any, request: Request, token_ids: Sequence[int]) -> bool:
    return False


def forget_the_end(self: Any, request: Request) -> int:
    return request.num_tokens + self.num_output_placeholders[request]


def keep_placeholders(self: Any, request: Request) -> None:
    Scheduler._preempt(self, request)


RULES: dict[str, Any] = {"_ends": drop_late_tokens, "_target": forget_the_end}
RULES["_preempt"] = keep_placeholders


@pytest.mark.parametrize("method", RULES)
def test_a_broken_rule_is_seen(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AsyncScheduler, method, RULES[method])
    assert any(replay(trace) for file in TRACES for trace in read_traces(file))


def test_a_block_that_was_in_flight_gets_its_name_later(monkeypatch: pytest.MonkeyPatch) -> None:
    cache_blocks = KVCacheManager.cache_blocks
    monkeypatch.setattr(
        KVCacheManager,
        "cache_blocks",
        lambda self, request, *rest: cache_blocks(self, request),
    )
    assert any(replay(trace) for file in TRACES for trace in read_traces(file))


class Watched(AsyncScheduler):
    """Counts what happens one step ahead, so that a test can say that it did."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.seen: Counter[str] = Counter()

    def schedule(self) -> SchedulerOutput:
        output = super().schedule()
        self.seen["overlapping"] += len(self._begun) > 1
        return output

    def _target(self, request: Request) -> int:
        target = super()._target(request)
        waits = self.num_output_placeholders[request] > 0
        self.seen["passed over"] += waits and target == request.num_computed_tokens
        return target

    def _preempt(self, request: Request) -> None:
        self.seen["preempted in flight"] += self.num_output_placeholders[request] > 0
        super()._preempt(request)


def watched(options: dict[str, Any]) -> type[SchedulerInterface]:
    base = get_scheduler_cls(options.get("scheduler", "v1"))
    base = one_step_ahead(with_drafts(base) if "speculative" in options else base)
    return type(f"Watched{base.__name__}", (Watched, base), {})


class Obedient(FeedingExecutor):
    """Of the tokens behind the one that it would say, the first that a RecordedGrammar of this
    shift and modulus allows. Its mask is the grammar's state.
    """

    shift, modulus = 1, 3

    def obey(self, step: StepInput, sampled: list[SampledToken | str]) -> list[SampledToken | str]:
        rows = {name: iter(states) for name, states in step.masks.items()}
        states: list[Any] = [next(rows.get(name, iter(())), None) for name in step.sample_req_ids]
        return [
            token._replace(token_id=token.token_id + 1)
            if isinstance(token, SampledToken)
            and state is not None
            and (token.token_id + 3 * state + self.shift) % self.modulus == 0
            else token
            for token, state in zip(sampled, states, strict=True)
        ]


class Repetitive(Obedient):
    """A model that often says what it said three tokens before, so that drafts are right."""

    def sample(self, read: Any, row: SamplingRow) -> SampledToken:
        slots, token = read[0], super().sample(read, row)
        if token.token_id % 5 and len(slots) > 2:
            return token._replace(token_id=slots[-3][1])
        return token


def random_grammar(rng: random.Random) -> StructuredOutputs:
    """One that is compiled at once or later, that a text may outgrow, or that is wrong."""
    grammar = {"shift": Obedient.shift, "modulus": Obedient.modulus, "length": rng.randint(4, 40)}
    grammar["ready_step"] = rng.choice((0, rng.randint(0, 30)))
    wrong = {"error": "no such rule"} if rng.random() < 0.15 else {}
    return StructuredOutputs(grammar=json.dumps(grammar | wrong))


def random_workload(
    seed: int, *, has_grammars: bool = False
) -> list[tuple[list[int], SamplingParams]]:
    rng, grammars = random.Random(seed), random.Random(seed)
    shared = [rng.randrange(3, 90) for _ in range(12)]
    found = []
    for i in range(rng.randint(2, 9)):
        own = [rng.randrange(3, 90) for _ in range(rng.randint(1, 16))]
        prompt = [*shared[: rng.choice((0, 0, 8, 12))], *own]
        params = SamplingParams(
            temperature=rng.choice((0.0, 1.0)),
            seed=i,
            max_tokens=rng.randint(1, 20),
            stop_token_ids=rng.sample(range(10, 260), 20),
        )
        if has_grammars and grammars.random() < 0.6:
            params = replace(params, structured=random_grammar(grammars))
        found.append((prompt, params))
    return found


def has_wrong_grammar(request: Request) -> bool:
    structured = request.sampling_params.structured
    return structured is not None and "error" in structured.key[1]


def use_recorded_grammars(core: EngineCore) -> None:
    others = [part for part in core.scheduler.parts if not isinstance(part, GrammarGate)]
    core.scheduler.parts = (*others, GrammarGate(RecordedGrammars(lambda: core.num_steps)))


def run_workload(
    core: EngineCore, seed: int, aborts: random.Random | None = None, *, has_grammars: bool = False
) -> Any:
    """Requests that arrive over time; with aborts, those that were not aborted. All their tokens
    were told.
    """
    arrivals = random.Random(-seed)
    use_recorded_grammars(core)
    requests = [
        Request(str(i), prompt, params)
        for i, (prompt, params) in enumerate(random_workload(seed, has_grammars=has_grammars))
    ]
    todo, gone, told = list(requests), set(), dict[str, list[int]]()
    for _ in range(2000):
        if not todo and not core.has_unfinished_requests():
            break
        while todo and (arrivals.random() < 0.4 or not core.has_unfinished_requests()):
            core.add([todo.pop(0)])
        for delta in core.step():
            told.setdefault(delta.request_id, []).extend(token.token_id for token in delta.tokens)
        if aborts and aborts.random() < 0.1:
            gone.add(str(aborts.randrange(len(requests))))
            core.finish(gone, "abort")
    live = [request for request in requests if request.request_id not in gone]
    assert {request.request_id: request.output_token_ids for request in live} == {
        request.request_id: told.get(request.request_id, []) for request in live
    }
    return {
        request.request_id: (
            # a scheduler that admits it without asking gives it a token
            request.output_token_ids[: 0 if has_wrong_grammar(request) else None],
            request.finish_reason,
        )
        for request in live
    }


TIGHT = {"num_kv_blocks": 14, "max_num_seqs": 5, "max_num_batched_tokens": 24}
MODES: dict[str, dict[str, Any]] = {
    "v1": {},
    "ngram": {"speculative": "ngram", "num_speculative_tokens": 3},
    "ngram, last": {"speculative": "ngram", "prompt_lookup_match": "last"},
    "ngram, swap": {"speculative": "ngram", "preemption_mode": "swap", "num_cpu_blocks": 40},
    "ngram, prefill_first": {"speculative": "ngram", "scheduler": "prefill_first"},
    "swap": {"preemption_mode": "swap", "num_cpu_blocks": 40},
    "prefill_first": {"scheduler": "prefill_first"},
    "nano_vllm": {"scheduler": "nano_vllm", "max_num_batched_tokens": 48},
    "tenants": {"scheduler": "tenants"},
    "warm_first": {"scheduler": "warm_first"},
}


QUICK = ("v1", "ngram")


@pytest.mark.parametrize(
    "has_grammars",
    [pytest.param(False, marks=pytest.mark.slow), True],
    ids=["", "grammars"],
)
@pytest.mark.parametrize(
    ("mode", "seeds"),
    [
        *((name, range(12)) for name in QUICK),
        *(pytest.param(name, range(20), marks=pytest.mark.slow) for name in MODES),
    ],
)
def test_one_step_ahead_gives_the_same_tokens(
    mode: str, seeds: range, has_grammars: bool, silent_log: None
) -> None:
    """Random workloads in a pool that is tight, some with aborts, some on a device that fails at
    times.
    """
    options = TIGHT | MODES[mode]
    scheduler_cls = get_scheduler_cls(options.get("scheduler", "v1"))
    executor_cls = Repetitive if "speculative" in options else Obedient
    seen: Counter[str] = Counter()
    for seed in seeds:
        expected = run_workload(
            core_of(scheduler_cls, executor_cls=executor_cls, **options),
            seed,
            has_grammars=has_grammars,
        )
        core: Any = core_of(
            watched(options), executor_cls=executor_cls, async_scheduling=True, **options
        )
        rng = random.Random(seed)
        if seed % 4 == 1:
            failing = iter([rng.random() < 0.15 for _ in range(60)])
            core.executor.fails = lambda failing=failing: next(failing, False)
        found = run_workload(core, seed, rng if seed % 4 == 2 else None, has_grammars=has_grammars)
        assert found == {name: expected[name] for name in found}, seed
        scheduler = core.scheduler
        assert (
            scheduler.kv_cache_manager.num_free_blocks
            == scheduler.kv_cache_manager.num_usable_blocks
        )
        seen += scheduler.seen
        if "speculative" in options:
            seen["right drafts"] += scheduler.speculation_stats.num_accepted_tokens
    assert ("speculative" in options) == (seen["right drafts"] > 50)
    assert seen["preempted in flight"] > 3
    assert seen["passed over"] > 10
    assert seen["overlapping"] > 200


class Result(Future[StepOutput]):
    """What comes of a step at a time of the simulated clock, which goes on to it for one who
    waits.
    """

    def __init__(self, clock: "Clock", time: float) -> None:
        super().__init__()
        self._clock, self._time = clock, time

    def result(self, timeout: float | None = None) -> StepOutput:
        self._clock.now = max(self._clock.now, self._time)
        return super().result(timeout)


class Clock(StepListener):
    """Simulated milliseconds: the host takes two thirds of its time to decide a step, and the rest
    to take in what came of it. Nothing else takes time but the device.
    """

    def __init__(self, host: float, device: float) -> None:
        self.now, self.host, self.device = 0.0, host, device
        self.begun: list[float] = []  # when the device began each step

    def before_schedule(self) -> None:
        self.now += self.host * 2 / 3

    def after_update(self, *args: Any, **rest: Any) -> None:
        self.now += self.host / 3

    def milliseconds_of_a_step(self) -> float:
        """In the middle of a run, between the beginnings of two steps."""
        first, *_, last = middle = self.begun[10:-10]
        return (last - first) / (len(middle) - 1)


class TimedDevice(Repetitive):
    """A device that computes a step at a time, and takes as long for each."""

    clock: Clock

    def execute(self, step: StepInput) -> "Future[StepOutput]":
        clock, future = self.clock, super().execute(step)
        output = future.result()
        free = clock.begun[-1] + clock.device if clock.begun else 0.0
        clock.begun.append(max(clock.now, free))
        result = Result(clock, clock.begun[-1] + clock.device)
        result.set_result(output)
        return result


def time_of_a_step(host: float, device: float, *, grammar: bool = False, **options: Any) -> float:
    core: Any = core_of(Scheduler, executor_cls=TimedDevice, **options)
    core.executor.clock = clock = Clock(host, device)
    core.listeners = [clock]
    use_recorded_grammars(core)
    rule = json.dumps({"ready_step": 0, "shift": 1, "modulus": 3, "length": 999})
    structured = StructuredOutputs(grammar=rule) if grammar else None
    for i in range(3):
        params = SamplingParams(max_tokens=60, temperature=0, structured=structured)
        core.add([Request(str(i), [5 + i] * 9, params)])
    while core.has_unfinished_requests():
        core.step()
    return clock.milliseconds_of_a_step()


@pytest.mark.parametrize("options", [{}, {"speculative": "ngram"}], ids=["", "ngram"])
@pytest.mark.parametrize(("host", "device"), [(3, 5), (5, 3), (4, 4)])
def test_a_step_takes_as_long_as_the_longer_of_host_and_device(
    host: float, device: float, options: dict[str, Any]
) -> None:
    alone = time_of_a_step(host, device, **options)
    assert alone == pytest.approx(host + device)
    ahead = time_of_a_step(host, device, async_scheduling=True, **options)
    assert max(host, device) <= ahead + 1e-9
    assert ahead <= 1.1 * max(host, device)


def test_only_what_masks_need_is_not_overlapped() -> None:
    """A step is decided while the device computes. It begins when the tokens before it are in."""
    assert time_of_a_step(3, 5, grammar=True) == pytest.approx(3 + 5)
    ahead = time_of_a_step(3, 5, grammar=True, async_scheduling=True)
    assert ahead == pytest.approx(3 / 3 + 5)


@pytest.mark.parametrize("match", MATCHES)
def test_the_same_drafts_are_right(match: str) -> None:
    """In a pool in which no request is cut or preempted: what is counted of drafts is the same.

    The second time the prompts are found in the cache, and some are admitted with padding.
    """
    options: dict[str, Any] = {"speculative": "ngram", "prompt_lookup_match": match}
    options |= {"num_kv_blocks": 200, "max_num_batched_tokens": 400, "max_num_seqs": 10}
    total = 0
    for seed in range(6):
        found = []
        for is_ahead in (False, True):
            core: Any = core_of(
                Scheduler, executor_cls=Repetitive, async_scheduling=is_ahead, **options
            )
            outcomes = []
            for _ in range(2):
                requests = [
                    Request(str(i), prompt, params)
                    for i, (prompt, params) in enumerate(random_workload(seed))
                ]
                for request in requests:
                    core.add([request])
                while core.has_unfinished_requests():
                    core.step()
                outcomes.append(outcome(requests))
            found.append((outcomes, core.scheduler.speculation_stats))
        assert found[0] == found[1], seed
        total += found[1][1].num_accepted_tokens
    assert total > 40


def test_a_step_behind_one_that_failed_does_not_run() -> None:
    """The device has not taken in what the first one brought, such as block tables: the second one
    would write into blocks that are not its own.
    """
    ran: list[int] = []

    class Failing(FeedingExecutor):
        def run(self, step: StepInput) -> StepOutput:
            ran.append(step.num_computed_tokens[0])
            return super().run(step)

    core: Any = core_of(Scheduler, executor_cls=Failing, async_scheduling=True)
    failing = iter([False, True])
    core.executor.fails = lambda: next(failing, False)
    core.add([Request("a", [5] * 9, SamplingParams(max_tokens=4, temperature=0))])
    while core.has_unfinished_requests():
        core.step()
    assert ran == [0, 9, 8, 10, 11]


def random_options(rng: random.Random) -> dict[str, Any]:
    """Of an engine with drafts, whose pool and budget are tight in various ways."""
    options = TIGHT | {
        "speculative": "ngram",
        "num_speculative_tokens": rng.choice((1, 2, 4, 7)),
        "prompt_lookup_min": rng.choice((1, 2)),
        "prompt_lookup_match": rng.choice(MATCHES),
    }
    for more in (
        {"long_prefill_token_threshold": rng.choice((3, 9))},
        {"max_model_len": rng.choice((34, 40))},
        {"preemption_mode": "swap", "num_cpu_blocks": rng.choice((3, 40))},
        {"enable_prefix_caching": False},
        {"max_num_batched_tokens": rng.choice((12, 16))},
        {"num_kv_blocks": rng.choice((12, 20))},
        rng.choice(({"policy": "priority"}, {"scheduler": "prefill_first"})),
    ):
        if rng.random() < 0.3:
            options |= more
    return options


@pytest.mark.nightly
@pytest.mark.parametrize("block", range(4))
def test_any_options_give_the_same_tokens(block: int, silent_log: None) -> None:
    for seed in range(50 * block, 50 * (block + 1)):
        rng = random.Random(seed)
        options, has_grammars = random_options(rng), rng.random() < 0.5
        scheduler_cls = get_scheduler_cls(options.get("scheduler", "v1"))
        plain = {name: value for name, value in options.items() if name != "speculative"}
        core: Any = core_of(scheduler_cls, executor_cls=Repetitive, **plain)
        expected = run_workload(core, seed, has_grammars=has_grammars)
        core = core_of(scheduler_cls, executor_cls=Repetitive, async_scheduling=True, **options)
        if rng.random() < 0.4:
            failing = iter([rng.random() < 0.15 for _ in range(80)])
            core.executor.fails = lambda failing=failing: next(failing, False)
        aborts = rng if rng.random() < 0.4 else None
        found = run_workload(core, seed, aborts, has_grammars=has_grammars)
        assert found == {name: expected[name] for name in found}, (seed, options)
        kv = core.scheduler.kv_cache_manager
        assert kv.num_free_blocks == kv.num_usable_blocks
        assert not +core.scheduler.num_output_placeholders


def test_the_next_step_is_decided_while_one_computes() -> None:
    """The device waits until the host has decided again; without a step ahead it would wait for
    ever.
    """
    next_is_decided = threading.Semaphore(0)
    waited: list[bool] = []
    num_begun: list[int] = []

    class Waiting(FeedingExecutor):
        def execute(self, step: StepInput) -> "Future[StepOutput]":
            if num_begun:
                next_is_decided.release()
            num_begun.append(1)
            return super().execute(step)

        def run(self, step: StepInput) -> StepOutput:
            if len(waited) < 5:  # the last step of a run has none behind it
                waited.append(next_is_decided.acquire(timeout=30))
            return super().run(step)

    core = core_of(Scheduler, executor_cls=Waiting, async_scheduling=True)
    core.add([Request("a", [5] * 9, SamplingParams(max_tokens=20, temperature=0))])
    while core.has_unfinished_requests():
        core.step()
    assert waited == [True] * 5


def test_a_step_waits_for_tokens_in_flight_only_if_its_masks_need_them() -> None:
    """The device gets a step with another one in flight, as long as the grammar's request is in its
    prompt; then each step waits until the one before it is taken in.
    """
    handed_over: list[tuple[bool, int]] = []  # whether there is a mask, steps in flight

    class Counting(Obedient):
        def execute(self, step: StepInput) -> "Future[StepOutput]":
            handed_over.append(("g" in step.masks, len(core.in_flight)))
            return super().execute(step)

    core = core_of(Scheduler, executor_cls=Counting, async_scheduling=True)
    use_recorded_grammars(core)
    grammar = random_grammar(random.Random(1))
    for name, prompt, structured in (("a", [5], None), ("g", [6] * 40, grammar)):
        params = SamplingParams(max_tokens=9, temperature=0, structured=structured)
        core.add([Request(name, prompt, params)])
    while core.has_unfinished_requests():
        core.step()
    assert handed_over == [(False, 1), (False, 2), (True, 2), *[(True, 1)] * 8]


DRAFTS: dict[str, Any] = {"speculative": "ngram", "prompt_lookup_min": 1}


def test_a_model_gives_the_same_tokens() -> None:
    """With everything that looks back at tokens: penalties, log-probabilities, stops, grammars."""
    kinds: list[dict[str, Any]] = [
        {"temperature": 0, "repetition_penalty": 1.3, "logprobs": 2},
        {"temperature": 1, "seed": 3, "n": 2},
        {"temperature": 0, "stop": ["."], "prompt_logprobs": 1},
        {"temperature": 1, "seed": 5, "structured": {"choice": ["yes, please", "no, thank you"]}},
    ]
    params = [SamplingParams(max_tokens=24, **kind) for kind in kinds]
    prompts = ["Once upon a time", "A girl named Lily", "Once upon a time there", "The dog"]
    found = []
    for options in ({}, {"async_scheduling": True}, {"async_scheduling": True, **DRAFTS}):
        llm = LLM("tiny", num_kv_blocks=40, structured_outputs_backend="automaton", **options)
        outputs = llm.generate(prompts, params)
        found.append([(each.prompt_logprobs, each.outputs) for each in outputs])
    assert found[0] == found[1]
    token_ids = [[choice.token_ids for _, outputs in each for choice in outputs] for each in found]
    assert token_ids[0] == token_ids[2]


@pytest.mark.parametrize(
    "options", [{"scheduler": "sequence_group"}, {"speculative": "suffix"}], ids=str
)
def test_what_needs_the_tokens_in_flight_is_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameterError, match="async_scheduling"):
        LLM("tiny", device="cpu", async_scheduling=True, **options)
