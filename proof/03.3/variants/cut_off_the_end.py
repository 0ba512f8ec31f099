"""It cuts the end off the list with a slice, and builds the state of a victim in one assignment, table first."""

from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def _pop_victim(self) -> Request:
        *staying, victim = self.running
        self.running = staying
        return victim

    def _preempt(self, request: Request) -> None:
        self.kv_cache_manager.free(request)
        times = 1 + request.num_preemptions
        request.num_computed_tokens, request.num_preemptions, request.status = 0, times, RequestStatus.PREEMPTED
        self.waiting.extendleft([request])
