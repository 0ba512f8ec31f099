"""It consumes running from the front into a list of survivors; victims come from what is left, else it is the asker."""

from collections import deque

from mini_vllm.request import RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler
from mini_vllm.scheduler import SchedulerOutput


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def schedule(self) -> SchedulerOutput:
        output = SchedulerOutput()
        allocate = self.kv_cache_manager.allocate_slots
        ahead, survivors = deque(self.running), []
        budget = self.max_num_batched_tokens
        while ahead:
            request = ahead.popleft()
            n = self._clamp_new_tokens(request.num_tokens - request.num_computed_tokens, budget)
            if n and not self._make_room(request, n, ahead, output):
                continue
            survivors.append(request)
            if n:
                output.add(request, n)
                budget -= n
        self.running = survivors
        if not output.preempted_req_ids:
            for request in list(self.waiting):
                if budget == 0 or len(survivors) == self.max_num_seqs:
                    break
                blocks, hit = self.kv_cache_manager.get_computed_blocks(request)
                n = self._clamp_new_tokens(request.num_tokens - hit, budget)
                if allocate(request, n, blocks) is None:
                    break
                self.waiting.popleft()
                survivors.append(request)
                request.status = RequestStatus.RUNNING
                request.num_computed_tokens = hit
                output.add(request, n)
                budget -= n
        return output

    def _make_room(self, request, n, ahead, output) -> bool:
        """Whether the request has slots in the end; otherwise it was its own last victim."""
        while self.kv_cache_manager.allocate_slots(request, n) is None:
            victim = ahead.pop() if ahead else request
            self._preempt(victim)
            output.preempted_req_ids.append(victim.request_id)
            if victim is request:
                return False
        return True
