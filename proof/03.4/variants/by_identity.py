"""It goes over running and asks which of its members are in the step; it frees when all have their tokens."""

from collections.abc import Mapping, Sequence

from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler
from mini_vllm.scheduler import SchedulerOutput


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def update_from_output(
        self, output: SchedulerOutput, sampled_token_ids: Mapping[str, Sequence[int]]
    ) -> list[Request]:
        in_step = {
            id(request): output.num_scheduled_tokens[request.request_id] for request in output.scheduled_requests
        }
        place = {id(request): i for i, request in enumerate(output.scheduled_requests)}
        stay, leave = [], []
        for request in self.running:
            request.num_computed_tokens += in_step.get(id(request), 0)
            tokens = list(sampled_token_ids.get(request.request_id, ())) if id(request) in in_step else []
            ended = False
            while tokens and not ended:
                request.append_output_token(tokens.pop(0))
                ended = request.maybe_finish()
            (leave if ended else stay).append(request)
        self.running = stay
        leave.sort(key=lambda request: place[id(request)])
        for request in leave:
            self.kv_cache_manager.free(request)
            del self._requests[request.request_id]
        return leave
