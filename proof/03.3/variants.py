# === a_new_queue
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


# === by_hand
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


# === cut_off_the_end
"""It cuts the end off the list with a slice, and builds the state of a victim in one assignment, table first."""

from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def _pop_victim(self) -> Request:
        *staying, victim = self.running
        self.running = staying
        return victim

    def _preempt(self, request: Request) -> None:
        self.kv_cache_manager.free(request)
        times = 1 + request.num_preemptions
        request.num_computed_tokens, request.num_preemptions, request.status = 0, times, RequestStatus.PREEMPTED
        self.waiting.extendleft([request])


# === in_two_halves
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


# === outline
"""The lab's own rules and nothing more: the victim under priority is of 03.5."""

EDITS = [
    (
        """
        if self.policy == "fcfs":
            return self.running.pop()
        # Among equals of priority and arrival time it is the first, as in vLLM. Without
        # reserve_full_sequence two such requests can preempt each other without end, in vLLM as
        # here: give requests arrival times of their own.
        victim = max(self.running, key=lambda request: (request.priority, request.arrival_time))
        self.running.remove(victim)
        return victim
""",
        """
        return self.running.pop()
""",
    )
]


# === with_a_diary
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


# === names_of_another_part
"""It keeps the victim in attributes of the names that another part has, and replaces running by a new list."""

from mini_vllm.request import RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler


class Scheduler(ReferenceScheduler):
    def _pop_victim(self):
        self._left = self.running[-1]
        self.running = self.running[:-1]
        self._step = "victim"
        return self._left

    def _preempt(self, request):
        self._output = request
        self._drafts = ()
        self.kv_cache_manager.free(self._output)
        self._output.status = RequestStatus.PREEMPTED
        self._output.num_computed_tokens = 0
        self._output.num_preemptions += 1
        self.waiting.appendleft(self._output)
