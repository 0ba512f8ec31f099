# === a_table_of_the_step
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
            if request.status is RequestStatus.RUNNING
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


# === asks_for_running
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


# === by_identity
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


# === one_request_at_a_time
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


# === three_passes
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


# === names_of_drafting
"""Its __init__ counts what has ended; two helpers have the names of a scheduler with drafts."""

from mini_vllm.request import RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler


class Scheduler(ReferenceScheduler):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._left = 0

    def _forget(self, request):
        self.kv_cache_manager.free(request)
        self.running.remove(request)
        del self._requests[request.request_id]
        self._left += 1

    def _take_in_accepted(self, request, token_ids):
        for token_id in token_ids:
            request.append_output_token(token_id)
            if request.maybe_finish():
                return True
        return False

    def update_from_output(self, output, sampled_token_ids):
        ended = []
        for request in output.scheduled_requests:
            if request.status is RequestStatus.RUNNING:
                request.num_computed_tokens += output.num_scheduled_tokens[request.request_id]
                if self._take_in_accepted(request, sampled_token_ids.get(request.request_id, ())):
                    ended.append(request)
                    self._forget(request)
        return ended
