"""One method from top to bottom; the step is a dictionary until it is decided, and drop() goes by identity."""

from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler
from mini_vllm.scheduler import SchedulerOutput as ReferenceSchedulerOutput


class SchedulerOutput(ReferenceSchedulerOutput):
    """What is not defined here is the reference's."""

    def drop(self, request: Request) -> int:
        for place, other in enumerate(self.scheduled_requests):
            if other is request:
                del self.scheduled_requests[place]
                return self.num_scheduled_tokens.pop(request.request_id)
        return 0


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def schedule(self) -> SchedulerOutput:
        output, kv = SchedulerOutput(), self.kv_cache_manager
        preempted = output.preempted_req_ids
        for request in tuple(self.running):
            left = self.max_num_batched_tokens - output.total_num_scheduled_tokens
            n = self._clamp_new_tokens(request.num_tokens - request.num_computed_tokens, left)
            if request.status is RequestStatus.PREEMPTED or n <= 0:
                continue
            blocks = kv.allocate_slots(request, n)
            while blocks is None and request.status is RequestStatus.RUNNING:
                victim = self._pop_victim()
                output.drop(victim)
                self._preempt(victim)
                preempted.append(victim.request_id)
                if request.status is RequestStatus.RUNNING:
                    blocks = kv.allocate_slots(request, n)
            if blocks is not None:
                output.add(request, n)
        while self.waiting and not preempted and len(self.running) < self.max_num_seqs:
            left = self.max_num_batched_tokens - output.total_num_scheduled_tokens
            head = self.waiting[0]
            blocks, hit = kv.get_computed_blocks(head)
            behind = head.num_tokens - hit
            n = self._clamp_new_tokens(behind, left if self.enable_chunked_prefill else behind)
            if not 0 < n <= left or not self._may_admit(head, hit + n, blocks):
                break
            if kv.allocate_slots(head, n, blocks) is None:
                break
            self._admit(head, hit)
            output.add(head, n)
        return output

    def _admit(self, request: Request, num_computed_tokens: int) -> None:
        kv = self.kv_cache_manager
        hits = num_computed_tokens - kv.num_external_tokens(request)
        is_first = request.status is not RequestStatus.PREEMPTED
        if kv.enable_prefix_caching:
            stats = self.prefix_cache_stats if is_first else self.preempted_prefix_cache_stats
            stats.record(request.num_tokens, hits)
        if is_first:
            request.num_cached_tokens = hits
        request.num_computed_tokens = num_computed_tokens
        request.status = RequestStatus.RUNNING
        self.waiting.remove(request)
        self.running.append(request)
