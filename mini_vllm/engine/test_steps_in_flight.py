"""Two steps in flight at once: what belongs to one step is in its Step, so that another may be
begun before it ends.

Two schedulers allow it. Apart gives a request no tokens while a step with it is in flight. Ahead
decides a step before the tokens of the one before it are known, as vLLM does with
async_scheduling=True. The runner is ShadowExecutor, whose tokens change if a slot, a table or a
token is wrong.
"""

import random
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from labkit.compare.replay import RecordedGrammar
from mini_vllm.config import EngineConfig
from mini_vllm.engine.core import EngineCore
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.recovery import RecoveringCore
from mini_vllm.engine.runner_view import RunnerView
from mini_vllm.engine.test_recovery import ShadowExecutor
from mini_vllm.errors import GrammarError, RequestFailedError
from mini_vllm.observe.listener import StepListener
from mini_vllm.observe.stats import StatsListener
from mini_vllm.observe.step_plan import StepPlan
from mini_vllm.observe.trace import TraceRecorder
from mini_vllm.params import SamplingParams, StructuredOutputs
from mini_vllm.policies.registry import get_scheduler_cls
from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler
from mini_vllm.scheduler_interface import Part, SchedulerInterface, SchedulerOutput, Step
from mini_vllm.spec_decode.scheduler import with_drafts
from mini_vllm.step import KVPlan, StepInput, StepOutput
from mini_vllm.structured.scheduler import GrammarGate, NewGrammar

SIZES: dict[str, Any] = {
    "block_size": 4,
    "max_num_batched_tokens": 16,
    "max_num_seqs": 6,
    "device": "cpu",
}


class FeedingExecutor(ShadowExecutor):
    """A device that feeds a step the tokens that the step before it has sampled. `fails` says when
    a step raises.
    """

    def allocate(self, plan: Any) -> None:
        super().allocate(plan)
        self.fails: Callable[[], bool] = lambda: False
        self.last: dict[str, int] = {}  # by request: the token that was sampled for it last

    def execute(self, step: StepInput) -> "Future[StepOutput]":
        future: Future[StepOutput] = Future()
        try:
            future.set_result(self.run(step))
        except Exception as error:
            future.set_exception(error)
        return future

    def run(self, step: StepInput) -> StepOutput:
        if step.forget_all:
            self.last = {}
        if self.fails():
            self.last = {}
            raise RuntimeError("the device says no")
        ids, end = list(step.token_ids), 0
        for request_id, n in zip(step.req_ids, step.num_scheduled_tokens, strict=True):
            end += n
            if ids[end - 1] == PLACEHOLDER:
                ids[end - 1] = self.last[request_id]
        result = super().run(replace(step, token_ids=tuple(ids)))
        self.last |= {name: tokens[-1].token_id for name, tokens in result.tokens.items()}
        return result


# --- requests apart -------------------------------------------------------------------------------


