"""It takes running apart by hand; the victim's place in the queue is the queue's own affair."""

from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def _preempt(self, request: Request) -> None:
        self.kv_cache_manager.free(request)
        request.num_computed_tokens = 0
        request.status = RequestStatus.PREEMPTED
        request.num_preemptions = request.num_preemptions + 1
        self._enqueue(request)

    def _pop_victim(self) -> Request:
        *others, youngest = self.running
        self.running = others
        return youngest
