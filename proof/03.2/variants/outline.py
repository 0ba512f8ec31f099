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