@dataclass(eq=False, repr=False, kw_only=True)
class Apart(Scheduler):
    """V1, but a request in flight waits for its step to end."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.in_flight: Counter[Request] = Counter()

    def _schedule_running(
        self, requests: Sequence[Request], output: SchedulerOutput, token_budget: int
    ) -> int:
        """Half of the budget is left for the step that is begun before this one ends."""
        free = [request for request in requests if not self.in_flight[request]]
        return super()._schedule_running(free, output, token_budget // 2)

    def schedule(self) -> SchedulerOutput:
        output = super().schedule()
        self.in_flight.update(output.scheduled_requests)
        if not output.num_scheduled_tokens:
            output.blocked = dict.fromkeys(
                (request.request_id for request in self.running), "a step in flight"
            )
        return output

    def update_from_output(
        self, output: SchedulerOutput, sampled: Mapping[str, Sequence[int]]
    ) -> list[Request]:
        self.in_flight.subtract(output.scheduled_requests)
        return super().update_from_output(output, sampled)

    def fail_step(self, output: SchedulerOutput) -> None:
        self.in_flight.subtract(output.scheduled_requests)
        super().fail_step(output)


class Grammars:
    """Grammars that are there at once, or wrong from the beginning."""

    idle_seconds = 0.0

    def compile(self, wanted: StructuredOutputs, client: str = "") -> "Future[NewGrammar]":
        future: Future[NewGrammar] = Future()
        if wanted.key[1] == "wrong":
            future.set_exception(GrammarError("no such rule"))
        else:
            future.set_result(partial(RecordedGrammar, 1, 3, 99))
        return future


class MaskedExecutor(FeedingExecutor):
    """The model says 5 to 7: the first that the mask, which is the state of a RecordedGrammar,
    allows.
    """

    def run(self, step: StepInput) -> StepOutput:
        result = super().run(step)
        for name, (state,) in step.masks.items():
            allowed = next(t for t in (5, 6, 7) if (t + 3 * state + 1) % 3)
            result.tokens[name] = [result.tokens[name][0]._replace(token_id=allowed)]
        return result


def core_of(
    scheduler_cls: type[SchedulerInterface],
    core_cls: type[EngineCore] = RecoveringCore,
    executor_cls: type[FeedingExecutor] = MaskedExecutor,
    **options: Any,
) -> EngineCore:
    config = EngineConfig("tiny", **{**SIZES, "num_kv_blocks": 60, **options})
    engine = LLMEngine(
        config, scheduler_cls=scheduler_cls, executor_cls=executor_cls, core_cls=core_cls
    )
    return engine.core


def request_of(
    name: str, prompt: Sequence[int], max_tokens: int, grammar: str | None = None
) -> Request:
    structured = None if grammar is None else StructuredOutputs(grammar=grammar)
    return Request(
        name, prompt, SamplingParams(temperature=0, max_tokens=max_tokens, structured=structured)
    )


def workload() -> list[Request]:
    prompts = {"a": [5] * 9, "b": [6, 7, 8], "c": [5] * 8 + [9] * 20, "d": [4, 4], "e": [9]}
    grammars = {"d": "right", "e": "wrong"}
    return [
        request_of(name, prompt, 4 + len(prompt) % 3, grammars.get(name))
        for name, prompt in prompts.items()
    ]


def outcome(requests: Sequence[Request]) -> Any:
    return {
        request.request_id: (request.output_token_ids, request.finish_reason)
        for request in requests
    }


def add_all(core: EngineCore) -> list[Request]:
    scheduler = core.scheduler
    scheduler.parts = ()
    scheduler.attach(GrammarGate(Grammars()))
    requests = workload()
    for request in requests:
        core.add([request])
    return requests


def run_in_pairs(core: EngineCore, log: list[Any] | None = None) -> None:
    """begin, begin, finish, finish."""
    for _ in range(300):
        if not core.has_unfinished_requests():
            break
        for step in (core.begin_step(), core.begin_step()):
            error = step.future.exception()
            if step not in core.in_flight:  # undone with the one before it
                continue
            deltas = (
                core.fail_step(step, error)
                if error
                else core.finish_step(step, step.future.result())
            )
            if log is not None:
                log.append((step, deltas))


@pytest.fixture(scope="module")
def expected() -> Any:
    core = core_of(Scheduler)
    requests = add_all(core)
    while core.has_unfinished_requests():
        core.step()
    return outcome(requests)


@pytest.mark.parametrize("core_cls", [EngineCore, RecoveringCore])
def test_two_steps_are_held_and_each_has_what_is_its_own(
    core_cls: type[EngineCore], expected: Any
) -> None:
    core = core_of(Apart, core_cls)
    recorder, stats = TraceRecorder(core.scheduler, stats=True), StatsListener(core.scheduler)
    core.listeners = [recorder, stats]
    requests, log = add_all(core), []
    run_in_pairs(core, log)
    assert outcome(requests) == expected
    assert expected["e"] == ([], "error")
    assert sum(bool(step.output.num_scheduled_tokens) for step, _ in log) > 8
    for (step, deltas), record in zip(log, recorder.steps, strict=True):
        told = {delta.request_id: len(delta.tokens) for delta in deltas if delta.tokens}
        assert dict(record["sched"]) == step.output.num_scheduled_tokens
        assert {name: len(tokens) for name, tokens in record["sampled"].items()} == told
        assert record is step.notes[recorder]
        assert step.notes[stats].num_scheduled_tokens == sum(n for _, n in record["sched"])


def test_a_first_decode_is_a_decode_while_its_first_token_is_in_flight() -> None:
    core = core_of(Ahead, AheadCore, FeedingExecutor)
    plans: list[StepPlan] = []

    class Planner(StepListener):
        def after_schedule(self, step: Step) -> None:
            plans.append(StepPlan.of(0, step.output))

    core.listeners = [Planner()]
    core.add([request_of("a", [5] * 9, 3)])
    core.begin_step()
    assert [plan.participants for plan in plans] == [[("a", "prefill", 9)], [("a", "decode", 1)]]


def test_steps_end_in_the_order_in_which_they_were_begun() -> None:
    core = core_of(Apart)
    add_all(core)
    core.begin_step()
    second = core.begin_step()
    with pytest.raises(AssertionError, match="in the order in which they were begun"):
        core.finish_step(second, second.future.result())


def test_a_step_that_fails_takes_the_later_ones_with_it(expected: Any) -> None:
    """Whatever step fails, both are undone and tried again; nothing that was to be written can be
    found.
    """
    num_undone = 0
    for fail_at in range(1, 14):
        core = core_of(Apart)
        count = iter(range(1, 10_000))
        executor: Any = core.executor
        executor.fails = lambda count=count, at=fail_at: next(count) == at
        requests = add_all(core)
        failed: list[bool] = []

        class Listener(StepListener):
            def after_update(
                self, *args: Any, failed: bool = False, log: list[bool] = failed
            ) -> None:
                log.append(failed)

        core.listeners = [Listener()]
        run_in_pairs(core)
        assert outcome(requests) == expected
        num_undone += sum(failed) > 1
    assert num_undone > 4


def test_a_request_that_is_aborted_in_flight_is_told_of_by_no_step() -> None:
    core = core_of(Apart)
    add_all(core)
    first, second = core.begin_step(), core.begin_step()
    gone = [*first.output.num_scheduled_tokens, *second.output.num_scheduled_tokens]
    core.finish(gone, "abort")
    again = request_of(gone[0], [5], 2)
    core.add([again])
    assert core.finish_step(first, first.future.result()) == []
    assert core.finish_step(second, second.future.result()) == []
    while core.has_unfinished_requests():
        core.step()
    assert (len(again.output_token_ids), again.finish_reason) == (2, "length")


def test_drafts_are_verified_by_the_step_that_has_them() -> None:
    """One token again and again, so that every draft is right; both kinds of step are in flight
    together.
    """

    class Monotonous(FeedingExecutor):
        def run(self, step: StepInput) -> StepOutput:
            result = super().run(step)
            counts = Counter(step.sample_req_ids)
            tokens = {
                name: [each[0]._replace(token_id=5)] * counts[name]
                for name, each in result.tokens.items()
            }
            return replace(result, tokens=tokens)

    drafting = with_drafts(Scheduler)
    for scheduler_cls, run in (
        (drafting, None),
        (type("ApartDrafts", (Apart, drafting), {}), run_in_pairs),
    ):
        core = core_of(scheduler_cls, executor_cls=Monotonous, speculative="ngram")
        requests = [request_of(name, [5] * 9, 12) for name in "abc"]
        for request in requests:
            core.add([request])
        if run:
            run(core)
        while core.has_unfinished_requests():
            core.step()
        assert [request.output_token_ids for request in requests] == [[5] * 12] * 3
        assert getattr(core.scheduler, "speculation_stats").num_accepted_tokens > 12  # noqa: B009


def test_a_step_in_which_all_are_held_back_or_ended_is_no_stall() -> None:
    class Doorkeeper(Part):
        is_open = False

        def may_admit(self, request: Request) -> bool:
            return self.is_open

        def after_schedule(self, step: Step, scheduler: SchedulerInterface) -> None:
            if not self.is_open:
                for request in [each for each in scheduler.requests if each.request_id == "b"]:
                    step.end(request, RequestFailedError("no more"))

    core, part = core_of(Scheduler, EngineCore), Doorkeeper()
    core.scheduler.parts = (part,)
    for name in "ab":
        core.add([request_of(name, [5] * 9, 2)])
    (delta,) = core.step()
    assert (delta.request_id, delta.finish_reason, delta.error) == ("b", "error", "no more")
    assert core.step() == []
    part.is_open = True
    assert [delta.request_id for delta in core.step()] == ["a"]


# --- one step ahead -------------------------------------------------------------------------------

PLACEHOLDER = -2  # a token that a step in flight samples; a draft that stands for none is -1


class AheadMixin(Scheduler):
    """Counters go ahead when the next step is decided, and p tokens of a request are known by
    number alone.

    Source: AsyncScheduler in vllm/v1/core/sched/async_scheduler.py; its placeholders are
    num_output_placeholders.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.placeholders: Counter[Request] = Counter()
        # and where each request stood
        self.begun: deque[tuple[SchedulerOutput, dict[Request, int]]] = deque()
        self.num_advanced = 0  # of the steps in flight, whose counters have gone ahead
        self.seen: Counter[str] = Counter()

    def _target(self, request: Request) -> int:
        """Nothing if its last token is in flight."""
        p = self.placeholders[request]
        assert request.max_model_len is not None
        limit = min(request.num_prompt_tokens + request.max_tokens, request.max_model_len)
        if p and request.num_tokens + p >= limit:
            self.seen["passed over"] += 1
            return request.num_computed_tokens
        return request.num_tokens + p

    def schedule(self) -> SchedulerOutput:
        for output, _ in list(self.begun)[self.num_advanced :]:
            for request in output.scheduled_requests:
                if request.status is RequestStatus.RUNNING:
                    n = output.num_scheduled_tokens[request.request_id]
                    self.placeholders[request] += int(self.needs_sample(request, n))
                    request.num_computed_tokens += n
        self.num_advanced = len(self.begun)
        output = super().schedule()
        self.begun.append(
            (
                output,
                {request: request.num_computed_tokens for request in output.scheduled_requests},
            )
        )
        if not output.num_scheduled_tokens:
            output.blocked = {
                request.request_id: "its last token" for request in +self.placeholders
            }
        return output

    def _preempt(self, request: Request) -> None:
        self.seen["preempted in flight"] += self.placeholders.pop(request, 0) > 0
        super()._preempt(request)

    def finish_request(self, request_id: str, reason: str) -> Request | None:
        request = super().finish_request(request_id, reason)
        if request is not None:
            self.placeholders.pop(request, None)
        return request

    def update_from_output(
        self, output: SchedulerOutput, sampled: Mapping[str, Sequence[int]]
    ) -> list[Request]:
        self.begun.popleft()
        was_advanced, self.num_advanced = self.num_advanced > 0, max(self.num_advanced - 1, 0)
        late = []
        for request in output.scheduled_requests:
            if request.status is RequestStatus.PREEMPTED:  # its token is delivered all the same
                late += [request for _ in sampled.get(request.request_id, ())]
            elif was_advanced and not request.is_finished:
                request.num_computed_tokens -= output.num_scheduled_tokens[request.request_id]
                self.placeholders[request] -= len(sampled.get(request.request_id, ()))
        finished = super().update_from_output(output, sampled)
        for request in late:
            request.append_output_token(sampled[request.request_id][0])
            if request.maybe_finish():
                reason, request.status = request.finish_reason, RequestStatus.PREEMPTED
                self.finish_request(request.request_id, str(reason))
                finished.append(request)
        for request in finished:
            self.placeholders.pop(request, None)
        return finished

    def fail_step(self, output: SchedulerOutput) -> None:
        _, starts = self.begun.pop()
        self.num_advanced = min(self.num_advanced, len(self.begun))
        for request, start in starts.items():
            # since: what it had published by then was not written
            if request.status is RequestStatus.PREEMPTED:
                now, request.num_computed_tokens = request.num_computed_tokens, start
                self.kv_cache_manager.withdraw(
                    request, output.num_scheduled_tokens[request.request_id]
                )
                start = now
            request.num_computed_tokens = start
        super().fail_step(output)


