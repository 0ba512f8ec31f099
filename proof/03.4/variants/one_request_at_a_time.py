"""Each request is brought up to date by a helper that says whether it ended; iterators take the place of a break."""

from collections.abc import Mapping, Sequence

from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler
from mini_vllm.scheduler import SchedulerOutput


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def update_from_output(
        self, output: SchedulerOutput, sampled_token_ids: Mapping[str, Sequence[int]]
    ) -> list[Request]:
        finished = []
        for request in list(output.scheduled_requests):
            if request.status == RequestStatus.RUNNING:
                n = output.num_scheduled_tokens[request.request_id]
                if self._advance(request, n, sampled_token_ids.get(request.request_id, [])):
                    finished.append(request)
        ended = {id(request) for request in finished}
        self.running[:] = [request for request in self.running if id(request) not in ended]
        return finished

    def _advance(self, request: Request, num_computed: int, token_ids: Sequence[int]) -> bool:
        request.num_computed_tokens = request.num_computed_tokens + num_computed
        left = iter(token_ids)
        while (token_id := next(left, None)) is not None:
            request.append_output_token(token_id)
            if request.maybe_finish():
                self.kv_cache_manager.free(request)
                self._requests = {key: r for key, r in self._requests.items() if r is not request}
                return True
        return False
