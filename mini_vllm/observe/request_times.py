"""When each request was scheduled first, and how often it was preempted: what its metrics tell."""

from collections.abc import Callable, Sequence

from mini_vllm.observe.listener import StepListener
from mini_vllm.request import Request
from mini_vllm.scheduler_interface import Step
from mini_vllm.step import TokenDelta


class RequestTimes(StepListener):
    """Watches the requests of a core, and writes their times on what its steps bring.

    clock: in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        # of unfinished requests: scheduled first when, preempted how often
        self._seen: dict[str, tuple[float, int]] = {}

    def after_schedule(self, step: Step) -> None:
        now = self._clock()
        for request in step.output.scheduled_requests:
            scheduled_time, _ = self._seen.get(request.request_id, (now, 0))
            self._seen[request.request_id] = scheduled_time, request.num_preemptions

    def after_finish(self, request: Request) -> None:
        self._seen.pop(request.request_id, None)

    def stamped(self, deltas: Sequence[TokenDelta]) -> list[TokenDelta]:
        """The deltas of a step that has ended, with the times of their requests."""
        now, seen = self._clock(), self._seen
        found = []
        for delta in deltas:
            times = (seen.get if delta.finish_reason is None else seen.pop)(
                delta.request_id, (None, 0)
            )
            found.append(
                delta._replace(time=now, scheduled_time=times[0], num_preemptions=times[1])
            )
        return found
