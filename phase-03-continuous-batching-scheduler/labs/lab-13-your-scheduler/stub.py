"""Lab 03.13: Your scheduler: all parts together (45 minutes). What must hold is in contract.md."""

from collections.abc import Sequence

from labkit import todo
from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler
from mini_vllm.scheduler_interface import SchedulerOutput as ReferenceSchedulerOutput


class SchedulerOutput(ReferenceSchedulerOutput):
    """What is not defined here is the reference's."""

    def drop(self, request: Request) -> int:
        """Take a request out of the step again; return the tokens that this gives back to the
        budget.
        """
        todo("03.13")


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def schedule(self) -> SchedulerOutput:
        """Decide the next step.

        Running first; no request is admitted in a step that had to preempt.
        """
        todo("03.13")

    def _admit(self, request: Request, num_computed_tokens: int) -> None:
        """Move a waiting request to the end of running, with the head start that the prefix cache
        gives.
        """
        todo("03.13")
