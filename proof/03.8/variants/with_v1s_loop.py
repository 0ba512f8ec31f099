"""It decodes with V1's own loop over running, and admits into a list that is judged before anything is done."""

from mini_vllm.policies.prefill_first import PrefillFirstScheduler as ReferencePrefillFirstScheduler
from mini_vllm.policies.prefill_first import in_prefill
from mini_vllm.scheduler import SchedulerOutput


class PrefillFirstScheduler(ReferencePrefillFirstScheduler):
    """What is not defined here is the reference's."""

    def schedule(self) -> SchedulerOutput:
        output = SchedulerOutput()
        for request in filter(in_prefill, tuple(self.running)):
            n = self._chunk_size(request, request.num_computed_tokens, self.max_num_batched_tokens)
            if self.kv_cache_manager.allocate_slots(request, n) is not None:
                output.add(request, n)
            else:
                self.running.remove(request)
                self._preempt(request)
                output.preempted_req_ids.append(request.request_id)
        self._spared = 0  # tokens that are paid for and not computed
        while self._admit_the_head(output):
            pass
        if output.total_num_scheduled_tokens == 0:
            self._schedule_running(list(self.running), output, self.max_num_batched_tokens)
        return output

    def _admit_the_head(self, output: SchedulerOutput) -> bool:
        rest = self.max_num_batched_tokens - output.total_num_scheduled_tokens - self._spared
        if rest <= 0 or not self.waiting or len(self.running) == self.max_num_seqs or output.preempted_req_ids:
            return False
        head = self.waiting[0]
        blocks, hit = self.kv_cache_manager.get_computed_blocks(head)
        n = head.num_tokens - hit
        spared = hit if self.charge_cached_tokens else 0
        if n + spared > rest:
            if output.num_scheduled_tokens:
                return False
            n = min(n, rest)
        if self.kv_cache_manager.allocate_slots(head, n, blocks) is None:
            return False
        self._admit(head, hit)
        output.add(head, n)
        self._spared += spared
        return True
