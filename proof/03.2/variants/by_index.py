"""It walks running by index while the list shrinks around it, so it needs no copy and looks at no status."""

from mini_vllm.request import RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler
from mini_vllm.scheduler import SchedulerOutput


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def schedule(self) -> SchedulerOutput:
        output = SchedulerOutput()
        kv = self.kv_cache_manager
        i = 0
        while i < len(self.running):
            request = self.running[i]
            rest = self.max_num_batched_tokens - output.total_num_scheduled_tokens
            n = self._clamp_new_tokens(request.num_tokens - request.num_computed_tokens, rest)
            while n > 0 and kv.allocate_slots(request, n) is None:
                victim = self._pop_victim()
                output.preempted_req_ids.append(victim.request_id)
                self._preempt(victim)
                output.drop(victim)
                if victim is request:
                    break
                i = self.running.index(request)
            else:
                if n > 0:
                    output.add(request, n)
                i += 1
        may_admit = not output.preempted_req_ids
        while may_admit and self.waiting and len(self.running) < self.max_num_seqs:
            rest = self.max_num_batched_tokens - output.total_num_scheduled_tokens
            may_admit = rest > 0 and self._take_the_head(output, rest)
        return output

    def _take_the_head(self, output: SchedulerOutput, rest: int) -> bool:
        request, kv = self.waiting[0], self.kv_cache_manager
        blocks, hit = kv.get_computed_blocks(request)
        n = self._clamp_new_tokens(request.num_tokens - hit, rest)
        if kv.allocate_slots(request, n, blocks) is None:
            return False
        self.running.append(self.waiting.popleft())
        request.status, request.num_computed_tokens = RequestStatus.RUNNING, hit
        output.add(request, n)
        return True