class Ahead(AheadMixin):
    """V1."""


class AheadView(RunnerView):
    """Placeholders stand for the tokens that are in flight."""

    scheduler: AheadMixin

    def make_step_input(self, output: SchedulerOutput, plan: KVPlan) -> StepInput:
        unknown = [
            (request, p)
            for request in output.scheduled_requests
            if (p := self.scheduler.placeholders[request])
        ]
        for request, p in unknown:
            request.all_token_ids += [PLACEHOLDER] * p
        step = super().make_step_input(output, plan)
        for request, p in unknown:
            del request.all_token_ids[-p:]
        return step


class AheadCore(RecoveringCore):
    """begin_step() begins a step more than the one that it returns."""

    def __init__(self, scheduler: SchedulerInterface, executor: Any) -> None:
        super().__init__(scheduler, executor)
        self.runner_view = AheadView(scheduler)
        self.num_overlapping = 0

    def begin_step(self) -> Step:
        depth = 1 if self._num_failures else 2
        while not self.in_flight or (
            len(self.in_flight) < depth and self.scheduler.has_unfinished_requests()
        ):
            self.num_overlapping += len(self.in_flight)
            super().begin_step()
        return self.in_flight[0]


def one_ahead(name: str) -> type[SchedulerInterface]:
    base: Any = get_scheduler_cls(name)
    return type(f"Ahead{base.__name__}", (AheadMixin, base), {})


