"""It keeps a diary of its victims for whoever debugs it; the diary decides nothing, and a victim is found by its place."""

from collections import Counter

from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def _pop_victim(self) -> Request:
        return self.running.pop(len(self.running) - 1)

    def _preempt(self, request: Request) -> None:
        vars(self).setdefault("diary", Counter())[request.request_id] += 1
        self._take_back(request)
        waiting = list(self.waiting)
        self.waiting.clear()
        self.waiting.extend([request, *waiting])

    def _take_back(self, request: Request) -> None:
        try:
            self.kv_cache_manager.free(request)
        finally:
            request.status = RequestStatus.PREEMPTED
            request.num_preemptions -= -1
            request.num_computed_tokens -= request.num_computed_tokens
