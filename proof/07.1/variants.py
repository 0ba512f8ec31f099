# === in_plain_words
"""One loop for each matter, and no helper: late tokens are told from the queue."""

from collections.abc import Mapping, Sequence

from mini_vllm.engine.ahead.scheduler import AsyncScheduler as ReferenceAsyncScheduler
from mini_vllm.engine.ahead.scheduler import Begun
from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import SchedulerOutput


class AsyncScheduler(ReferenceAsyncScheduler):
    def _advance(self, begun: Begun) -> None:
        if begun.is_advanced:
            return
        begun.is_advanced = True
        for request in begun.output.scheduled_requests:
            if request.status is not RequestStatus.RUNNING:
                continue
            n = begun.output.num_scheduled_tokens[request.request_id]
            num_sampled = 0
            if request.num_computed_tokens + n >= request.num_tokens:
                num_sampled = 1
            self.num_output_placeholders[request] += num_sampled
            request.num_computed_tokens += n
            begun.advanced[request] = (n, num_sampled)

    def _target(self, request: Request) -> int:
        waits_for = self.num_output_placeholders[request]
        if not waits_for:
            return super()._target(request)
        longest = request.at_most(request.num_prompt_tokens + request.max_tokens)
        if request.num_tokens + waits_for >= longest:
            return request.num_computed_tokens
        return super()._target(request) + waits_for

    def _preempt(self, request: Request) -> None:
        super()._preempt(request)
        self.num_output_placeholders.pop(request, None)

    def update_from_output(
        self, output: SchedulerOutput, sampled_token_ids: Mapping[str, Sequence[int]]
    ) -> list[Request]:
        self._advance(self._begun[0])
        advanced = self._begun.popleft().advanced
        late = [request for request in output.scheduled_requests if request.status is RequestStatus.PREEMPTED]
        for request in output.scheduled_requests:
            if request.status is not RequestStatus.RUNNING:
                continue
            num_computed, num_sampled = advanced[request]
            if num_sampled:
                self.kv_cache_manager.cache_blocks(request, self.num_in_flight(request))
            request.num_computed_tokens -= num_computed
            self.num_output_placeholders[request] -= len(sampled_token_ids.get(request.request_id, ()))
        finished = list(super().update_from_output(output, sampled_token_ids))
        for request in late:
            for token_id in sampled_token_ids.get(request.request_id, ()):
                request.append_output_token(token_id)
                if request.maybe_finish():
                    self.waiting.remove(request)
                    self.kv_cache_manager.free(request)
                    del self._requests[request.request_id]
                    finished.append(request)
                    break
        for request in finished:
            self.num_output_placeholders.pop(request, None)
        return finished


# === counted_from_the_steps
"""The placeholders are counted from the steps in flight each time, by what each has sampled for whom."""

from mini_vllm.engine.ahead.scheduler import AsyncScheduler as ReferenceAsyncScheduler
from mini_vllm.request import RequestStatus


class AsyncScheduler(ReferenceAsyncScheduler):
    def _advance(self, begun):
        if not begun.is_advanced:
            alive = [each for each in begun.output.scheduled_requests if each.status is RequestStatus.RUNNING]
            for request in alive:
                n = begun.output.num_scheduled_tokens[request.request_id]
                waits = request in +self.num_output_placeholders
                sampling = [request] if waits or self.needs_sample(request, n) else []
                self.num_output_placeholders.update(sampling)
                request.num_computed_tokens += n
                begun.advanced[request] = n, len(sampling)
        begun.is_advanced = True

    def _is_last_in_flight(self, request):
        num_tokens = request.num_tokens + self.num_output_placeholders[request]
        by_length = num_tokens - request.num_prompt_tokens >= request.max_tokens
        return by_length or num_tokens >= request.at_most(num_tokens + 1)

    def _target(self, request):
        if self.num_output_placeholders[request] and self._is_last_in_flight(request):
            return request.num_computed_tokens
        return super()._target(request) + self.num_output_placeholders[request]

    def _preempt(self, request):
        self.num_output_placeholders[request] = 0
        super()._preempt(request)

    def update_from_output(self, output, sampled_token_ids):
        begun = self._begun.popleft()
        self._advance(begun)
        running = [each for each in output.scheduled_requests if each.status is RequestStatus.RUNNING]
        late = [each for each in output.scheduled_requests if each.status is RequestStatus.PREEMPTED]
        for request in running:
            name = request.request_id
            if name in sampled_token_ids:
                self.kv_cache_manager.cache_blocks(request, self.num_in_flight(request))
            self.num_output_placeholders[request] -= len(sampled_token_ids.get(name, ()))
            request.num_computed_tokens -= output.num_scheduled_tokens[name]
        ended = [*super().update_from_output(output, sampled_token_ids)]
        ended += [each for each in late if self._take_late(each, sampled_token_ids.get(each.request_id, ()))]
        for request in ended:
            del self.num_output_placeholders[request]
        return ended

    def _take_late(self, request, token_ids):
        for token_id in token_ids:
            request.append_output_token(token_id)
        if not token_ids or not request.maybe_finish():
            return False
        self.waiting.remove(request)
        self.kv_cache_manager.free(request)
        return self._requests.pop(request.request_id) is request
