"""Lab 03.5: Priority: which request waits, which is preempted (25 minutes). What must hold is in contract.md."""

from labkit import todo
from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler


def urgency(request: Request) -> tuple[int, float, str]:
    """Sort key of the waiting queue under the priority policy. Source: Request.__lt__ of vLLM."""
    todo("03.5")


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def _enqueue(self, request: Request) -> None:
        """Put a newcomer or a victim into its place in waiting.

        Which one it is depends on the policy.
        """
        todo("03.5")

    def _pop_victim(self) -> Request:
        """Take the request that gives way out of running, and return it.

        Which one it is depends on the policy.
        """
        todo("03.5")
