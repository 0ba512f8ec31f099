"""Lab 03.5: Priority: who waits, who gives way (25 minutes). What must hold is in contract.md."""

from bisect import insort

from labkit import todo
from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler


def urgency(request: Request) -> tuple[int, float, str]:
    """Sort key of the waiting queue under the priority policy. Source: Request.__lt__ of vLLM."""
    todo("03.5")


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def _enqueue(self, request: Request) -> None:
        todo("03.5")

    def _pop_victim(self) -> Request:
        """Take the request to preempt out of running: the youngest, or under priority the least urgent.

        Among equals of priority and arrival time it is the first, as in vLLM. Without reserve_full_sequence two such
        requests can preempt each other for ever, there as here: give requests arrival times of their own.
        """
        todo("03.5")
