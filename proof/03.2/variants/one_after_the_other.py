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
