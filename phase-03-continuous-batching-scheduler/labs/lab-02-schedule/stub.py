"""Lab 03.2: schedule(): running first, then waiting (60 minutes). What must hold is in contract.md."""

from collections.abc import Sequence

from labkit import todo
from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler
from mini_vllm.scheduler_interface import SchedulerOutput as SchedulerOutput


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def schedule(self) -> SchedulerOutput:
        """Decide the next step.

        Running first; no request is admitted in a step that had to preempt.
        """
        todo("03.2")
