"""It notes slots and tokens on a list of turns, and fills the output when the running half is decided."""

from collections import deque

from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler
from mini_vllm.scheduler import SchedulerOutput as ReferenceSchedulerOutput


class SchedulerOutput(ReferenceSchedulerOutput):
    """What is not defined here is the reference's."""

    def drop(self, request: Request) -> int:
        if request.request_id not in self.num_scheduled_tokens:
            return 0
        num_tokens = self.num_scheduled_tokens.pop(request.request_id)
        kept = [other for other in self.scheduled_requests if other.request_id != request.request_id]
        self.scheduled_requests = kept
        return num_tokens


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def schedule(self) -> SchedulerOutput:
        output = SchedulerOutput()
        turns, left = [], self.max_num_batched_tokens
        ahead = deque(self.running)
        while ahead:
            request = ahead.popleft()
            n = self._clamp_new_tokens(request.num_tokens - request.num_computed_tokens, left)
            if n == 0:
                continue
            given = self.kv_cache_manager.allocate_slots(request, n)
            while given is None:
                victim = self._pop_victim()
                self._preempt(victim)
                output.preempted_req_ids.append(victim.request_id)
                left += sum(tokens for other, tokens in turns if other is victim)
                turns = [turn for turn in turns if turn[0] is not victim]
                ahead = deque(other for other in ahead if other is not victim)
                if victim is request:
                    break
                given = self.kv_cache_manager.allocate_slots(request, n)
            if given is not None:
                turns.append((request, n))
                left -= n
        for request, n in turns:
            output.add(request, n)
        if output.preempted_req_ids == []:
            self._let_in(output, left)
        return output

    def _let_in(self, output: SchedulerOutput, left: int) -> None:
        manager = self.kv_cache_manager
        for request in list(self.waiting):
            if left == 0 or len(self.running) == self.max_num_seqs:
                return
            shared, num_shared = manager.get_computed_blocks(request)
            behind = request.num_tokens - num_shared
            n = (
                self._clamp_new_tokens(behind, left)
                if self.enable_chunked_prefill
                else self._clamp_new_tokens(behind, behind)
            )
            if n > left:
                return
            if not self._may_admit(request, num_shared + n, shared):
                return
            if manager.allocate_slots(request, n, shared) is None:
                return
            self._admit(request, num_shared)
            output.add(request, n)
            left -= n

    def _admit(self, request: Request, num_computed_tokens: int) -> None:
        manager = self.kv_cache_manager
        found = num_computed_tokens - manager.num_external_tokens(request)
        if request.status is RequestStatus.PREEMPTED:
            statistics = self.preempted_prefix_cache_stats
        else:
            statistics = self.prefix_cache_stats
            request.num_cached_tokens = found
        if manager.enable_prefix_caching:
            statistics.record(request.num_tokens, found)
        self.waiting = deque(other for other in self.waiting if other is not request)
        self.running.append(request)
        request.num_computed_tokens = num_computed_tokens
        request.status = RequestStatus.RUNNING
