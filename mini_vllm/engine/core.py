"""EngineCore: the loop schedule() -> execute() -> update_from_output(), and nothing else.

Token ids go in, TokenDeltas come out. There is no text here, no clock, no tensor and no seed: the scheduler decides, an
Executor computes, listeners watch, and the core carries data between them. A step has two halves, so that a program
that owns the core may do something else while the model runs; requests may be added or aborted between the halves.

What raises is raised at once. The scheduler may then stand in the middle of a step, so the core refuses further ones.
Source: EngineCore in vllm/v1/engine/core.py.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import chain
from typing import Any

from mini_vllm.engine.runner_view import RunnerView
from mini_vllm.errors import EngineDeadError, MiniVllmError, RequestRefusedError, SchedulerStalledError, shown
from mini_vllm.observe.listener import StepListener
from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler_interface import SchedulerInterface, SchedulerOutput
from mini_vllm.step import StepInput, StepOutput, TokenDelta
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
        self._starts: list[tuple[Request, int]] = []  # of the step: its requests, and how long their outputs were
        self._ended: set[str] = set()  # since after_update was called, by a listener: no delta tells of them

    # --- requests come and go -------------------------------------------------------------------------------------

    def add(self, requests: Sequence[Request]) -> None:
        """Queue a request, or the choices of one prompt. Raises a RequestRefusedError; then none is added."""
        with self.changes("add"):
            if len(requests) == 1:
                self.scheduler.add_request(requests[0])
            else:
                self.scheduler.add_group(requests)

    def finish(self, request_ids: Iterable[str], reason: str) -> None:
        """End requests from outside: "stop" (a stop string was seen), "length" or "abort". Unknown ids are ignored."""
        for request_id in request_ids:
            with self.changes("finish"):
                request = self.scheduler.finish_request(request_id, reason)
                self.runner_view.forget(request_id)
                self._ended.add(request_id)
                if request is not None:
                    self._tell("after_finish", request)

    def abort(self, request_ids: Iterable[str]) -> None:
        """Drop requests, also between the halves of a step; their blocks are free at once. Unknown ids are ignored."""
        self.finish(request_ids, "abort")

    def has_unfinished_requests(self) -> bool:
        return self.scheduler.has_unfinished_requests()

    # --- one step -------------------------------------------------------------------------------------------------

    def step(self) -> list[TokenDelta]:
        """Both halves."""
        output, future = self.begin_step()
        try:
            result = future.result()
        except Exception as error:
            return self.fail_step(output, error)
        return self.finish_step(output, result)

    def begin_step(self) -> tuple[SchedulerOutput, "Future[StepOutput]"]:
        """Decide a step and hand it to the executor. finish_step() or fail_step() has to follow.

        Raises SchedulerStalledError if the scheduler has work but schedules none.
        """
        with self.changes("step"):
            self.num_steps += 1
            self._tell("before_schedule")
            output = self.scheduler.schedule()
            plan = self.scheduler.kv_cache_manager.begin_step()
            requests = chain(output.scheduled_requests, *output.sampling_along.values())
            self._starts = [(request, len(request.output_token_ids)) for request in requests]
            is_needed = output.num_scheduled_tokens or plan or self.runner_view.forget_all
            step = self.runner_view.make_step_input(output, plan) if is_needed else None
            self._tell("after_schedule", output, plan)  # it may abort requests: what they get is dropped
            if step is not None:
                return output, self._execute(step)
            is_stalled = not output.preempted_req_ids and not output.blocked
            if is_stalled and self.scheduler.has_unfinished_requests():
                raise SchedulerStalledError("requests are unfinished, but schedule() gave no tokens to any of them")
        nothing: Future[StepOutput] = Future()
        nothing.set_result(StepOutput())
        return output, nothing

    def _execute(self, step: StepInput) -> "Future[StepOutput]":
        return self.executor.execute(step)

    def finish_step(self, output: SchedulerOutput, result: StepOutput) -> list[TokenDelta]:
        """Take in what came of a step; returns what it brought to each request, in step order.

        Tokens of a request that was ended meanwhile are dropped, and so are those behind a token that ends one. A
        request from which no token could be sampled ends with reason "error". One that the scheduler has ended out of
        its queue comes last.
        """
        with self.changes("step"):
            running = [each for each in self._starts if each[0].status is RequestStatus.RUNNING]
            failed = [request for request, _ in running if request.request_id in result.errors]
            for request in failed:
                self.end_with_error(request)
            self.scheduler.kv_cache_manager.end_step(result.kv)
            token_ids = {name: [token.token_id for token in tokens] for name, tokens in result.tokens.items()}
            finished = self.scheduler.update_from_output(output, token_ids)
            for request in finished:
                self.runner_view.forget(request.request_id)
            self._ended.clear()
            self._tell("after_update", token_ids, [*finished, *failed])  # a listener may abort, and use an id again
            why = {request.request_id: result.errors[request.request_id] for request in failed}
            errors = {name: f"request {shown(name)}: {text}" for name, text in why.items()}
            errors |= {name: str(error) for name, error in output.errors.items()}
            started = {request.request_id for request, _ in self._starts}
            running += [(request, 0) for request in finished if request.request_id not in started]
            return [
                TokenDelta(
                    name := request.request_id,
                    result.tokens.get(name, [])[: len(request.output_token_ids) - start],
                    request.finish_reason,
                    request.num_cached_tokens,
                    errors.get(name),
                    isinstance(output.errors.get(name), RequestRefusedError),
                    result.prompt_logprobs.get(name),
                )
                for request, start in running
                if request.request_id not in self._ended
                and (
                    len(request.output_token_ids) > start
                    or request.request_id in errors
                    or request.request_id in result.prompt_logprobs
                )
            ]

    def fail_step(self, output: SchedulerOutput, error: Exception) -> list[TokenDelta]:
        """The executor has raised. Here it is raised on; RecoveringCore undoes the step, which is tried again."""
        with self.changes("step"):
            raise error

    def end_with_error(self, request: Request) -> None:
        """End a request, and let no request find what it has computed: the same K and V may spoil another request."""
        self.scheduler.finish_request(request.request_id, "error")
        self.runner_view.forget(request.request_id)
        request.num_computed_tokens = 0
        self.scheduler.kv_cache_manager.withdraw(request, request.num_tokens)

    # --- those who watch, and errors ------------------------------------------------------------------------------

    def _tell(self, event: str, *args: Any, **kwargs: Any) -> None:
        for listener in list(self.listeners):
            getattr(listener, event)(*args, **kwargs)

    @contextmanager
    def changes(self, what: str) -> Iterator[None]:
        """Around what changes the scheduler. What raises in it kills the core, except for the refusal of a request."""
        if self.is_dead:
            raise EngineDeadError(f"{what}: the engine has stopped at an earlier error; LLMEngine.reset() begins again")
        try:
            yield
        except BaseException as error:
            self.is_dead = what != "add" or not isinstance(error, MiniVllmError)
            if self.is_dead:
                logger.error("%s %d: %s", what, self.num_steps, type(error).__name__)
            raise
