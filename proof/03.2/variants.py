# === a_planner
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


# === by_index
"""It walks running by index while the list shrinks around it, so it needs no copy and looks at no status."""

from mini_vllm.request import RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler
from mini_vllm.scheduler import SchedulerOutput


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def schedule(self) -> SchedulerOutput:
        output = SchedulerOutput()
        kv = self.kv_cache_manager
        i = 0
        while i < len(self.running):
            request = self.running[i]
            rest = self.max_num_batched_tokens - output.total_num_scheduled_tokens
            n = self._clamp_new_tokens(request.num_tokens - request.num_computed_tokens, rest)
            while n > 0 and kv.allocate_slots(request, n) is None:
                victim = self._pop_victim()
                output.preempted_req_ids.append(victim.request_id)
                self._preempt(victim)
                output.drop(victim)
                if victim is request:
                    break
                i = self.running.index(request)
            else:
                if n > 0:
                    output.add(request, n)
                i += 1
        may_admit = not output.preempted_req_ids
        while may_admit and self.waiting and len(self.running) < self.max_num_seqs:
            rest = self.max_num_batched_tokens - output.total_num_scheduled_tokens
            may_admit = rest > 0 and self._take_the_head(output, rest)
        return output

    def _take_the_head(self, output: SchedulerOutput, rest: int) -> bool:
        request, kv = self.waiting[0], self.kv_cache_manager
        blocks, hit = kv.get_computed_blocks(request)
        n = self._clamp_new_tokens(request.num_tokens - hit, rest)
        if kv.allocate_slots(request, n, blocks) is None:
            return False
        self.running.append(self.waiting.popleft())
        request.status, request.num_computed_tokens = RequestStatus.RUNNING, hit
        output.add(request, n)
        return True


# === class_constant_and_isinstance
"""It keeps a constant of the class, and asks what class it is grafted into: the one that it calls Scheduler."""

from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler
from mini_vllm.scheduler import SchedulerOutput


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    FIRST = 0

    def schedule(self) -> SchedulerOutput:
        """Decide the next step. Running first; nobody is admitted in a step that had to preempt."""
        output = SchedulerOutput()
        token_budget = self._schedule_running(output, self.max_num_batched_tokens)
        if not output.preempted_req_ids:
            self._schedule_waiting(output, token_budget)
        return output

    def _schedule_running(self, output: SchedulerOutput, token_budget: int) -> int:
        """Give every running request the tokens it is behind; returns what is left of the budget."""
        allocate_slots = self.kv_cache_manager.allocate_slots
        for request in list(self.running):
            if request.status is RequestStatus.PREEMPTED:  # a victim of this very loop
                continue
            n = self._chunk_size(request, request.num_computed_tokens, token_budget)
            if n == 0:
                continue
            while allocate_slots(request, n) is None:
                victim = self._pop_victim()
                self._preempt(victim)
                output.preempted_req_ids.append(victim.request_id)
                token_budget += output.drop(victim)
                if victim is request:
                    break
            else:
                output.add(request, n)
                token_budget -= n
        return token_budget

    def _schedule_waiting(self, output: SchedulerOutput, token_budget: int) -> None:
        """Admit from the head of the queue; a head that does not fit blocks those behind it, so nobody starves."""
        kv = self.kv_cache_manager
        while self.waiting and token_budget > 0 and len(self.running) < self.max_num_seqs:
            assert isinstance(self, Scheduler)
            request = self.waiting[self.FIRST]
            computed_blocks, num_computed = kv.get_computed_blocks(request)
            n = self._chunk_size(request, num_computed, token_budget if self.enable_chunked_prefill else self.num_slots)
            if n > token_budget or not self._may_admit(request, num_computed + n, computed_blocks):
                break
            if kv.allocate_slots(request, n, computed_blocks) is None:
                break
            self._admit(request, num_computed)
            output.add(request, n)
            token_budget -= n

    def _admit(self, request: Request, num_computed_tokens: int) -> None:
        """Move the head of waiting to the end of running, with the head start that the prefix cache gives."""
        stats = self.preempted_prefix_cache_stats
        if request.status is RequestStatus.WAITING:
            stats = self.prefix_cache_stats
            request.num_cached_tokens = num_computed_tokens
        if self.kv_cache_manager.enable_prefix_caching:
            stats.record(request.num_tokens, num_computed_tokens)
        self.waiting.popleft()
        self.running.append(request)
        request.status = RequestStatus.RUNNING
        request.num_computed_tokens = num_computed_tokens


