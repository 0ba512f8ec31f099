"""Lab 03.3: Preemption: give everything back (20 minutes). What must hold is in contract.md."""

from labkit import todo
from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def _preempt(self, request: Request) -> None:
        """Take back everything but the tokens; the request will compute them again (preemption by recompute)."""
        todo("03.3")

    def _pop_victim(self) -> Request:
        """Take the request to preempt out of running: the youngest, or under priority the least urgent.

        Among equals of priority and arrival time it is the first, as in vLLM. Without reserve_full_sequence two such
        requests can preempt each other for ever, there as here: give requests arrival times of their own.
        """
        todo("03.3")
