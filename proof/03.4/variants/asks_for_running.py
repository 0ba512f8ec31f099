"""It asks for each request of the step whether it is among those that run, and takes it out of the list at its end."""

from collections.abc import Mapping, Sequence

from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler as ReferenceScheduler
from mini_vllm.scheduler import SchedulerOutput


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def update_from_output(
        self, output: SchedulerOutput, sampled_token_ids: Mapping[str, Sequence[int]]
    ) -> list[Request]:
        gone = []
        for request in list(output.scheduled_requests):
            if request not in self.running:
                continue
            name = request.request_id
            request.num_computed_tokens += output.num_scheduled_tokens[name]
            answer = iter(sampled_token_ids[name] if name in sampled_token_ids else [])
            while (token := next(answer, None)) is not None:
                request.append_output_token(token)
                if not request.maybe_finish():
                    continue
                self.running.remove(request)
                self._requests.pop(name)
                self.kv_cache_manager.free(request)
                gone += [request]
                break
        return gone
