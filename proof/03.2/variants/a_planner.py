"""A step is an object of its own that knows the scheduler; schedule() makes it and asks for its output."""

from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler
from mini_vllm.scheduler import SchedulerOutput


class Planner:
    def __init__(self, scheduler) -> None:
        self.scheduler = scheduler
        self.kv = scheduler.kv_cache_manager
        self.computing: list[tuple[Request, int]] = []
        self.gone: list[Request] = []

    @property
    def rest(self) -> int:
        return self.scheduler.max_num_batched_tokens - sum(n for _, n in self.computing)

    def wants(self, request: Request, computed: int) -> int:
        return self.scheduler._clamp_new_tokens(request.num_tokens - computed, self.rest)

    def go_on(self) -> None:
        for request in tuple(self.scheduler.running):
            if any(request is other for other in self.gone):
                break  # and so have all behind it
            n = self.wants(request, request.num_computed_tokens)
            if n and self.make_room(request, n):
                self.computing.append((request, n))

    def make_room(self, request: Request, n: int) -> bool:
        while self.kv.allocate_slots(request, n) is None:
            self.gone.append(self.scheduler._pop_victim())
            self.scheduler._preempt(self.gone[-1])
            if self.gone[-1] is request:
                return False
        return True

    def admit(self) -> bool:
        scheduler = self.scheduler
        if self.gone or not scheduler.waiting or not self.rest or len(scheduler.running) >= scheduler.max_num_seqs:
            return False
        head = scheduler.waiting[0]
        blocks, hit = self.kv.get_computed_blocks(head)
        n = self.wants(head, hit)
        if self.kv.allocate_slots(head, n, blocks) is None:
            return False
        scheduler.running.append(scheduler.waiting.popleft())
        head.num_computed_tokens, head.status = hit, RequestStatus.RUNNING
        self.computing.append((head, n))
        return True


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def schedule(self) -> SchedulerOutput:
        step = Planner(self)
        step.go_on()
        while step.admit():
            pass
        return SchedulerOutput(
            {request.request_id: n for request, n in step.computing},
            [request for request, _ in step.computing],
            [request.request_id for request in step.gone],
        )
