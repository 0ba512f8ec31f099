"""One generator says who computes how much, another one says it of the decodes; schedule() only writes it down."""

from itertools import chain

from mini_vllm.policies.prefill_first import PrefillFirstScheduler as ReferencePrefillFirstScheduler
from mini_vllm.policies.prefill_first import in_prefill
from mini_vllm.scheduler import SchedulerOutput


class PrefillFirstScheduler(ReferencePrefillFirstScheduler):
    """What is not defined here is the reference's."""

    def schedule(self) -> SchedulerOutput:
        output = SchedulerOutput()
        for request, n in self._prefills(output):
            output.add(request, n)
        if not output.scheduled_requests:
            for request, n in self._decodes(output):
                output.add(request, n)
        return output

    def _prefills(self, output):
        kv, left = self.kv_cache_manager, self.max_num_batched_tokens
        cut = [request for request in self.running if in_prefill(request)]
        for request in cut:
            n = self._chunk_size(request, request.num_computed_tokens, left)
            if self._make_room(request, n, output):
                left -= n
                yield request, n
        while not output.preempted_req_ids and left > 0 and len(self.running) < self.max_num_seqs and self.waiting:
            head = self.waiting[0]
            blocks, hit = kv.get_computed_blocks(head)
            paid = hit if self.charge_cached_tokens else 0
            n = self._chunk_size(head, hit, head.num_tokens)
            if n + paid > left and output.scheduled_requests:
                return
            n = min(n, left)
            if kv.num_blocks_needed(head, hit + n, blocks) > kv.num_free_blocks:
                return
            kv.allocate_slots(head, n, blocks)
            self._admit(head, hit)
            left -= n + paid
            yield head, n

    def _decodes(self, output):
        place = 0
        while place < min(len(self.running), self.max_num_batched_tokens):
            request = self.running[place]
            if self._make_room(request, 1, output):
                yield request, 1
                place += 1

    def _make_room(self, request, n, output) -> bool:
        """Whether the request has its slots; those behind it give way one after the other, at last itself."""
        for _ in chain(self.running[self.running.index(request) :], (None,)):
            if self.kv_cache_manager.allocate_slots(request, n) is not None:
                return True
            victim = self._pop_victim()
            output.preempted_req_ids.append(victim.request_id)
            self._preempt(victim)
            if victim is request:
                break
        return False
