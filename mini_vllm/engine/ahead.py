"""One step ahead: a step is decided and handed over while the one before it computes.

The host decides a step in a millisecond or more, in which the device would wait. So step n + 1 is
decided before the tokens of step n are known. It needs no token, only how many there will be: a
request in flight has a placeholder for each token that a step samples for it, and the executor puts
the token in its place when it has sampled it. Two things follow. A request that ends with a stop
token has one step too many, whose token is dropped. A block gets its name one step later, since a
name is made of tokens.

Source: AsyncScheduler in vllm/v1/core/sched/async_scheduler.py, EngineCore.step_with_batch_queue in
vllm/v1/engine/core.py. The decisions are those of vLLM 0.33.0 with async_scheduling=True.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

from mini_vllm.engine.core import EngineCore
from mini_vllm.engine.runner_view import RunnerView
from mini_vllm.errors import InvalidParameterError
from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler, SchedulerInterface, SchedulerOutput
from mini_vllm.scheduler_interface import Step
from mini_vllm.step import KVPlan, StepInput, StepOutput, TokenDelta
from mini_vllm.worker.executor import PLACEHOLDER, Executor

MOST_IN_FLIGHT = 2  # steps


@dataclass(slots=True, eq=False)
class Begun:
    """A step that was decided and has not ended."""

    output: SchedulerOutput
    starts: dict[Request, int]
    """num_computed_tokens of its requests when it was decided."""
    is_advanced: bool = False
    """Whether the counters of its requests are behind it already."""


class AsyncScheduler(Scheduler):
    """A scheduler that decides a step before it knows what the one before it has sampled.

    When a step is decided, the counters of those in flight go ahead, as if they had ended. They
    stay where they were until then, so listeners see them as without a step ahead.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.num_output_placeholders: Counter[Request] = Counter()
        """By request: tokens that steps in flight sample for it."""
        self._begun: deque[Begun] = deque()

    def schedule(self) -> SchedulerOutput:
        for begun in self._begun:
            self._advance(begun)
        output = super().schedule()
        starts = {request: request.num_computed_tokens for request in output.scheduled_requests}
        self._begun.append(Begun(output, starts))
        if not output.num_scheduled_tokens:  # it is no stall
            waiting = (request.request_id for request in +self.num_output_placeholders)
            output.blocked.update(dict.fromkeys(waiting, "a step in flight"))
        return output

    def _target(self, request: Request) -> int:
        """The length that it has when the steps in flight have ended.

        If its last token is among theirs, there is nothing to catch up with.
        """
        num_tokens = super()._target(request)
        if p := self.num_output_placeholders[request]:
            num_tokens += p
            if num_tokens >= request.at_most(request.num_prompt_tokens + request.max_tokens):
                return request.num_computed_tokens
        return num_tokens

    def _advance(self, begun: Begun) -> None:
        if begun.is_advanced:
            return
        begun.is_advanced = True
        for request in begun.output.scheduled_requests:
            if request.status is RequestStatus.RUNNING:
                n = begun.output.num_scheduled_tokens[request.request_id]
                self.num_output_placeholders[request] += int(self.needs_sample(request, n))
                request.num_computed_tokens += n

    def _preempt(self, request: Request) -> None:
        self.num_output_placeholders.pop(request, None)
        super()._preempt(request)

    def finish_request(self, request_id: str, reason: str) -> Request | None:
        request = super().finish_request(request_id, reason)
        if request is not None:
            self.num_output_placeholders.pop(request, None)
        return request

    def update_from_output(
        self, output: SchedulerOutput, sampled_token_ids: Mapping[str, Sequence[int]]
    ) -> list[Request]:
        """The same, for the oldest step in flight.

        A request that was preempted since gets its token all the same: it was computed before its
        blocks were given away.
        """
        self._advance(self._begun[0])
        self._begun.popleft()
        preempted = []
        for request in output.scheduled_requests:
            request_id = request.request_id
            if request.status is RequestStatus.PREEMPTED:
                preempted.append(request)
            elif request.status is RequestStatus.RUNNING:
                num_in_flight = sum(
                    begun.output.num_scheduled_tokens.get(request_id, 0) for begun in self._begun
                )
                # before it may end, so that the next request finds its last block
                self.kv_cache_manager.cache_blocks(request, num_in_flight)
                request.num_computed_tokens -= output.num_scheduled_tokens[request_id]
                self.num_output_placeholders[request] -= len(sampled_token_ids.get(request_id, ()))
        finished = super().update_from_output(output, sampled_token_ids)
        finished += [
            request
            for request in preempted
            if self._ends(request, sampled_token_ids.get(request.request_id, ()))
        ]
        for request in finished:
            self.num_output_placeholders.pop(request, None)
        return finished

    def _ends(self, request: Request, token_ids: Sequence[int]) -> bool:
        """Append tokens to a request in the queue, and take it out if it ends with one."""
        for token_id in token_ids:
            request.append_output_token(token_id)
            if request.maybe_finish():
                self.waiting.remove(request)
                self.kv_cache_manager.free(request)
                del self._requests[request.request_id]
                return True
        return False

    def fail_step(self, output: SchedulerOutput) -> None:
        """Undo the newest step in flight."""
        for request, start in self._begun.pop().starts.items():
            now, request.num_computed_tokens = request.num_computed_tokens, start
            if request.status is RequestStatus.PREEMPTED:
                # since, and what it had published by then was not written
                self.kv_cache_manager.withdraw(
                    request, output.num_scheduled_tokens[request.request_id]
                )
                request.num_computed_tokens = now
        super().fail_step(output)