# === full
"""The full rules too: full-sequence reservation, the watermark, no chunks where they are off; statistics are kept."""

from mini_vllm.request import RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler
from mini_vllm.scheduler import SchedulerOutput


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def schedule(self) -> SchedulerOutput:
        output = SchedulerOutput()
        budget = self._serve_running(output, self.max_num_batched_tokens)
        kv = self.kv_cache_manager
        while self.waiting and budget and len(self.running) < self.max_num_seqs and not output.preempted_req_ids:
            head = self.waiting[0]
            blocks, hit = kv.get_computed_blocks(head)
            behind = head.num_tokens - hit
            n = self._clamp_new_tokens(behind, budget)
            if n < behind and not self.enable_chunked_prefill:
                break
            reserved = head.num_tokens if self.reserve_full_sequence else hit + n
            spare = self.num_watermark_blocks if self.running else 0
            if kv.num_blocks_needed(head, reserved, blocks) + spare > kv.num_free_blocks:
                break
            if kv.allocate_slots(head, n, blocks) is None:
                break
            stats = self.prefix_cache_stats if head.num_preemptions == 0 else self.preempted_prefix_cache_stats
            stats.record(head.num_tokens, hit)
            head.status = RequestStatus.RUNNING
            head.num_computed_tokens = hit
            self.running.append(self.waiting.popleft())
            output.add(head, n)
            budget -= n
        return output

    def _serve_running(self, output: SchedulerOutput, budget: int) -> int:
        for request in tuple(self.running):
            behind = request.num_tokens - request.num_computed_tokens
            n = self._clamp_new_tokens(behind, budget)
            if n == 0 or request.status is not RequestStatus.RUNNING:
                continue
            blocks = self.kv_cache_manager.allocate_slots(request, n)
            while blocks is None:
                victim = self._pop_victim()
                budget += output.drop(victim)
                self._preempt(victim)
                output.preempted_req_ids.append(victim.request_id)
                if victim is request:
                    break
                blocks = self.kv_cache_manager.allocate_slots(request, n)
            if blocks is not None:
                output.add(request, n)
                budget -= n
        return budget


# === one_after_the_other
"""It calls itself for the next request, and keeps what is left of the budget in an attribute for the time of a step."""

from mini_vllm.request import RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler
from mini_vllm.scheduler import SchedulerOutput


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def schedule(self) -> SchedulerOutput:
        self._left, self._step = self.max_num_batched_tokens, SchedulerOutput()
        self._from(0)
        if not self._step.preempted_req_ids:
            self._next()
        step, self._step = self._step, None
        return step

    def _take(self, request, n) -> None:
        self._step.add(request, n)
        self._left -= n

    def _from(self, i: int) -> None:
        if i >= len(self.running):
            return
        request = self.running[i]
        n = min(request.num_tokens - request.num_computed_tokens, self._left)
        if n and self.kv_cache_manager.allocate_slots(request, n) is None:
            victim = self._pop_victim()
            self._step.preempted_req_ids.append(victim.request_id)
            self._preempt(victim)
            return self._from(i)  # the same again, if it is still there
        if n:
            self._take(request, n)
        return self._from(i + 1)

    def _next(self) -> None:
        if not self._left or not self.waiting or len(self.running) == self.max_num_seqs:
            return
        blocks, hit = self.kv_cache_manager.get_computed_blocks(self.waiting[0])
        n = min(self.waiting[0].num_tokens - hit, self._left)
        if self.kv_cache_manager.allocate_slots(self.waiting[0], n, blocks) is not None:
            request = self.waiting.popleft()
            self.running += [request]
            request.status, request.num_computed_tokens = RequestStatus.RUNNING, hit
            self._take(request, n)
            self._next()


# === outline
"""The outline and nothing more: no clamp but a minimum, victims popped by hand, no finer rule of vLLM."""

