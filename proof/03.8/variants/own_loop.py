"""The outline of the reference with a loop of its own over running requests, instead of the inherited one."""

from collections.abc import Sequence

from mini_vllm.policies.prefill_first import PrefillFirstScheduler as ReferencePrefillFirstScheduler
from mini_vllm.policies.prefill_first import in_prefill
from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import SchedulerOutput


class PrefillFirstScheduler(ReferencePrefillFirstScheduler):
    """What is not defined here is the reference's."""

    def schedule(self) -> SchedulerOutput:
        output = SchedulerOutput()
        prefills = [request for request in self.running if in_prefill(request)]
        token_budget = self._serve(prefills, output, self.max_num_batched_tokens)
        if not output.preempted_req_ids:
            self._schedule_waiting(output, token_budget)
        if not output.num_scheduled_tokens:
            self._serve(list(self.running), output, token_budget)
        return output

    def _schedule_waiting(self, output: SchedulerOutput, token_budget: int) -> None:
        kv = self.kv_cache_manager
        while token_budget > 0 and len(self.running) < self.max_num_seqs:
            request = self._next_waiting()
            if request is None:
                break
            computed_blocks, num_computed = kv.get_computed_blocks(request)
            n = self._chunk_size(request, num_computed, request.num_tokens)
            num_charged = num_computed if self.charge_cached_tokens else 0
            if n + num_charged > token_budget:
                if output.num_scheduled_tokens:
                    break
                n = self._chunk_size(request, num_computed, token_budget)  # the first of its step may be cut
            if not self._may_admit(request, num_computed + n, computed_blocks):
                break
            if kv.allocate_slots(request, n, computed_blocks) is None:
                break
            self._admit(request, num_computed)
            output.add(request, n)
            token_budget -= n + num_charged

    def _serve(self, requests: Sequence[Request], output: SchedulerOutput, token_budget: int) -> int:
        for request in requests:
            if request.status is RequestStatus.PREEMPTED:  # a victim of this very loop
                continue
            n = self._chunk_size(request, request.num_computed_tokens, token_budget)
            if n == 0:
                break
            while self.kv_cache_manager.allocate_slots(request, n) is None:
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
