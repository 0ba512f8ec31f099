# === a_recursion
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


# === a_stream_of_pairs
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


# === by_index
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


# === like_nano_vllm
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


# === own_loop
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


# === two_halves
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


# === with_v1s_loop
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
