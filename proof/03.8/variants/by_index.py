"""One function. It walks running by index while the list shrinks behind the index, and looks at no status."""

from mini_vllm.policies.prefill_first import PrefillFirstScheduler as ReferencePrefillFirstScheduler
from mini_vllm.policies.prefill_first import in_prefill
from mini_vllm.scheduler import SchedulerOutput


class PrefillFirstScheduler(ReferencePrefillFirstScheduler):
    """What is not defined here is the reference's."""

    def schedule(self) -> SchedulerOutput:
        output = SchedulerOutput()
        kv = self.kv_cache_manager
        budget = self.max_num_batched_tokens
        i = 0
        while i < len(self.running):
            request = self.running[i]
            if in_prefill(request) and budget:
                n = self._chunk_size(request, request.num_computed_tokens, budget)
                while i < len(self.running) and kv.allocate_slots(request, n) is None:
                    self._take_back(output)
                if i < len(self.running):
                    output.add(request, n)
                    budget -= n
            i += 1
        fits = not output.preempted_req_ids
        while fits and budget and self.waiting and len(self.running) != self.max_num_seqs:
            request = self.waiting[0]
            blocks, hit = kv.get_computed_blocks(request)
            n = request.num_tokens - hit
            may_be_cut = not output.scheduled_requests
            price = n + hit * self.charge_cached_tokens
            fits = price <= budget or may_be_cut
            n = min(n, budget)
            fits = fits and kv.allocate_slots(request, n, blocks) is not None
            if fits:
                self._admit(request, hit)
                output.add(request, n)
                budget = max(budget - price, 0)
        i = 0 if not output.scheduled_requests else len(self.running)
        while i < min(len(self.running), budget):
            request = self.running[i]
            while i < len(self.running) and kv.allocate_slots(request, 1) is None:
                self._take_back(output)
            if i < len(self.running):
                output.add(request, 1)
            i += 1
        return output

    def _take_back(self, output: SchedulerOutput) -> None:
        youngest = self._pop_victim()
        output.preempted_req_ids.append(youngest.request_id)
        self._preempt(youngest)
