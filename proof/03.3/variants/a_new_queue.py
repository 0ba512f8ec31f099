"""It builds the queue anew with the victim in front, and deletes the last of running by index."""

from collections import deque

from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def _preempt(self, request: Request) -> None:
        request.num_preemptions += 1
        request.status = RequestStatus.PREEMPTED
        self.waiting = deque([request, *self.waiting])
        self.kv_cache_manager.free(request)
        request.num_computed_tokens = 0

    def _pop_victim(self) -> Request:
        last = len(self.running) - 1
        youngest = self.running[last]
        del self.running[last]
        return youngest
