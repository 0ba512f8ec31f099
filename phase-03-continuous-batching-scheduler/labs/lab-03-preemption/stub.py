"""Lab 03.3: Preemption: give everything back (20 minutes). What must hold is in contract.md."""

from labkit import todo
from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def _preempt(self, request: Request) -> None:
        """Take back everything but the tokens; the request will compute them again (preemption by
        recompute).
        """
        todo("03.3")

    def _pop_victim(self) -> Request:
        """Take the request that gives way out of running, and return it.

        Which one it is depends on the policy.
        """
        todo("03.3")
