"""The scheduler: how many tokens each request computes in the next step.

Every step has one token budget. Running requests take from it first, in order of admission; what is left admits
waiting requests. A request never asks for a phase, only for the tokens it is behind. When blocks run out, the
youngest running request is preempted: it gives everything back and computes it again later.
Called by the engine: schedule(), then the model runs, then update_from_output().
That is Scheduler, the policy of vLLM V1. SchedulerInterface is what the engine knows of any policy.
Source: vllm/v1/core/sched/scheduler.py; the decisions are those of vLLM 0.33.0 with async_scheduling=False.
"""

from abc import ABC, abstractmethod
from bisect import insort
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.errors import DuplicateRequestError, InvalidParameterError, PromptTooLongError, shown
from mini_vllm.kv_cache import KVCacheManager, PrefixCacheStats
from mini_vllm.request import FINISH_REASONS, Request, RequestStatus


@dataclass(slots=True)
class SchedulerOutput:
    """What one step computes. Dictionary and list are in scheduling order, and every count is at least 1."""

    num_scheduled_tokens: dict[str, int] = field(default_factory=dict)
    scheduled_requests: list[Request] = field(default_factory=list)
    preempted_req_ids: list[str] = field(default_factory=list)
    forks: dict[str, list[Request]] = field(default_factory=dict)  # V0 only: who else samples from a request's logits

    @property
    def total_num_scheduled_tokens(self) -> int:
        return sum(self.num_scheduled_tokens.values())

    @property
    def has_work(self) -> bool:
        """Whether the runner has anything to compute. What it has to copy is said by the KV cache manager's plan."""
        return bool(self.num_scheduled_tokens)

    def add(self, request: Request, num_tokens: int) -> None:
        self.num_scheduled_tokens[request.request_id] = num_tokens
        self.scheduled_requests.append(request)

    def drop(self, request: Request) -> int:
        """Take a request out of the step again; return the tokens that this gives back to the budget."""
        num_tokens = self.num_scheduled_tokens.pop(request.request_id, 0)
        if num_tokens:
            self.scheduled_requests.remove(request)
        return num_tokens


def urgency(request: Request) -> tuple[int, float, str]:
    """Sort key of the waiting queue under the priority policy. Source: Request.__lt__ of vLLM."""
    return (request.priority, request.arrival_time, request.request_id)


