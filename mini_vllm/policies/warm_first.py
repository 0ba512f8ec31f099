"""Warm first: requests in three states compete by a score, and what waits long enough wins.

A preempted request whose blocks are still in the prefix cache costs little to bring back, and less
the sooner. So a warm resume comes before a new prefill, and a new prefill before the long tail of
decodes. The decodes fill up the step: every step is one chunked micro-batch of at most
max_num_batched_tokens. Ageing bounds how long anybody waits. This is a design of this project; the
vocabulary is vLLM V1's.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from mini_vllm.policies.prefill_first import in_prefill
from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler, SchedulerOutput

# steps after which a running request without a token comes first, and a resume is as good as warm
PATIENCE = 8


def score(age: int, warmth: float, *, is_decode: bool = False) -> float:
    """How soon to serve a request: the higher the sooner.

    age: steps since it last got tokens, or since it began to wait. warmth: the share of its
    sequence that a lookup finds in the prefix cache, in [0, 1). A running request has all it needs,
    so its warmth is 1. is_decode: it runs, and lacks its newest token alone.

        running, age >= PATIENCE    its age, so that the one that waited longest is the first of all
        running, in prefill         2
        resumed, waiting            1 + warmth, growing with age up to 2
        new, waiting                1 + warmth, growing likewise; the caller gives no warmth
        running, decode             0
    """
    if warmth == 1 and age >= PATIENCE:
        return float(age)
    return 0.0 if is_decode else 1 + min(warmth + age / PATIENCE, 1.0)


@dataclass(eq=False, repr=False)
class WarmFirstScheduler(Scheduler):
    """Requests are served by score.

    Among equals, running ones come before waiting ones, and resumed before new ones.

    A running request gets tokens at least once in PATIENCE + max_num_seqs steps. New requests are
    admitted in order of arrival. A preempted one keeps its place, so running and resumed ones
    together are at most max_num_seqs. Once it has waited PATIENCE steps, no new one passes it. So
    no request starves. A step looks at max_num_seqs requests at most beyond those that it admits,
    however many wait.

    Raises InvalidParameterError for policy "priority": the score is the order.
    """

    policies = ("fcfs",)  # the score is the order

    def __post_init__(self) -> None:
        super().__post_init__()
        self._step = 0
        # request id -> the step in which it last got tokens, or began to wait
        self._since: dict[str, int] = {}

    def schedule(self) -> SchedulerOutput:
        """Serve what is overdue or in prefill, then admit, then decode with what is left of the
        budget.
        """
        self._step += 1
        output = SchedulerOutput()
        ranked = self._rank(self.running)
        urgent = [request for value, request in ranked if value > 0]
        decodes = [request for value, request in ranked if value == 0]
        token_budget = self._schedule_running(urgent, output, self.max_num_batched_tokens)
        if not output.preempted_req_ids:
            token_budget = self._admit_by_score(output, token_budget, num_spare=len(decodes))
        self._schedule_running(decodes, output, token_budget)
        for request in output.scheduled_requests:
            self._since[request.request_id] = self._step
        return output

    def _rank(self, requests: Iterable[Request]) -> list[tuple[float, Request]]:
        """The requests with their scores, the highest first; equals stay in the order given."""
        ranked = [(self._score(request), request) for request in requests]
        return sorted(ranked, key=lambda pair: -pair[0])

    def _score(self, request: Request) -> float:
        age = self._step - self._since[request.request_id]
        if request.status is RequestStatus.RUNNING:
            return score(age, warmth=1.0, is_decode=not in_prefill(request))
        if request.status is RequestStatus.WAITING:
            return score(age, warmth=0.0)
        return score(
            age, self.kv_cache_manager.get_computed_blocks(request)[1] / request.num_tokens
        )

    def _admit_by_score(self, output: SchedulerOutput, token_budget: int, num_spare: int) -> int:
        """Admit waiting requests, the best of the resumed or the first of the new; returns what is
        left of the budget.

        Resumed ones stand in front of new ones. num_spare blocks are left for the decodes that
        follow in this step: without them they would have to preempt what was just admitted. The
        first that does not fit ends admission.
        """
        kv = self.kv_cache_manager
        resumed = self._rank(
            takewhile(lambda request: request.status is RequestStatus.PREEMPTED, self.waiting)
        )
        while token_budget > 0 and (request := self._next_in_line(resumed)):
            computed_blocks, num_computed = kv.get_computed_blocks(request)
            limit = token_budget if self.enable_chunked_prefill else request.num_tokens
            n = self._chunk_size(request, num_computed, limit)
            num_blocks = (
                kv.num_blocks_needed(request, num_computed + n, computed_blocks) + num_spare
            )
            fits = n <= token_budget and num_blocks <= kv.num_free_blocks
            if not fits or not self._try_admit(output, request, n, num_computed, computed_blocks):
                break
            if resumed and resumed[0][1] is request:
                del resumed[0]
            token_budget -= n
        return token_budget

    def _next_in_line(self, resumed: Sequence[tuple[float, Request]]) -> Request | None:
        """The request to be admitted next, if any may; resumed: those still in waiting, the best
        first.
        """
        num_resumed = len(resumed)
        has_place = len(self.running) + num_resumed < self.max_num_seqs
        new = self.waiting[num_resumed] if has_place and len(self.waiting) > num_resumed else None
        if resumed and (new is None or resumed[0][0] >= self._score(new)):
            return resumed[0][1]
        return new

    def _admit(self, request: Request, num_computed_tokens: int) -> None:
        super()._admit(request, num_computed_tokens)
        request.num_prefill_tokens = request.num_tokens

    # --- the clock of steps -----------------------------------------------------------------------

    def _enqueue(self, request: Request) -> None:
        self._since[request.request_id] = self._step
        super()._enqueue(request)

    def finish_request(self, request_id: str, reason: str) -> Request | None:
        self._since.pop(request_id, None)
        return super().finish_request(request_id, reason)

    def update_from_output(
        self, output: SchedulerOutput, sampled_token_ids: Mapping[str, Sequence[int]]
    ) -> list[Request]:
        finished = super().update_from_output(output, sampled_token_ids)
        for request in finished:
            del self._since[request.request_id]
        return finished
