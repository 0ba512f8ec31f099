"""Two methods, of which one has the name of an inherited one and other parameters; one victim is always enough.

The last of running holds at least one block that nobody else holds: whoever shared it would have come after it.
"""

from mini_vllm.policies.prefill_first import PrefillFirstScheduler as ReferencePrefillFirstScheduler
from mini_vllm.policies.prefill_first import in_prefill
from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import SchedulerOutput


class PrefillFirstScheduler(ReferencePrefillFirstScheduler):
    """What is not defined here is the reference's."""

    def schedule(self) -> SchedulerOutput:
        prefills = self._schedule_waiting()
        return prefills if prefills.scheduled_requests else self._schedule_running(prefills)

    def _schedule_waiting(self) -> SchedulerOutput:
        output = SchedulerOutput()
        budget = self.max_num_batched_tokens
        kv = self.kv_cache_manager
        cut: Request | None = next((request for request in self.running if in_prefill(request)), None)
        if cut:
            n = min(cut.num_tokens - cut.num_computed_tokens, budget)
            kv.allocate_slots(cut, n)
            output.add(cut, n)
            budget -= n
        for request in list(self.waiting):
            blocks, hit = kv.get_computed_blocks(request)
            missing = request.num_tokens - hit
            price = request.num_tokens if self.charge_cached_tokens else missing
            whole, first = price <= budget, not output.scheduled_requests
            if len(self.running) >= self.max_num_seqs or not (whole or first):
                return output
            if kv.num_blocks_needed(request, request.num_tokens, blocks) > kv.num_free_blocks:
                return output
            n = min(missing, budget)
            kv.allocate_slots(request, n, blocks)
            self._admit(request, hit)
            output.add(request, n)
            budget -= price
            if budget <= 0:
                break
        return output

    def _schedule_running(self, output: SchedulerOutput) -> SchedulerOutput:
        for request in list(self.running):
            if request.status is RequestStatus.RUNNING and len(output.scheduled_requests) < self.max_num_batched_tokens:
                if self.kv_cache_manager.allocate_slots(request, 1) is None:
                    victim = self.running.pop()
                    self._preempt(victim)
                    output.preempted_req_ids.append(victim.request_id)
                    if victim is request:
                        continue
                    self.kv_cache_manager.allocate_slots(request, 1)
                output.add(request, 1)
        return output
