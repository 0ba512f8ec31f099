"""A scheduler one step ahead: it counts the tokens that steps in flight sample. Source:
AsyncScheduler in vllm/v1/core/sched/async_scheduler.py.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler, SchedulerOutput


@dataclass(slots=True, eq=False)
class Begun:
    """A step that was decided and has not ended."""

    output: SchedulerOutput
    starts: dict[Request, int]
    """num_computed_tokens of its requests when it was decided."""
    is_advanced: bool = False
    """Whether the counters of its requests are behind it already."""
    advanced: dict[Request, tuple[int, int]] = field(default_factory=dict)
    """By how much the counters of its requests are behind it already: num_computed_tokens, and the
    placeholders.
    """
    num_running: int = 0
    """Its first requests were running before."""


class LateScheduler(Scheduler):
    """A step may end when its requests no longer run."""

    def update_from_output(
        self, output: SchedulerOutput, sampled_token_ids: Mapping[str, Sequence[int]]
    ) -> list[Request]:
        """The same, for those that run."""
        running = [r for r in output.scheduled_requests if r.status is RequestStatus.RUNNING]
        return super().update_from_output(
            replace(output, scheduled_requests=running), sampled_token_ids
        )


class AsyncScheduler(LateScheduler):
    """A scheduler that decides a step before it knows what the one before it has sampled.

    When a step is decided, the counters of those in flight go ahead, as if they had ended. They
    stay where they were until then, so listeners see them as without a step ahead.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.num_output_placeholders: Counter[Request] = Counter()
        """By request: tokens that steps in flight sample for it, if all their drafts are right."""
        self._begun: deque[Begun] = deque()

    def schedule(self) -> SchedulerOutput:
        for begun in self._begun:
            self._advance(begun)
        output = super().schedule()
        starts = {request: request.num_computed_tokens for request in output.scheduled_requests}
        self._begun.append(Begun(output, starts))
        if not output.num_scheduled_tokens:  # it is no stall
            for request in +self.num_output_placeholders:
                output.blocked[request.request_id] = "a step in flight"
        return output

    def _target(self, request: Request) -> int:
        """The length that it has when the steps in flight have ended.

        If its last token is surely among theirs, since each gives one token at least, there is
        nothing to catch up with.
        """
        num_tokens = super()._target(request)
        if p := self.num_output_placeholders[request]:
            if len(request.output_token_ids) + 1 >= request.max_tokens:
                return request.num_computed_tokens
            # the token behind the last one needs a place, too
            num_tokens = request.at_most(num_tokens + p + 1) - 1
        return num_tokens

    def _advance(self, begun: Begun) -> None:
        if begun.is_advanced:
            return
        begun.is_advanced, output = True, begun.output
        for request in output.scheduled_requests:
            if request.status is RequestStatus.RUNNING:
                n = output.num_scheduled_tokens[request.request_id]
                num_drafts = len(output.drafts.get(request.request_id, ()))
                p = num_drafts + (  # behind a placeholder each step samples
                    self.num_output_placeholders[request] > 0
                    or self.needs_sample(request, n - num_drafts)
                )
                begun.advanced[request] = n, p
                self.num_output_placeholders[request] += p
                request.num_computed_tokens += n

    def num_in_flight(self, request: Request) -> int:
        """Tokens of it that steps in flight compute."""
        return sum(b.output.num_scheduled_tokens.get(request.request_id, 0) for b in self._begun)

    def _preempt(self, request: Request) -> None:
        """The step in flight computes one token for sure. More may be kept of drafts alone."""
        if p := self.num_output_placeholders.pop(request, 0):
            request.num_computed_tokens -= p - 1
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
        begun, preempted = self._begun.popleft(), []
        self._advance(begun)
        for request in output.scheduled_requests:
            if request.status is RequestStatus.PREEMPTED:
                preempted.append(request)
            elif request.status is RequestStatus.RUNNING:
                n, p = begun.advanced[request]
                if p:  # before it may end, so that the next request finds its last block
                    self.kv_cache_manager.cache_blocks(request, self.num_in_flight(request))
                request.num_computed_tokens -= n
                self.num_output_placeholders[request] -= p
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
