"""It empties the queue into a heap and reads it off again; the victim is the end of a sorted list of keys."""

import heapq

from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler


def urgency(request: Request) -> tuple[int, float, str]:
    return request.priority, request.arrival_time, request.request_id


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def _enqueue(self, request: Request) -> None:
        if self.policy != "priority":
            front = request.status is RequestStatus.PREEMPTED
            return (self.waiting.appendleft if front else self.waiting.append)(request)
        heap = [(urgency(each), i, each) for i, each in enumerate([*self.waiting, request])]
        heapq.heapify(heap)
        self.waiting.clear()
        while heap:
            self.waiting.append(heapq.heappop(heap)[-1])
        return None

    def _pop_victim(self) -> Request:
        places = sorted(range(len(self.running)), key=lambda i: urgency(self.running[i]))
        return self.running.pop(-1 if self.policy == "fcfs" else places[-1])
