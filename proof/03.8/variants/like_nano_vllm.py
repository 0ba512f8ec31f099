"""The shape of nano-vllm: running is taken from the front and put back, a cut prompt needs the blocks of all of it."""

from collections import deque

from mini_vllm.policies.prefill_first import PrefillFirstScheduler as ReferencePrefillFirstScheduler
from mini_vllm.request import RequestStatus
from mini_vllm.scheduler import SchedulerOutput


class PrefillFirstScheduler(ReferencePrefillFirstScheduler):
    """What is not defined here is the reference's."""

    def schedule(self) -> SchedulerOutput:
        output, kv = SchedulerOutput(), self.kv_cache_manager
        rest = self.max_num_batched_tokens
        if self.running and self._is_cut(self.running[-1]):
            request = self.running[-1]
            n = min(request.num_tokens - request.num_computed_tokens, rest)
            assert kv.allocate_slots(request, n) is not None  # they were free when it was admitted
            output.add(request, n)
            rest -= n
        while self.waiting and len(self.running) < self.max_num_seqs and rest:
            request = self.waiting[0]
            blocks, hit = kv.get_computed_blocks(request)
            n = request.num_tokens - hit
            price = request.num_tokens if self.charge_cached_tokens else n
            if price > rest and output.scheduled_requests:
                break
            if kv.num_blocks_needed(request, request.num_tokens, blocks) > kv.num_free_blocks:
                break
            n = min(n, rest)
            kv.allocate_slots(request, n, blocks)
            self.waiting.popleft()
            request.status, request.num_computed_tokens = RequestStatus.RUNNING, hit
            request.num_prefill_tokens = request.num_tokens
            self.running.append(request)
            output.add(request, n)
            rest = max(rest - price, 0)
        if output.scheduled_requests:
            return output
        ahead, done = deque(self.running), []
        while ahead and len(done) < self.max_num_batched_tokens:
            request = ahead.popleft()
            while kv.allocate_slots(request, 1) is None:
                victim = ahead.pop() if ahead else request
                self._preempt(victim)
                output.preempted_req_ids.append(victim.request_id)
                if victim is request:
                    break
            else:
                output.add(request, 1)
                done.append(request)
        self.running = [*done, *ahead]
        return output

    @staticmethod
    def _is_cut(request) -> bool:
        return request.num_computed_tokens < request.num_prefill_tokens