class SchedulerInterface(ABC):
    """What an engine asks of any policy, and what all of them share: the requests, and the limits of a step.

    It owns every unfinished request: it is in waiting (WAITING or PREEMPTED) or in running (RUNNING). Source:
    SchedulerInterface in vllm/v1/core/sched/interface.py.

    watermark: the share of all blocks that admission leaves free while anything runs.

    Raises InvalidParameterError for an unknown policy, a limit below 1, or, without chunked prefill, a budget that
    the longest request would exceed.
    """

    kv_cache_manager_cls: ClassVar[type[KVCacheManager]] = KVCacheManager
    refused_options: ClassVar[frozenset[str]] = frozenset()  # inherited keywords that mean nothing to this policy
    can_fork: ClassVar[bool] = False  # whether it has fork_request(), as beam search needs

    def __init__(
        self,
        kv_cache_manager: KVCacheManager,
        *,
        max_num_seqs: int,
        max_num_batched_tokens: int,
        enable_chunked_prefill: bool = True,
        policy: str = "fcfs",
        max_model_len: int | None = None,
        watermark: float = 0.0,
    ) -> None:
        kv = kv_cache_manager
        # The last token of a request is never computed, so a request alone may have one token more than slots.
        self.num_slots = kv.num_usable_blocks * kv.block_size
        most_tokens = self.num_slots + 1
        self.max_model_len = most_tokens if max_model_len is None else min(max_model_len, most_tokens)
        if policy not in ("fcfs", "priority"):
            raise InvalidParameterError(f"policy must be 'fcfs' or 'priority', got {shown(policy)}")
        if max_num_seqs < 1 or max_num_batched_tokens < 1:
            limits = f"max_num_seqs {max_num_seqs}, max_num_batched_tokens {max_num_batched_tokens}"
            raise InvalidParameterError(f"limits must be at least 1, got {limits}")
        if not 0 <= watermark < 1 or self.max_model_len < 1:
            limits = f"{watermark}, {self.max_model_len}"
            raise InvalidParameterError(f"watermark must be in [0, 1), max_model_len at least 1, got {limits}")
        if not enable_chunked_prefill and max_num_batched_tokens < min(self.max_model_len, self.num_slots):
            raise InvalidParameterError(
                f"without chunked prefill max_num_batched_tokens must be at least max_model_len {self.max_model_len}, "
                f"got {max_num_batched_tokens}"
            )
        self.kv_cache_manager = kv
        self.max_num_seqs = max_num_seqs
        self.max_num_batched_tokens = max_num_batched_tokens
        self.enable_chunked_prefill = enable_chunked_prefill
        self.policy = policy
        self.watermark = watermark
        self.num_watermark_blocks = int(watermark * kv.num_blocks)
        self.waiting: deque[Request] = deque()  # front first
        self.running: list[Request] = []  # in order of admission
        self.prefix_cache_stats = PrefixCacheStats()  # of first admissions
        self.preempted_prefix_cache_stats = PrefixCacheStats()  # of re-admissions after preemption
        self._requests: dict[str, Request] = {}

    # --- requests come and go -------------------------------------------------------------------------------------

    def add_request(self, request: Request) -> None:
        """Queue a request. One that would outgrow the pool alone has its max_model_len lowered to what fits.

        Raises DuplicateRequestError, or PromptTooLongError for a prompt that could never be computed.
        """
        self._check_requests([request])
        request.max_model_len = self._max_model_len_of(request)
        self._requests[request.request_id] = request
        self._enqueue(request)

    def add_group(self, requests: Sequence[Request]) -> None:
        """Queue the choices of one prompt (n > 1): here, requests like all others, that meet in the prefix cache.

        Raises what add_request() raises for any of them; then none is queued.
        """
        self._check_requests(requests)
        for request in requests:
            self.add_request(request)

    def _check_requests(self, requests: Sequence[Request]) -> None:
        """Refuse what add_request() must not take. Changes nothing."""
        request_ids: set[str] = set()
        for request in requests:
            if request.request_id in self._requests or request.request_id in request_ids:
                raise DuplicateRequestError(f"request {shown(request.request_id)} is still in flight")
            request_ids.add(request.request_id)
            self.check_prompt_len(request.request_id, request.num_prompt_tokens, self._max_model_len_of(request))

    def check_prompt_len(self, request_id: str, num_prompt_tokens: int, max_model_len: int) -> None:
        """Raises PromptTooLongError for a prompt that could never be computed."""
        limit = min(max_model_len, self.num_slots)
        if num_prompt_tokens > limit:
            raise PromptTooLongError(
                f"request {shown(request_id)}: the prompt has {num_prompt_tokens} tokens, "
                f"at most {limit} fit (max_model_len {max_model_len}, KV cache {self.num_slots} tokens)"
            )

    def _max_model_len_of(self, request: Request) -> int:
        return self.max_model_len if request.max_model_len is None else min(request.max_model_len, self.max_model_len)

    def fork_request(self, parent_id: str, child_id: str) -> None:
        """Let a request go on as another one of its group does. Only a scheduler that can_fork has it."""
        raise NotImplementedError(f"{type(self).__name__} does not fork")

    def finish_request(self, request_id: str, reason: str) -> Request | None:
        """End a request from outside: "stop" (a stop string was seen), "length" or "abort". Unknown ids are ignored.

        Returns the request that has ended, if there was one. Call it between steps, or between execution and
        update_from_output: that token is then dropped.
        """
        if reason not in FINISH_REASONS:
            raise InvalidParameterError(f"reason must be one of {list(FINISH_REASONS)}, got {shown(reason)}")
        request = self._requests.pop(request_id, None)
        if request is None:
            return None
        (self.running if request.status is RequestStatus.RUNNING else self.waiting).remove(request)
        request.status = RequestStatus(reason)
        self.kv_cache_manager.free(request)
        return request

    def abort_request(self, request_id: str) -> None:
        self.finish_request(request_id, "abort")

    def has_unfinished_requests(self) -> bool:
        return bool(self._requests)

    def restart(self, requests: Sequence[Request]) -> None:
        """Begin again with these requests, of which only the tokens count, and with an empty KV cache.

        What a call that was interrupted has left behind of queues, tables and blocks is not looked at.
        """
        self.kv_cache_manager.clear()
        self.waiting.clear()
        self.running = []
        self._requests = {request.request_id: request for request in requests}
        for request in requests:
            request.status = RequestStatus.WAITING
            request.num_computed_tokens = 0
            self._enqueue(request)

    @property
    def requests(self) -> Sequence[Request]:
        """All that are unfinished, in order of arrival."""
        return list(self._requests.values())

    @abstractmethod
    def _enqueue(self, request: Request) -> None:
        """Put a request into its place in waiting. add_request() calls it."""

    # --- what a policy decides ------------------------------------------------------------------------------------

    @abstractmethod
    def schedule(self) -> SchedulerOutput:
        """Decide the next step. update_from_output() or fail_step() has to follow."""

    @staticmethod
    @abstractmethod
    def needs_sample(request: Request, num_scheduled: int) -> bool:
        """Whether a step with so many tokens of the request is to sample from its last logits."""

    @abstractmethod
    def update_from_output(
        self, output: SchedulerOutput, sampled_token_ids: Mapping[str, Sequence[int]]
    ) -> list[Request]:
        """Take in what was computed and sampled, by request id; returns who finished, in step order."""

    @abstractmethod
    def fail_step(self, output: SchedulerOutput) -> None:
        """Undo a step that raised: its requests are tried again, and nothing it published stays in the cache."""


