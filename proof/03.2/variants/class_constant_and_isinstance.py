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
