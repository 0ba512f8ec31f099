"""Urgency is an object that compares itself; the queue is split into those before the newcomer and those after it."""

from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler


class Urgency:
    def __init__(self, request: Request) -> None:
        self.request = request

    def __lt__(self, other: "Urgency") -> bool:
        a, b = self.request, other.request
        if a.priority != b.priority:
            return a.priority < b.priority
        if a.arrival_time != b.arrival_time:
            return a.arrival_time < b.arrival_time
        return a.request_id < b.request_id


def urgency(request: Request) -> Urgency:
    return Urgency(request)


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def _enqueue(self, request: Request) -> None:
        others = list(self.waiting)
        if self.policy == "priority":
            before = [other for other in others if urgency(other) < urgency(request)]
        else:
            before = [] if request.status is RequestStatus.PREEMPTED else others
        self.waiting.clear()
        self.waiting.extend([*before, request, *others[len(before) :]])

    def _pop_victim(self) -> Request:
        if self.policy != "priority":
            return self.running.pop()
        victim = self.running[0]
        for other in self.running:
            is_less = (other.priority, other.arrival_time) > (victim.priority, victim.arrival_time)
            victim = other if is_less else victim
        del self.running[self.running.index(victim)]
        return victim
