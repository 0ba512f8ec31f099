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
            kv.allocate_slots(head, n, blocks)
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
