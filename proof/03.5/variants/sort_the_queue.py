"""It appends and sorts the whole queue anew; the victim is the end of a sorted copy, the first of equals."""

from collections import deque

from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler


def urgency(request: Request) -> tuple[int, float, str]:
    return request.priority, request.arrival_time, request.request_id


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def _enqueue(self, request: Request) -> None:
        if self.policy == "fcfs" and request.status is RequestStatus.PREEMPTED:
            self.waiting.appendleft(request)
            return
        self.waiting.append(request)
        if self.policy == "priority":
            self.waiting = deque(sorted(self.waiting, key=urgency))

    def _pop_victim(self) -> Request:
        victim = self.running[-1]
        if self.policy == "priority":
            victim = sorted(reversed(self.running), key=lambda request: urgency(request)[:2])[-1]
        self.running = [request for request in self.running if request is not victim]
        return victim
