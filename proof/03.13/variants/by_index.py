"""It walks running by index, and moves the finger back when somebody before it leaves; victims are a set of ids."""

from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler
from mini_vllm.scheduler import SchedulerOutput as ReferenceSchedulerOutput


class SchedulerOutput(ReferenceSchedulerOutput):
    """What is not defined here is the reference's."""

    def drop(self, request: Request) -> int:
        num_tokens = self.num_scheduled_tokens.get(request.request_id)
        if num_tokens is None:
            return 0
        del self.num_scheduled_tokens[request.request_id]
        self.scheduled_requests[:] = [other for other in self.scheduled_requests if other is not request]
        return num_tokens


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def schedule(self) -> SchedulerOutput:
        output = SchedulerOutput()
        budget, finger = self.max_num_batched_tokens, 0
        while finger < len(self.running):
            request = self.running[finger]
            n = self._clamp_new_tokens(request.num_tokens - request.num_computed_tokens, budget)
            has_slots = n > 0
            while n > 0 and self.kv_cache_manager.allocate_slots(request, n) is None:
                before = list(self.running)
                victim = self._pop_victim()
                place = next(i for i, other in enumerate(before) if other is victim)
                budget += output.drop(victim)
                self._preempt(victim)
                output.preempted_req_ids.append(victim.request_id)
                if place < finger:
                    finger -= 1
                elif place == finger:
                    finger -= 1
                    has_slots = False
                    break
            if has_slots:
                output.add(request, n)
                budget -= n
            finger += 1
        if not output.preempted_req_ids:
            while self._take_the_head(output):
                pass
        return output

    def _take_the_head(self, output: SchedulerOutput) -> bool:
        left = self.max_num_batched_tokens - sum(output.num_scheduled_tokens.values())
        if not self.waiting or left <= 0 or len(self.running) >= self.max_num_seqs:
            return False
        request, kv = self.waiting[0], self.kv_cache_manager
        blocks, hit = kv.get_computed_blocks(request)
        most = left if self.enable_chunked_prefill else self.num_slots
        n = self._clamp_new_tokens(request.num_tokens - hit, most)
        fits = n <= left and self._may_admit(request, hit + n, blocks)
        if not fits or kv.allocate_slots(request, n, blocks) is None:
            return False
        self._admit(request, hit)
        output.add(request, n)
        return True

    def _admit(self, request: Request, num_computed_tokens: int) -> None:
        caching = self.kv_cache_manager.enable_prefix_caching
        found = num_computed_tokens - self.kv_cache_manager.num_external_tokens(request)
        if request.status is RequestStatus.WAITING:
            request.num_cached_tokens = found
            if caching:
                self.prefix_cache_stats.record(request.num_tokens, found)
        elif caching:
            self.preempted_prefix_cache_stats.record(request.num_tokens, found)
        place = next(i for i, other in enumerate(self.waiting) if other is request)
        del self.waiting[place]
        request.status, request.num_computed_tokens = RequestStatus.RUNNING, num_computed_tokens
        self.running = [*self.running, request]
