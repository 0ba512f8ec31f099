# === a_heap_of_keys
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


# === a_key_for_each_policy
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


# === a_key_that_compares_itself
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


# === sort_the_queue
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


# === walk_from_the_back
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
