"""Two steps in flight at once: what belongs to one step is in its Step, so that another may be
begun before it ends.

The scheduler gives a request no tokens while a step with it is in flight. One that decides a step
without the tokens in flight is in test_ahead.py. The runner is ShadowExecutor, whose tokens change
if a slot, a table or a token is wrong.
"""

from collections import Counter
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
from mini_vllm.engine.test_recovery import ShadowExecutor
from mini_vllm.errors import GrammarError, RequestFailedError
from mini_vllm.observe.listener import StepListener
from mini_vllm.observe.stats import StatsListener
from mini_vllm.observe.step_plan import StepPlan
from mini_vllm.observe.trace import TraceRecorder
from mini_vllm.params import SamplingParams, StructuredOutputs
from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler
from mini_vllm.scheduler_interface import Part, SchedulerInterface, SchedulerOutput, Step
from mini_vllm.spec_decode.scheduler import with_drafts
from mini_vllm.step import StepInput, StepOutput
from mini_vllm.structured.scheduler import GrammarGate, NewGrammar
from mini_vllm.worker.executor import InProcessExecutor

SIZES: dict[str, Any] = {
    "block_size": 4,
    "max_num_batched_tokens": 16,
    "max_num_seqs": 6,
    "device": "cpu",
}


class FeedingExecutor(InProcessExecutor, ShadowExecutor):
    """A device that puts the tokens in that it has sampled. `fails` says when a step raises."""

    def allocate(self, plan: Any) -> None:
        super().allocate(plan)
        self.fails: Callable[[], bool] = lambda: False

    def run(self, step: StepInput) -> StepOutput:
        if self.fails():
            raise RuntimeError("the device says no")
        return ShadowExecutor.run(self, step)


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

    def compile(
        self, wanted: StructuredOutputs, cache_salt: str | None = None
    ) -> "Future[NewGrammar]":
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
    core = core_of(Scheduler, async_scheduling=True)
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
