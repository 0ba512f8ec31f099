"""It walks the queue from the back to the place, and goes over running to remember the least urgent so far."""

from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler


def urgency(request: Request) -> tuple[int, float, str]:
    return (request.priority, request.arrival_time, request.request_id)


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def _enqueue(self, request: Request) -> None:
        place = len(self.waiting)
        if self.policy == "priority":
            while place > 0 and urgency(self.waiting[place - 1]) > urgency(request):
                place -= 1
        elif request.status is RequestStatus.PREEMPTED:
            place = 0
        self.waiting.insert(place, request)

    def _pop_victim(self) -> Request:
        place = len(self.running) - 1
        if self.policy == "priority":
            for i, request in enumerate(self.running):
                if urgency(request) > urgency(self.running[place]):
                    place = i
        return self.running.pop(place)
