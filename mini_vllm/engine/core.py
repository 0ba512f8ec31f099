"""EngineCore: the loop schedule() -> execute() -> update_from_output(), and nothing else.

Token ids go in, TokenDeltas come out. There is no text here, no clock, no tensor and no seed: the
scheduler decides, an Executor computes, listeners watch, and the core carries data between them. A
step has two halves, so that a program that owns the core may do something else while the model
runs; requests may be added or aborted between the halves.

What raises is raised at once. The scheduler may then stand in the middle of a step, so the core
refuses further ones. Source: EngineCore in vllm/v1/engine/core.py.
"""

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from mini_vllm.engine.runner_view import RunnerView
from mini_vllm.errors import (
    EngineDeadError,
    MiniVllmError,
    RequestFailedError,
    RequestRefusedError,
    SchedulerStalledError,
    shown,
)
from mini_vllm.observe.listener import StepListener
from mini_vllm.request import Request
from mini_vllm.scheduler_interface import SchedulerInterface, Step
from mini_vllm.step import Refusal, StepInput, StepOutput, TokenDelta
from mini_vllm.worker.executor import Executor

logger = logging.getLogger("mini_vllm")


class EngineCore:
    """Owns the scheduler and the executor. One thread calls it."""

    def __init__(self, scheduler: SchedulerInterface, executor: Executor) -> None:
        self.scheduler = scheduler
        self.executor = executor
        self.listeners: list[StepListener] = []
        self.runner_view = RunnerView(scheduler)
        self.num_steps = 0
        self.is_dead = False  # a call that changes the scheduler has raised
        self.in_flight: deque[Step] = deque()  # begun and not ended, the oldest first
        self._ended: set[str] = set()  # requests that were ended since a step has ended

    # --- requests come and go ---------------------------------------------------------------------

    def add(self, requests: Sequence[Request]) -> None:
        """Queue a request, or the choices of one prompt. A RequestRefusedError is of them all."""
        with self.changes("add"):
            self.scheduler.add_group(requests)

    def finish(self, request_ids: Iterable[str], reason: str) -> None:
        """End requests from outside, also while a step is in flight. Their blocks are free at once.

        reason: "stop" (a stop string was seen), "length" or "abort". Unknown ids are ignored.
        """
        for request_id in request_ids:
            with self.changes("finish"):
                request = self.scheduler.finish_request(request_id, reason)
                self.runner_view.forget(request_id)
                self._ended.add(request_id)
                if request is not None:
                    self._tell("after_finish", request)

    def has_unfinished_requests(self) -> bool:
        """Whether there is a step to begin, or one that has not ended."""
        return bool(self.in_flight) or self.scheduler.has_unfinished_requests()

    # --- one step ---------------------------------------------------------------------------------

    def step(self) -> list[TokenDelta]:
        """Both halves."""
        step = self.begin_step()
        try:
            result = step.future.result()
        except Exception as error:
            return self.fail_step(step, error)
        return self.finish_step(step, result)

    def begin_step(self) -> Step:
        """Decide a step and hand it to the executor. finish_step() or fail_step() has to follow.

        Another step may be begun before, by a scheduler that decides it without what comes of this
        one. Scheduler is none: its counters move in update_from_output(). Raises
        SchedulerStalledError if the scheduler has work but schedules none.
        """
        with self.changes("step"):
            self.num_steps += 1
            self._tell("before_schedule")
            step = Step.decide(self.scheduler)
            self.in_flight.append(step)
            output = step.output
            is_needed = output.num_scheduled_tokens or step.plan or self.runner_view.forget_all
            step_input = self.runner_view.make_step_input(output, step.plan) if is_needed else None
            self._tell("after_schedule", step)  # it may abort requests: what they get is dropped
            if step_input is not None:
                step.future = self._execute(step_input)
                return step
            if self.scheduler.has_unfinished_requests() and not (
                output.preempted_req_ids or output.blocked or step.errors
            ):
                raise SchedulerStalledError(
                    "requests are unfinished, but schedule() gave no tokens to any of them"
                )
        step.future.set_result(StepOutput())
        return step

    def _execute(self, step: StepInput) -> "Future[StepOutput]":
        return self.executor.execute(step)

    def finish_step(self, step: Step, result: StepOutput) -> list[TokenDelta]:
        """Take in what came of the oldest step in flight. Returns what it brought, in step order.

        Tokens of a request that was ended meanwhile are dropped, and so are those behind a token
        that ends one. A request from which no token could be sampled ends with reason "error". One
        that a part has ended out of the queue comes last.
        """
        with self.changes("step"):
            oldest = self.in_flight.popleft()
            assert oldest is step, "steps end in the order in which they were begun"
            starts = {
                request: len(request.output_token_ids)
                for request in step.requests
                if not request.is_finished
            }
            failed = [request for request in starts if request.request_id in result.errors]
            for request in failed:
                name = request.request_id
                step.errors[request] = RequestFailedError(
                    f"request {shown(name)}: {result.errors[name]}"
                )
                self.end_with_error(request)
            step.end_kv(self.scheduler.kv_cache_manager, result.kv)
            token_ids = {
                name: [token.token_id for token in tokens] for name, tokens in result.tokens.items()
            }
            finished = step.update(self.scheduler, token_ids)
            for request in finished:
                self.runner_view.forget(request.request_id)
                starts.setdefault(request, 0)
            # A listener may abort requests, and use their ids again: finish() notes it here.
            ended = self._ended = set()
            self._tell("after_update", step, token_ids, [*finished, *failed])
            errors = {
                request: str(error) for request, error in step.errors.items() if request.is_finished
            }
            return [
                TokenDelta(
                    name,
                    result.tokens.get(name, [])[: len(request.output_token_ids) - start],
                    request.finish_reason,
                    request.num_cached_tokens,
                    errors.get(request),
                    isinstance(step.errors.get(request), RequestRefusedError)
                    or isinstance(result.errors.get(name), Refusal),
                    result.prompt_logprobs.get(name),
                )
                for request, start in starts.items()
                if (name := request.request_id) not in ended
                and (
                    len(request.output_token_ids) > start
                    or request in errors
                    or name in result.prompt_logprobs
                )
            ]

    def fail_step(self, step: Step, error: Exception) -> list[TokenDelta]:
        """The executor has raised. Here it is raised on; RecoveringCore tries the step again."""
        with self.changes("step"):
            raise error

    def end_with_error(self, request: Request) -> None:
        """End a request, and let no request find what it has computed: the same K and V may spoil
        another request.
        """
        self.scheduler.finish_request(request.request_id, "error")
        self.runner_view.forget(request.request_id)
        request.num_computed_tokens = 0  # so that all of its content is withdrawn
        self.scheduler.kv_cache_manager.withdraw(request, request.num_tokens)

    # --- those who watch, and errors --------------------------------------------------------------

    def _tell(self, event: str, *args: Any, **kwargs: Any) -> None:
        for listener in list(self.listeners):
            getattr(listener, event)(*args, **kwargs)

    @contextmanager
    def changes(self, what: str) -> Iterator[None]:
        """Around what changes the scheduler.

        What raises in it kills the core, except for the refusal of a request.
        """
        if self.is_dead:
            raise EngineDeadError(
                f"{what}: the engine has stopped at an earlier error; LLMEngine.reset() begins "
                "again"
            )
        try:
            yield
        except BaseException as error:
            self.is_dead = what != "add" or not isinstance(error, MiniVllmError)
            if self.is_dead:
                logger.error("%s %d: %s", what, self.num_steps, type(error).__name__)
            raise
