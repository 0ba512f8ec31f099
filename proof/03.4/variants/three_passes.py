"""It goes over the step three times: counters, tokens, endings."""

from collections.abc import Mapping, Sequence

from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler
from mini_vllm.scheduler import SchedulerOutput


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def update_from_output(
        self, output: SchedulerOutput, sampled_token_ids: Mapping[str, Sequence[int]]
    ) -> list[Request]:
        alive = [request for request in output.scheduled_requests if not request.is_finished]
        for request in alive:
            request.num_computed_tokens += output.num_scheduled_tokens[request.request_id]
        for request in alive:
            for token_id in sampled_token_ids.get(request.request_id, []):
                if not request.is_finished:
                    request.append_output_token(token_id)
                    request.maybe_finish()
        finished = [request for request in alive if request.is_finished]
        for request in finished:
            self.running.remove(request)
            self._requests.pop(request.request_id)
            self.kv_cache_manager.free(request)
        return finished
