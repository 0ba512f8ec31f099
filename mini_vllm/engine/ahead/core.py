"""An engine core one step ahead. Source: EngineCore.step_with_batch_queue in
vllm/v1/engine/core.py.
"""

from concurrent.futures import Future
from dataclasses import replace
from typing import ClassVar

from mini_vllm.engine.ahead.scheduler import AsyncScheduler
from mini_vllm.engine.core import EngineCore
from mini_vllm.engine.runner_view import RunnerView
from mini_vllm.scheduler_interface import SchedulerInterface, SchedulerOutput, Step
from mini_vllm.step import KVPlan, StepInput, StepOutput, TokenDelta
from mini_vllm.worker.executor import Executor
from mini_vllm.worker.feed import PLACEHOLDER

MOST_IN_FLIGHT = 2  # steps


class AsyncRunnerView(RunnerView):
    """Placeholders stand for the tokens that are in flight."""

    scheduler: AsyncScheduler

    def make_step_input(self, output: SchedulerOutput, plan: KVPlan) -> StepInput:
        unknown = [
            (tokens, p)
            for request in output.scheduled_requests
            if (p := self.scheduler.num_output_placeholders[request])
            for tokens in (request.all_token_ids, request.output_token_ids)
        ]
        for tokens, p in unknown:
            tokens += [PLACEHOLDER] * p
        step = super().make_step_input(output, plan)
        for tokens, p in unknown:
            del tokens[-p:]
        return step


class AsyncCore(EngineCore):
    """begin_step() may begin one step more than the one that it returns, which is the oldest.

    A step whose parts need tokens in flight is held until these are there.
    """

    runner_view_cls: ClassVar[type[AsyncRunnerView]] = AsyncRunnerView

    def __init__(self, scheduler: SchedulerInterface, executor: Executor) -> None:
        super().__init__(scheduler, executor)
        self.runner_view = self.runner_view_cls(scheduler)
        self._has_failed = False  # the last step: the next one is alone
        # a step that was decided, and whose parts wait for tokens in flight
        self._held: StepInput | None = None

    def begin_step(self) -> Step:
        while not self.in_flight or (
            len(self.in_flight) < MOST_IN_FLIGHT
            and self.scheduler.has_unfinished_requests()
            and not self._has_failed
        ):
            super().begin_step()
        return self.in_flight[0]

    def _execute(self, step: StepInput) -> "Future[StepOutput]":
        """The device gets a step when its parts know what they need."""
        if not self.in_flight[-1].unanswered:
            return super()._execute(step)
        self._held = step
        return Future()

    def finish_step(self, step: Step, result: StepOutput) -> list[TokenDelta]:
        deltas = super().finish_step(step, result)
        self._has_failed = False
        self._take_in(result)
        if held := self._held:
            with self.changes("step"):
                self._held, (following,) = None, self.in_flight
                for part in following.unanswered:
                    part.after_schedule(following, self.scheduler)
                held = replace(held, masks=following.output.masks)
                following.future = super()._execute(held)
        return deltas

    def _take_in(self, result: StepOutput) -> None:
        """What else a subclass needs of it, before masks are made."""

    def fail_step(self, step: Step, error: Exception) -> list[TokenDelta]:
        self._has_failed = True
        if self._held:  # no device will answer
            self.in_flight[-1].future.set_result(StepOutput())
            self._held = None
        return super().fail_step(step, error)
