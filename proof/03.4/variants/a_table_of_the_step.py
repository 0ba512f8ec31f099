"""It makes a table of the step first, (request, tokens it computed, tokens it got), and works it off column by column."""

from collections.abc import Mapping, Sequence

from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler
from mini_vllm.scheduler import SchedulerOutput


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def update_from_output(
        self, output: SchedulerOutput, sampled_token_ids: Mapping[str, Sequence[int]]
    ) -> list[Request]:
        table = [
            (
                request,
                output.num_scheduled_tokens[request.request_id],
                tuple(sampled_token_ids.get(request.request_id, ())),
            )
            for request in output.scheduled_requests
            if not request.is_finished
        ]
        for request, computed, _ in table:
            request.num_computed_tokens = request.num_computed_tokens + computed
        ended = [request for request, _, tokens in table if self._say(request, tokens)]
        for request in ended:
            self._leave(request)
        return ended

    def _say(self, request: Request, tokens: Sequence[int]) -> bool:
        return any(request.append_output_token(token) or request.maybe_finish() for token in tokens)

    def _leave(self, request: Request) -> None:
        place = next(i for i, other in enumerate(self.running) if other is request)
        del self.running[place]
        self.kv_cache_manager.free(request)
        self._requests = {name: other for name, other in self._requests.items() if other is not request}