class AsyncRunnerView(RunnerView):
    """Placeholders stand for the tokens that are in flight."""

    scheduler: AsyncScheduler

    def make_step_input(self, output: SchedulerOutput, plan: KVPlan) -> StepInput:
        num_placeholders = self.scheduler.num_output_placeholders
        unknown = [
            (request, p)
            for request in output.scheduled_requests
            if (p := num_placeholders[request])
        ]
        for request, p in unknown:
            request.all_token_ids.extend([PLACEHOLDER] * p)
        step = super().make_step_input(output, plan)
        for request, p in unknown:
            del request.all_token_ids[-p:]
        return step


class AsyncCore(EngineCore):
    """begin_step() may begin one step more than the one that it returns, which is the oldest."""

    def __init__(self, scheduler: SchedulerInterface, executor: Executor) -> None:
        super().__init__(scheduler, executor)
        self.runner_view = AsyncRunnerView(scheduler)
        self._has_failed = False  # the last step: the next one is alone
        # a step that was decided, and whose parts wait for tokens in flight
        self._held: StepInput | None = None

    def begin_step(self) -> Step:
        while not self.in_flight or (
            len(self.in_flight) < MOST_IN_FLIGHT and self._may_run_ahead()
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
        if (held := self._held) is not None:
            with self.changes("step"):
                self._held, (following,) = None, self.in_flight
                for part in following.unanswered:
                    part.after_schedule(following, self.scheduler)
                masks = following.output.masks
                following.future = super()._execute(replace(held, masks=masks))
        return deltas

    def fail_step(self, step: Step, error: Exception) -> list[TokenDelta]:
        self._has_failed = True
        if self._held is not None:  # no device will answer
            self.in_flight[-1].future.set_result(StepOutput())
            self._held = None
        return super().fail_step(step, error)

    def _may_run_ahead(self) -> bool:
        return self.scheduler.has_unfinished_requests() and not self._has_failed


def one_step_ahead(base: type[SchedulerInterface]) -> type[AsyncScheduler]:
    """The scheduler `base`, one step ahead.

    Raises InvalidParameterError for one that shares too little with V1.
    """
    if issubclass(base, AsyncScheduler):
        return base
    if not issubclass(base, Scheduler):
        raise InvalidParameterError(
            "async_scheduling needs a scheduler that decides without the tokens in flight, got "
            f"{base.__name__}"
        )
    return type(f"Async{base.__name__}", (AsyncScheduler, base), {})


def core_ahead(base: type[EngineCore]) -> type[AsyncCore]:
    """The engine core `base`, one step ahead."""
    return type(f"Async{base.__name__}", (AsyncCore, base), {})
