"""Its key is an object that knows what is more urgent; the victim is found by going over running once."""

from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler


class Urgency:
    def __init__(self, request: Request) -> None:
        self.request = request

    def __lt__(self, other: "Urgency") -> bool:
        for name in ("priority", "arrival_time", "request_id"):
            mine, theirs = getattr(self.request, name), getattr(other.request, name)
            if mine != theirs:
                return mine < theirs
        return False


def urgency(request: Request) -> Urgency:
    return Urgency(request)


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def _enqueue(self, request: Request) -> None:
        place = 0 if request.status is RequestStatus.PREEMPTED else len(self.waiting)
        if self.policy == "priority":
            place = sum(urgency(each) < urgency(request) for each in self.waiting)
        self.waiting.insert(place, request)

    def _pop_victim(self) -> Request:
        least = self.running[-1]
        for request in self.running if self.policy == "priority" else ():
            if urgency(least) < urgency(request):
                least = request
        self.running = [request for request in self.running if request is not least]
        return least