class Scheduler(SchedulerInterface):
    """The policy of vLLM V1: one token budget, running requests first, prompts in chunks.

    long_prefill_token_threshold: the most tokens a request gets in one step while it is not alone; 0 is no limit.
    reserve_full_sequence: admit only what fits as a whole now, though blocks are taken chunk by chunk.
    block_aligned_chunks: an inner chunk ends at the edge of a block, if it reaches one.
    options: those of SchedulerInterface.

    Raises InvalidParameterError for a threshold below 0, and what SchedulerInterface does.
    """

    def __init__(
        self,
        kv_cache_manager: KVCacheManager,
        *,
        long_prefill_token_threshold: int = 0,
        reserve_full_sequence: bool = True,
        block_aligned_chunks: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(kv_cache_manager, **options)
        if long_prefill_token_threshold < 0:
            threshold = long_prefill_token_threshold
            raise InvalidParameterError(f"long_prefill_token_threshold must be at least 0, got {threshold}")
        self.long_prefill_token_threshold = long_prefill_token_threshold
        self.reserve_full_sequence = reserve_full_sequence
        self.block_aligned_chunks = block_aligned_chunks

    # --- one step -------------------------------------------------------------------------------------------------

    def schedule(self) -> SchedulerOutput:
        """Decide the next step. Running first; no request is admitted in a step that had to preempt."""
        output = SchedulerOutput()
        token_budget = self._schedule_running(list(self.running), output, self.max_num_batched_tokens)
        if not output.preempted_req_ids:
            self._schedule_waiting(output, token_budget)
        return output

    def _schedule_running(self, requests: Sequence[Request], output: SchedulerOutput, token_budget: int) -> int:
        """Give these running requests, in this order, the tokens they are behind; returns what is left of the budget.

        When blocks run out, the scheduler's victim gives its own back, whether or not it is one of `requests`.
        """
        allocate_slots = self.kv_cache_manager.allocate_slots
        preempted = RequestStatus.PREEMPTED  # at hand: to look a member of an enum up takes longer than to compare it
        for request in requests:
            if request.status is preempted:  # a victim of this very loop
                continue
            n = self._chunk_size(request, request.num_computed_tokens, token_budget)
            if n == 0:
                continue
            while allocate_slots(request, n) is None:
                victim = self._pop_victim()
                self._preempt(victim)
                output.preempted_req_ids.append(victim.request_id)
                token_budget += output.drop(victim)
                if victim is request:
                    break
            else:
                output.add(request, n)
                token_budget -= n
        return token_budget

    def _schedule_waiting(self, output: SchedulerOutput, token_budget: int) -> None:
        """Admit from the head of the queue; a head that does not fit blocks those behind it, so no request starves."""
        kv = self.kv_cache_manager
        while token_budget > 0 and len(self.running) < self.max_num_seqs:
            request = self._next_waiting()
            if request is None:
                break
            computed_blocks, num_computed = kv.get_computed_blocks(request)
            n = self._chunk_size(request, num_computed, token_budget if self.enable_chunked_prefill else self.num_slots)
            if n > token_budget or not self._may_admit(request, num_computed + n, computed_blocks):
                break
            if kv.allocate_slots(request, n, computed_blocks) is None:
                break
            self._admit(request, num_computed)
            output.add(request, n)
            token_budget -= n

    def _target(self, request: Request) -> int:
        """The length that a request has to catch up with. A scheduler that speculates adds the request's drafts."""
        return request.num_tokens

    def _next_waiting(self) -> Request | None:
        """The request that may be admitted next: the head of waiting. A subclass may pass over some."""
        return self.waiting[0] if self.waiting else None

    def _clamp_new_tokens(self, num_new_tokens: int, token_budget: int) -> int:
        """How many of the tokens that a request is behind it may compute in this step: the size of its chunk."""
        threshold = self.long_prefill_token_threshold
        if threshold and len(self._requests) > 1:  # a lone request need not make room for others
            num_new_tokens = min(num_new_tokens, threshold)
        return num_new_tokens if num_new_tokens < token_budget else token_budget

    def _chunk_size(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
        """How many tokens a request computes that has num_computed_tokens: what it is behind, clamped, cut at an edge.

        With block_aligned_chunks a chunk that does not catch up ends at the last edge in it, if there is one. Source:
        Scheduler._mamba_block_aligned_split of vLLM, which cuts so where a layer's state needs it.
        """
        target = self._target(request)
        n = self._clamp_new_tokens(target - num_computed_tokens, token_budget)
        if self.block_aligned_chunks and num_computed_tokens + n < target:
            block_size = self.kv_cache_manager.block_size
            edge = (num_computed_tokens + n) // block_size * block_size
            return edge - num_computed_tokens if edge > num_computed_tokens else n
        return n

    def _may_admit(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock]) -> bool:
        """Whether the free blocks hold the sequence (all of it, or its first num_tokens) and the watermark."""
        kv = self.kv_cache_manager
        if self.reserve_full_sequence:
            num_tokens = request.num_tokens
        num_spare = self.num_watermark_blocks if self.running else 0
        return kv.num_blocks_needed(request, num_tokens, computed_blocks) + num_spare <= kv.num_free_blocks

    def _admit(self, request: Request, num_computed_tokens: int) -> None:
        """Move a waiting request to the end of running, with the head start that the prefix cache gives."""
        stats = self.preempted_prefix_cache_stats
        num_hits = num_computed_tokens - self.kv_cache_manager.num_external_tokens(request)
        if request.status is RequestStatus.WAITING:
            stats = self.prefix_cache_stats
            request.num_cached_tokens = num_hits
        if self.kv_cache_manager.enable_prefix_caching:
            stats.record(request.num_tokens, num_hits)
        self.waiting.remove(request)
        self.running.append(request)
        request.status = RequestStatus.RUNNING
        request.num_computed_tokens = num_computed_tokens

    def _pop_victim(self) -> Request:
        """Take the request that gives way out of running, and return it. Which one it is depends on the policy."""
        if self.policy == "fcfs":
            return self.running.pop()
        # Among equals of priority and arrival time it is the first, as in vLLM. Without reserve_full_sequence two such
        # requests can preempt each other without end, in vLLM as here: give requests arrival times of their own.
        victim = max(self.running, key=lambda request: (request.priority, request.arrival_time))
        self.running.remove(victim)
        return victim

    def _preempt(self, request: Request) -> None:
        """Take back everything but the tokens; the request will compute them again (preemption by recompute)."""
        self.kv_cache_manager.free(request)
        request.status = RequestStatus.PREEMPTED
        request.num_computed_tokens = 0
        request.num_preemptions += 1
        self._enqueue(request)

    def _enqueue(self, request: Request) -> None:
        """Put a newcomer or a victim into its place in waiting. Which one it is depends on the policy."""
        if self.policy == "priority":
            insort(self.waiting, request, key=urgency)
        elif request.status is RequestStatus.PREEMPTED:
            self.waiting.appendleft(request)
        else:
            self.waiting.append(request)

    # --- after the step -------------------------------------------------------------------------------------------

    @staticmethod
    def needs_sample(request: Request, num_scheduled: int) -> bool:
        """Whether this step catches up, so that its last logits predict a new token. An inner chunk's do not."""
        return request.num_computed_tokens + num_scheduled >= request.num_tokens

    def update_from_output(
        self, output: SchedulerOutput, sampled_token_ids: Mapping[str, Sequence[int]]
    ) -> list[Request]:
        """Advance the counters by what was computed, append what was sampled; returns who finished, in step order.

        vLLM advances num_computed_tokens in schedule() already; in a synchronous engine the decisions are the same.
        """
        finished: list[Request] = []
        num_scheduled_tokens = output.num_scheduled_tokens
        for request in output.scheduled_requests:
            if request.status is not RequestStatus.RUNNING:  # finished from outside while the model ran
                continue
            request_id = request.request_id
            request.num_computed_tokens += num_scheduled_tokens[request_id]
            for token_id in sampled_token_ids.get(request_id, ()):
                request.append_output_token(token_id)
                if request.maybe_finish():
                    finished.append(request)
                    self.kv_cache_manager.free(request)
                    del self._requests[request_id]
                    break
        if finished:
            self.running = [request for request in self.running if request.status is RequestStatus.RUNNING]
        return finished

    def fail_step(self, output: SchedulerOutput) -> None:
        """Undo a step that raised: its requests are preempted, and nothing it published stays in the cache."""
        for request in reversed(output.scheduled_requests):
            if request.status is RequestStatus.RUNNING:
                self.running.remove(request)
                self._preempt(request)
            elif request.is_finished:
                self.kv_cache_manager.withdraw(request, output.num_scheduled_tokens[request.request_id])
