"""What the engine knows of any scheduler, and what a scheduler decides in a step.

Called by the engine: schedule(), then the model runs, then update_from_output(). Scheduler
(scheduler.py) is the policy of vLLM V1; the other policies are in policies/. Source:
SchedulerInterface in vllm/v1/core/sched/interface.py, SchedulerOutput in
vllm/v1/core/sched/output.py.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import KW_ONLY, dataclass, field
from itertools import chain
from typing import Any, ClassVar

from mini_vllm.errors import (
    DuplicateRequestError,
    InvalidParameterError,
    RequestFailedError,
    check_prompt_len,
    shown,
)
from mini_vllm.kv_cache import PART, KVCacheManager, PrefixCacheStats
from mini_vllm.request import FINISH_REASONS, Request, RequestStatus
from mini_vllm.step import KVPlan, KVResult, StepOutput


@dataclass(slots=True)
class SchedulerOutput:
    """What one step computes.

    num_scheduled_tokens and scheduled_requests are in scheduling order; each count is at least 1.
    """

    num_scheduled_tokens: dict[str, int] = field(default_factory=dict)
    scheduled_requests: list[Request] = field(default_factory=list)
    preempted_req_ids: list[str] = field(default_factory=list)
    drafts: dict[str, Sequence[int]] = field(default_factory=dict)
    """By request: tokens behind those it has, that the step computes and the worker verifies."""
    masks: dict[str, list[Any]] = field(default_factory=dict)
    """By request: a mask for each of its samples, as StepInput has them."""
    blocked: dict[str, str] = field(default_factory=dict)
    """By request: what it waits for in the queue, though there may be room for it."""

    @property
    def sampling_along(self) -> Mapping[str, Sequence[Request]]:
        """By request: the requests that sample from its last logits. A subclass may have some."""
        return {}

    @property
    def uniform_query_len(self) -> int:
        """How many tokens each request computes, if all compute equally many; else 0: a recorded
        forward is chosen by it. 1 is a step of decodes; with drafts it is one more than they are.
        """
        lengths = {*self.num_scheduled_tokens.values()}
        return sum(lengths) if len(lengths) == 1 else 0

    @property
    def total_num_scheduled_tokens(self) -> int:
        return sum(self.num_scheduled_tokens.values())

    def add(self, request: Request, num_tokens: int) -> None:
        self.num_scheduled_tokens[request.request_id] = num_tokens
        self.scheduled_requests.append(request)

    def drop(self, request: Request) -> int:
        """Take a request out of the step again; return the tokens that this gives back to the
        budget.
        """
        num_tokens = self.num_scheduled_tokens.pop(request.request_id, 0)
        if num_tokens:
            self.scheduled_requests.remove(request)
        return num_tokens


@dataclass(slots=True, eq=False)
class Step:
    """One step from its decision to its end.

    What belongs to it alone is here, since several may be in flight.

    Steps end in the order in which they were decided; those that are undone, in the opposite order.
    """

    output: SchedulerOutput
    plan: KVPlan
    """What happens to the KV cache before the step computes."""
    kv_notes: Any = None
    """What the KV cache manager needs of the step when it ends."""
    future: "Future[StepOutput]" = field(default_factory=Future)
    """What comes of it."""
    errors: dict[Request, RequestFailedError] = field(default_factory=dict)
    """Requests that end with the step, and why. See end()."""
    notes: dict[object, Any] = field(default_factory=dict)
    """What one who watches the step has to remember of it, by who it is."""
    unanswered: "list[Part]" = field(default_factory=list)
    """Parts that need the tokens of the step before it, which is in flight."""

    @classmethod
    def decide(cls, scheduler: "SchedulerInterface") -> "Step":
        """Let the scheduler, its KV cache manager and its parts decide the next step."""
        for part in scheduler.parts:
            part.before_schedule(scheduler)
        output, kv = scheduler.schedule(), scheduler.kv_cache_manager
        step = cls(output, kv.begin_step(), kv.exchange_notes(None))
        for part in scheduler.parts:
            part.after_schedule(step, scheduler)
        return step

    @property
    def requests(self) -> Iterator[Request]:
        """All that compute in the step, in scheduling order; then those that only sample."""
        return chain(self.output.scheduled_requests, *self.output.sampling_along.values())

    def end(self, request: Request, error: RequestFailedError, num_tokens: int = 1) -> None:
        """A part ends the request with this step.

        If the step samples for it, the request still takes the first num_tokens tokens, at least 1.
        """
        request.end_after(len(request.output_token_ids) + num_tokens, RequestStatus.FINISHED_ERROR)
        self.errors[request] = error

    def end_kv(self, kv: KVCacheManager, result: KVResult) -> None:
        """Tell the KV cache manager that the step went well."""
        coming = kv.exchange_notes(self.kv_notes)
        kv.end_step(result)
        kv.exchange_notes(coming)

    def undo(self, scheduler: "SchedulerInterface") -> None:
        """The step failed: its requests are tried again, and what it published is withdrawn."""
        kv = scheduler.kv_cache_manager
        coming = kv.exchange_notes(self.kv_notes)
        scheduler.fail_step(self.output)
        kv.end_step(None)
        kv.exchange_notes(coming)

    def update(
        self, scheduler: "SchedulerInterface", sampled_token_ids: Mapping[str, Sequence[int]]
    ) -> list[Request]:
        """Take in what was computed and sampled. Returns the requests that finished, in step order.

        Those that a part ends and that are not in the step come last.
        """
        if void := {request.request_id for request in scheduler.void_requests(self.output)}:
            sampled_token_ids = {
                name: token_ids for name, token_ids in sampled_token_ids.items() if name not in void
            }
        for part in scheduler.parts:
            part.before_update(self, sampled_token_ids)
        finished = scheduler.update_from_output(self.output, sampled_token_ids)
        for part in scheduler.parts:
            for request in finished:
                part.ended(request)
        for request in self.errors:
            if not request.is_finished:
                scheduler.finish_request(request.request_id, "error")
                finished.append(request)
        return finished


class Part:
    """A feature that no scheduler knows: it is asked at these places and changes nothing else.

    A part may refuse a request, hold one back in the queue, say what a step's samples may be, and
    end one.
    """

    def add(self, requests: Sequence[Request]) -> None:
        """These come, together. Raises a RequestRefusedError; then none is queued."""

    def before_schedule(self, scheduler: "SchedulerInterface") -> None:
        """The next step is about to be decided. Nothing is known of it yet."""

    def may_admit(self, request: Request) -> bool:
        """Whether a waiting request may be admitted now.

        If not, it is passed over, and keeps its place.
        """
        return True

    def after_schedule(self, step: Step, scheduler: "SchedulerInterface") -> None:
        """The step is decided, and nothing is computed yet.

        The part may set the output's masks, say in output.blocked what a request waits for, and
        end requests by step.end(). If it needs tokens in flight, it puts itself into
        step.unanswered, and is asked a second time when they are known. A request has tokens in
        flight if it has no token more than num_computed_tokens.
        """

    def before_update(self, step: Step, sampled_token_ids: Mapping[str, Sequence[int]]) -> None:
        """The step went well, and the scheduler has not seen its tokens.

        The part may end requests.
        """

    def ended(self, request: Request) -> None:
        """The request is gone."""


@dataclass(eq=False, repr=False)
class SchedulerInterface(ABC):
    """What an engine asks of any policy, and what all of them share: the requests, and the limits
    of a step.

    It owns every unfinished request: it is in waiting (WAITING or PREEMPTED) or in running
    (RUNNING). A scheduler class is a dataclass, and its fields are its options. Source:
    SchedulerInterface in vllm/v1/core/sched/interface.py.

    Raises InvalidParameterError for an unknown policy, a limit below 1, or, without chunked
    prefill, a budget that the longest request would exceed.
    """

    kv_cache_manager_cls: ClassVar[type[KVCacheManager]] = KVCacheManager
    policies: ClassVar[Sequence[str]] = ("fcfs", "priority")

    kv_cache_manager: KVCacheManager = field(metadata=PART)
    _: KW_ONLY
    max_num_seqs: int
    """Most requests running at once."""
    max_num_batched_tokens: int
    """The token budget of a step."""
    enable_chunked_prefill: bool = True
    """Whether a prompt may be computed in several steps."""
    policy: str = "fcfs"
    """The order of waiting and of victims: "fcfs" or "priority"."""
    max_model_len: int = None  # type: ignore[assignment]  # it is an integer as soon as the scheduler is made
    """Most tokens of a request, prompt and output; None: what fits into the KV cache."""
    watermark: float = 0.0
    """The share of all blocks that admission leaves free while anything runs."""

    def __post_init__(self) -> None:
        kv = self.kv_cache_manager
        # The last token of a request is never computed, so a request alone may have one token more
        # than slots.
        self.num_slots = kv.max_tokens_alone()
        given: int | None = self.max_model_len
        most_tokens = self.num_slots + 1
        self.max_model_len = most_tokens if given is None else min(given, most_tokens)
        if self.policy not in self.policies:
            raise InvalidParameterError(
                f"policy must be {' or '.join(map(repr, self.policies))}, got {shown(self.policy)}"
            )
        if self.max_num_seqs < 1 or self.max_num_batched_tokens < 1:
            raise InvalidParameterError(
                f"limits must be at least 1, got max_num_seqs {self.max_num_seqs}, "
                f"max_num_batched_tokens {self.max_num_batched_tokens}"
            )
        if not 0 <= self.watermark < 1 or self.max_model_len < 1:
            raise InvalidParameterError(
                "watermark must be in [0, 1), max_model_len at least 1, "
                f"got {self.watermark}, {self.max_model_len}"
            )
        if not self.enable_chunked_prefill and self.max_num_batched_tokens < min(
            self.max_model_len, self.num_slots
        ):
            raise InvalidParameterError(
                "without chunked prefill max_num_batched_tokens must be at least max_model_len "
                f"{self.max_model_len}, got {self.max_num_batched_tokens}"
            )
        self.num_watermark_blocks = int(self.watermark * kv.num_blocks)
        self.waiting: deque[Request] = deque()  # front first
        self.running: list[Request] = []  # in order of admission
        self.prefix_cache_stats = PrefixCacheStats()  # of first admissions
        self.preempted_prefix_cache_stats = PrefixCacheStats()  # of re-admissions after preemption
        self.parts: tuple[Part, ...] = ()
        self._requests: dict[str, Request] = {}

    def attach(self, part: Part) -> None:
        """Ask this part, too, from now on."""
        self.parts += (part,)

    # --- requests come and go ---------------------------------------------------------------------

    def add_request(self, request: Request) -> None:
        """Queue a request.

        One that would outgrow the pool alone has its max_model_len lowered to what fits.

        Raises DuplicateRequestError, or PromptTooLongError for a prompt that could never be
        computed.
        """
        self.add_group([request])

    def add_group(self, requests: Sequence[Request]) -> None:
        """Queue the choices of one prompt (n > 1): here, requests like all other ones, that meet in
        the prefix cache.

        Raises what add_request() raises for any of them; then none is queued.
        """
        self._check_requests(requests)
        for part in self.parts:
            part.add(requests)
        self._queue(requests)

    def _queue(self, requests: Sequence[Request]) -> None:
        """The requests are taken: they wait."""
        for request in requests:
            request.max_model_len = request.at_most(self.max_model_len)
            self._requests[request.request_id] = request
            self._enqueue(request)

    def _check_requests(self, requests: Sequence[Request]) -> None:
        """Refuse what add_group() must not take. Changes nothing."""
        request_ids: set[str] = set()
        for each in requests:
            name = each.request_id
            if name in self._requests or name in request_ids:
                raise DuplicateRequestError(f"request {shown(name)} is still in flight")
            request_ids.add(name)
            check_prompt_len(
                name,
                each.num_prompt_tokens,
                each.at_most(self.max_model_len),
                self.num_slots,
            )

    def finish_request(self, request_id: str, reason: str) -> Request | None:
        """End a request from outside: "stop" (a stop string), "length", "abort" or "error".

        Unknown ids are ignored.

        Returns the request that has ended, if there was one. Call it between steps, or between
        execution and update_from_output: that token is then dropped.
        """
        if reason not in FINISH_REASONS:
            raise InvalidParameterError(
                f"reason must be one of {list(FINISH_REASONS)}, got {shown(reason)}"
            )
        if (request := self._requests.pop(request_id, None)) is None:
            return None
        (self.running if request.status is RequestStatus.RUNNING else self.waiting).remove(request)
        request.status = RequestStatus(reason)
        self.kv_cache_manager.free(request)
        for part in self.parts:
            part.ended(request)
        return request

    def abort_request(self, request_id: str) -> None:
        self.finish_request(request_id, "abort")

    def has_unfinished_requests(self) -> bool:
        return bool(self._requests)

    @property
    def requests(self) -> Sequence[Request]:
        """All that are unfinished, in order of arrival."""
        return list(self._requests.values())

    @abstractmethod
    def _enqueue(self, request: Request) -> None:
        """Put a request into its place in waiting. add_request() calls it."""

    # --- what a policy decides --------------------------------------------------------------------

    @abstractmethod
    def schedule(self) -> SchedulerOutput:
        """Decide the next step. update_from_output() or fail_step() has to follow."""

    @staticmethod
    @abstractmethod
    def needs_sample(request: Request, num_scheduled: int) -> bool:
        """Whether a step with so many tokens of the request is to sample from its last logits.

        num_scheduled: of those that the request has. Drafts behind them do not count.
        """

    def void_requests(self, output: SchedulerOutput) -> Collection[Request]:
        """Requests for which nothing counts that the step has sampled. It is over, and
        update_from_output() follows.
        """
        return ()

    @abstractmethod
    def update_from_output(
        self, output: SchedulerOutput, sampled_token_ids: Mapping[str, Sequence[int]]
    ) -> list[Request]:
        """Take in what was computed and sampled, by request id; returns who finished, in step
        order.
        """

    @abstractmethod
    def fail_step(self, output: SchedulerOutput) -> None:
        """Undo a step that raised: its requests are tried again, and nothing it published stays in
        the cache.
        """
