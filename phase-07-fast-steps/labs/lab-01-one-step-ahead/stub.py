"""Lab 07.1: One step ahead (45 minutes). What must hold is in contract.md."""

from collections.abc import Mapping, Sequence

from labkit import todo
from mini_vllm.engine.ahead.scheduler import AsyncScheduler as ReferenceAsyncScheduler, Begun
from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import SchedulerOutput


class AsyncScheduler(ReferenceAsyncScheduler):
    """What is not defined here is the reference's."""

    def _advance(self, begun: Begun) -> None:
        todo("07.1")

    def _target(self, request: Request) -> int:
        """The length that it has when the steps in flight have ended.

        If its last token is surely among theirs, since each gives one token at least, there is
        nothing to catch up with.
        """
        todo("07.1")

    def _preempt(self, request: Request) -> None:
        """The step in flight computes one token for sure. More may be kept of drafts alone."""
        todo("07.1")

    def update_from_output(
        self, output: SchedulerOutput, sampled_token_ids: Mapping[str, Sequence[int]]
    ) -> list[Request]:
        """The same, for the oldest step in flight.

        A request that was preempted since gets its token all the same: it was computed before its
        blocks were given away.
        """
        todo("07.1")