from mini_vllm.request import RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler
from mini_vllm.scheduler import SchedulerOutput


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def schedule(self) -> SchedulerOutput:
        output = SchedulerOutput()
        budget = self.max_num_batched_tokens
        kv = self.kv_cache_manager
        for request in list(self.running):
            if request not in self.running:
                continue
            n = min(request.num_tokens - request.num_computed_tokens, budget)
            if n == 0:
                break
            given = kv.allocate_slots(request, n)
            while given is None and request in self.running:
                victim = self.running.pop()
                self._preempt(victim)
                output.preempted_req_ids.append(victim.request_id)
                if victim is not request:
                    given = kv.allocate_slots(request, n)
            if given is not None:
                output.add(request, n)
                budget -= n
        if output.preempted_req_ids:
            return output
        while self.waiting and budget > 0 and len(self.running) < self.max_num_seqs:
            request = self.waiting[0]
            blocks, hit = kv.get_computed_blocks(request)
            n = min(request.num_tokens - hit, budget)
            if kv.allocate_slots(request, n, blocks) is None:
                break
            self.waiting.popleft()
            request.status = RequestStatus.RUNNING
            request.num_computed_tokens = hit
            self.running.append(request)
            output.add(request, n)
            budget -= n
        return output


# === survivors_in_a_new_list
"""It consumes running from the front into a list of survivors; victims come from what is left, else it is the asker."""

from collections import deque

from mini_vllm.request import RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler
from mini_vllm.scheduler import SchedulerOutput


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def schedule(self) -> SchedulerOutput:
        output = SchedulerOutput()
        allocate = self.kv_cache_manager.allocate_slots
        ahead, survivors = deque(self.running), []
        budget = self.max_num_batched_tokens
        while ahead:
            request = ahead.popleft()
            n = self._clamp_new_tokens(request.num_tokens - request.num_computed_tokens, budget)
            if n and not self._make_room(request, n, ahead, output):
                continue
            survivors.append(request)
            if n:
                output.add(request, n)
                budget -= n
        self.running = survivors
        if not output.preempted_req_ids:
            for request in list(self.waiting):
                if budget == 0 or len(survivors) == self.max_num_seqs:
                    break
                blocks, hit = self.kv_cache_manager.get_computed_blocks(request)
                n = self._clamp_new_tokens(request.num_tokens - hit, budget)
                if allocate(request, n, blocks) is None:
                    break
                self.waiting.popleft()
                survivors.append(request)
                request.status = RequestStatus.RUNNING
                request.num_computed_tokens = hit
                output.add(request, n)
                budget -= n
        return output

    def _make_room(self, request, n, ahead, output) -> bool:
        """Whether the request has slots in the end; otherwise it was its own last victim."""
        while self.kv_cache_manager.allocate_slots(request, n) is None:
            victim = ahead.pop() if ahead else request
            self._preempt(victim)
            output.preempted_req_ids.append(victim.request_id)
            if victim is request:
                return False
        return True


# === names_of_drafting
"""Its own state and its helpers have the names of a scheduler with drafts, which it knows nothing of."""

from contextlib import contextmanager

from mini_vllm.request import RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler
from mini_vllm.scheduler import SchedulerOutput


class Scheduler(ReferenceScheduler):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._chunks = {}
        self._drafts = []
        self._paces = None
        self._output = None
        self.proposer = "no proposer: who proposes a request for admission"
        self.num_draft_slots = 1.5

    @contextmanager
    def _step(self):
        self._output = SchedulerOutput()
        try:
            yield self._output
        finally:
            self._chunks = dict(self._output.num_scheduled_tokens)

    def schedule(self):
        with self._step() as output:
            left = self.max_num_batched_tokens
            for request in list(self.running):
                if request.status is RequestStatus.RUNNING:
                    left -= self._take_in(request, left)
            if not output.preempted_req_ids:
                self._forget(left)
        return output

    def _take_in(self, request, left):
        n = self._clamp_new_tokens(request.num_tokens - request.num_computed_tokens, left)
        while n and self.kv_cache_manager.allocate_slots(request, n) is None:
            victim = self._pop_victim()
            self._output.preempted_req_ids.append(victim.request_id)
            self._preempt(victim)
            if victim is request:
                return 0
        if n:
            self._output.add(request, n)
        return n

    def _propose(self):
        return self.waiting[0] if self.waiting and len(self.running) < self.max_num_seqs else None

    def _forget(self, request):
        """Admit while there is budget: request is what is left of it."""
        while request and (head := self._propose()):
            blocks, hit = self.kv_cache_manager.get_computed_blocks(head)
            n = self._clamp_new_tokens(head.num_tokens - hit, request)
            if self.kv_cache_manager.allocate_slots(head, n, blocks) is None:
                return
            self.waiting.popleft()
            head.status, head.num_computed_tokens = RequestStatus.RUNNING, hit
            self.running.append(head)
            self._output.add(head, n)
            request -= n
