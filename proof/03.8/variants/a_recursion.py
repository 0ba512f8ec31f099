"""Admission calls itself for the next head, with the budget that is left; the output is made of pairs at the end."""

from mini_vllm.policies.prefill_first import PrefillFirstScheduler as ReferencePrefillFirstScheduler
from mini_vllm.policies.prefill_first import in_prefill
from mini_vllm.request import RequestStatus
from mini_vllm.scheduler import SchedulerOutput


class PrefillFirstScheduler(ReferencePrefillFirstScheduler):
    """What is not defined here is the reference's."""

    def schedule(self) -> SchedulerOutput:
        budget, victims = self.max_num_batched_tokens, []
        behind = [r for r in self.running if in_prefill(r)]
        pairs = [pair for r in behind for pair in self._slots(r, min(budget, self._rest(r)), victims)]
        if not victims:
            pairs += self._admitted(budget - sum(n for _, n in pairs), alone=not pairs)
        if not pairs:
            for request in tuple(self.running):
                if len(pairs) < budget and request.status is RequestStatus.RUNNING:
                    pairs += self._slots(request, 1, victims)
        return SchedulerOutput({r.request_id: n for r, n in pairs}, [r for r, _ in pairs], victims)

    def _rest(self, request) -> int:
        return request.num_tokens - request.num_computed_tokens

    def _slots(self, request, n, victims):
        """The pair of a running request that has its slots; none if it gave way itself."""
        if self.kv_cache_manager.allocate_slots(request, n) is not None:
            return [(request, n)]
        victim = self._pop_victim()
        victims.append(victim.request_id)
        self._preempt(victim)
        return [] if victim is request else self._slots(request, n, victims)

    def _admitted(self, budget, alone):
        """The pairs of the heads that fit into what is left, the first of them cut if nobody is in the step."""
        if budget <= 0 or not self.waiting or len(self.running) >= self.max_num_seqs:
            return []
        head = self.waiting[0]
        blocks, hit = self.kv_cache_manager.get_computed_blocks(head)
        cost = head.num_tokens if self.charge_cached_tokens else head.num_tokens - hit
        if cost > budget and not alone:
            return []
        n = min(head.num_tokens - hit, budget)
        if self.kv_cache_manager.allocate_slots(head, n, blocks) is None:
            return []
        self._admit(head, hit)
        return [(head, n), *self._admitted(budget - cost, alone=False)]