def random_workload(seed: int) -> list[tuple[list[int], SamplingParams]]:
    rng = random.Random(seed)
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
        found.append((prompt, params))
    return found


def run_workload(core: EngineCore, seed: int, aborts: random.Random | None = None) -> Any:
    """Requests that arrive over time; with aborts, those that were not aborted. All their tokens
    were told.
    """
    arrivals = random.Random(-seed)
    requests = [
        Request(str(i), prompt, params) for i, (prompt, params) in enumerate(random_workload(seed))
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
        request.request_id: told[request.request_id] for request in live
    }
    return {
        request.request_id: (request.output_token_ids, request.finish_reason) for request in live
    }


TIGHT = {"num_kv_blocks": 14, "max_num_seqs": 5, "max_num_batched_tokens": 24}
MODES: dict[str, dict[str, Any]] = {
    "v1": {},
    "swap": {"preemption_mode": "swap", "num_cpu_blocks": 40},
    "prefill_first": {"scheduler": "prefill_first"},
    "nano_vllm": {"scheduler": "nano_vllm", "max_num_batched_tokens": 48},
    "tenants": {"scheduler": "tenants"},
}


@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(name, marks=() if name in ("v1", "swap") else pytest.mark.slow)
        for name in MODES
    ],
)
def test_one_step_ahead_gives_the_same_tokens(mode: str, silent_log: None) -> None:
    """20 random workloads in a pool that is tight, some with aborts, some on a device that fails at
    times.
    """
    options = TIGHT | MODES[mode]
    scheduler_cls = one_ahead(options.get("scheduler", "v1"))
    seen: Counter[str] = Counter()
    num_overlapping = 0
    for seed in range(20):
        expected = run_workload(
            core_of(get_scheduler_cls("v1"), executor_cls=FeedingExecutor, **TIGHT), seed
        )
        core: Any = core_of(scheduler_cls, AheadCore, FeedingExecutor, **options)
        rng = random.Random(seed)
        if seed % 4 == 1:
            failing = iter([rng.random() < 0.15 for _ in range(60)])
            core.executor.fails = lambda failing=failing: next(failing, False)
        found = run_workload(core, seed, rng if seed % 4 == 2 else None)
        assert found == {name: expected[name] for name in found}, seed
        scheduler = core.scheduler
        assert (
            scheduler.kv_cache_manager.num_free_blocks
            == scheduler.kv_cache_manager.num_usable_blocks
        )
        seen += scheduler.seen
        num_overlapping += core.num_overlapping
    assert seen["preempted in flight"] > 3
    assert seen["passed over"] > 10
    assert num_overlapping > 200
