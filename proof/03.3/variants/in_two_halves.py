"""It keeps what belongs to the request and what belongs to the scheduler in helpers of their own; the cache goes first."""

from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def _preempt(self, request: Request) -> None:
        self.kv_cache_manager.free(request)
        self._reset(request)
        self._enqueue(request)

    @staticmethod
    def _reset(request: Request) -> None:
        for name, value in {
            "num_computed_tokens": 0,
            "num_preemptions": request.num_preemptions + 1,
            "status": RequestStatus.PREEMPTED,
        }.items():
            setattr(request, name, value)

    def _pop_victim(self) -> Request:
        return self._least_entitled() if self.policy == "priority" else self.running.pop(-1)

    def _least_entitled(self) -> Request:
        latest = sorted(self.running, key=lambda request: (request.priority, request.arrival_time))[-1]
        self.running.remove(latest)
        return latest
