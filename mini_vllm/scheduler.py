"""The scheduler: how many tokens each request computes in the next step.

Every step has one token budget. Running requests take from it first, in order of admission; what is
left admits waiting requests. A request never asks for a phase, only for the tokens it is behind.
When blocks run out, the youngest running request is preempted: it gives everything back and
computes it again later. Source: vllm/v1/core/sched/scheduler.py; the decisions are those of vLLM
0.33.0 with async_scheduling=False; engine/ahead/ has what differs one step ahead.
"""

from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.errors import InvalidParameterError
from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler_interface import SchedulerInterface as SchedulerInterface
from mini_vllm.scheduler_interface import SchedulerOutput as SchedulerOutput


def urgency(request: Request) -> tuple[int, float, str]:
    """Sort key of the waiting queue under the priority policy. Source: Request.__lt__ of vLLM."""
    return (request.priority, request.arrival_time, request.request_id)


@dataclass(eq=False, repr=False, kw_only=True)
class Scheduler(SchedulerInterface):
    """The policy of vLLM V1: one token budget, running requests first, prompts in chunks.

    Raises InvalidParameterError for a threshold below 0, and what SchedulerInterface does.
    """

    long_prefill_token_threshold: int = 0
    """The most tokens a request gets in one step while it is not alone; 0 is no limit."""
    reserve_full_sequence: bool = True
    """Admit only what fits as a whole now, though blocks are taken chunk by chunk."""
    block_aligned_chunks: bool = False
    """An inner chunk ends at the edge of a block, if it reaches one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.long_prefill_token_threshold < 0:
            raise InvalidParameterError(
                "long_prefill_token_threshold must be at least 0, "
                f"got {self.long_prefill_token_threshold}"
            )
        self._set_aside: list[Request] = []  # by the admission of the step that is being decided

    # --- one step ---------------------------------------------------------------------------------

    def schedule(self) -> SchedulerOutput:
        """Decide the next step.

        Running first; no request is admitted in a step that had to preempt.
        """
        output = SchedulerOutput()
        token_budget = self._schedule_running(
            list(self.running), output, self.max_num_batched_tokens
        )
        if not output.preempted_req_ids:
            self._schedule_waiting(output, token_budget)
        return output

    def _schedule_running(
        self, requests: Sequence[Request], output: SchedulerOutput, token_budget: int
    ) -> int:
        """Give these running requests, in this order, the tokens they are behind; returns what is
        left of the budget.

        When blocks run out, the scheduler's victim gives its own back, whether or not it is one of
        `requests`.
        """
        allocate_slots = self.kv_cache_manager.allocate_slots
        # a local name: looking up an enum member takes longer than comparing it
        preempted = RequestStatus.PREEMPTED
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
        """Admit from the head of the queue; a head that does not fit blocks those behind it, so no
        request starves.
        """
        while (
            token_budget > 0
            and len(self.running) < self.max_num_seqs
            and (request := self._next_admissible())
        ):
            computed_blocks, num_computed = self.kv_cache_manager.get_computed_blocks(request)
            n = self._chunk_size(
                request,
                num_computed,
                token_budget if self.enable_chunked_prefill else self.num_slots,
            )
            if n > token_budget or not self._try_admit(
                output, request, n, num_computed, computed_blocks
            ):
                break
            token_budget -= n
        self._put_back(output)

    def _try_admit(
        self,
        output: SchedulerOutput,
        request: Request,
        num_new_tokens: int,
        num_computed_tokens: int,
        computed_blocks: Sequence[KVCacheBlock],
    ) -> bool:
        """Admit a request with its first chunk, if it may come in and there are blocks for it.

        False: no change.
        """
        if not self._may_admit(request, num_computed_tokens + num_new_tokens, computed_blocks):
            return False
        if self.kv_cache_manager.allocate_slots(request, num_new_tokens, computed_blocks) is None:
            return False
        self._admit(request, num_computed_tokens)
        output.add(request, num_new_tokens)
        return True

    def _target(self, request: Request) -> int:
        """The length that a request has to catch up with.

        A scheduler that speculates adds the request's drafts.
        """
        return request.num_tokens

    def _next_waiting(self) -> Request | None:
        """The request that may be admitted next: the head of waiting.

        A subclass may pass over some.
        """
        return self.waiting[0] if self.waiting else None

    def _next_admissible(self) -> Request | None:
        """The next request that no part holds back.

        Those before it are set aside while this step admits.
        """
        while (request := self._next_waiting()) is not None:
            if all(part.may_admit(request) for part in self.parts):
                break
            self.waiting.remove(request)
            self._set_aside.append(request)
        return request

    def _put_back(self, output: SchedulerOutput) -> None:
        """What was set aside stands in front of the queue again, in its old order."""
        output.blocked.update((request.request_id, "a part") for request in self._set_aside)
        self.waiting.extendleft(reversed(self._set_aside))
        self._set_aside = []

    def _clamp_new_tokens(self, num_new_tokens: int, token_budget: int) -> int:
        """How many of the tokens that a request is behind it may compute in this step: the size of
        its chunk.
        """
        threshold = self.long_prefill_token_threshold
        if threshold and len(self._requests) > 1:  # a lone request need not make room for another
            num_new_tokens = min(num_new_tokens, threshold)
        return num_new_tokens if num_new_tokens < token_budget else token_budget

    def _chunk_size(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
        """How many tokens a request computes that has num_computed_tokens: what it is behind,
        clamped, cut at an edge.

        With block_aligned_chunks a chunk that does not catch up ends at the last edge in it, if
        there is one. Source: Scheduler._mamba_block_aligned_split of vLLM, which
        has more such edges.
        """
        target = self._target(request)
        n = self._clamp_new_tokens(target - num_computed_tokens, token_budget)
        if self.block_aligned_chunks and num_computed_tokens + n < target:
            block_size = self.kv_cache_manager.block_size
            edge = (num_computed_tokens + n) // block_size * block_size
            return edge - num_computed_tokens if edge > num_computed_tokens else n
        return n

    def _may_admit(
        self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock]
    ) -> bool:
        """Whether the free blocks hold the sequence (all of it, or its first num_tokens) and the
        watermark.
        """
        kv = self.kv_cache_manager
        if self.reserve_full_sequence:
            num_tokens = kv.num_tokens_reserved(request, num_tokens)
        num_spare = self.num_watermark_blocks if self.running else 0
        return (
            kv.num_blocks_needed(request, num_tokens, computed_blocks) + num_spare
            <= kv.num_free_blocks
        )

    def _admit(self, request: Request, num_computed_tokens: int) -> None:
        """Move a waiting request to the end of running, with the head start that the prefix cache
        gives.
        """
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
        """Take the request that gives way out of running, and return it.

        Which one it is depends on the policy.
        """
        if self.policy == "fcfs":
            return self.running.pop()
        # Among equals of priority and arrival time it is the first, as in vLLM. Without
        # reserve_full_sequence two such requests can preempt each other without end, in vLLM as
        # here: give requests arrival times of their own.
        victim = max(self.running, key=lambda request: (request.priority, request.arrival_time))
        self.running.remove(victim)
        return victim

    def _preempt(self, request: Request) -> None:
        """Take back everything but the tokens; the request will compute them again (preemption by
        recompute).
        """
        self.kv_cache_manager.free(request)
        request.status = RequestStatus.PREEMPTED
        request.num_computed_tokens = 0
        request.num_preemptions += 1
        self._enqueue(request)

    def _enqueue(self, request: Request) -> None:
        """Put a newcomer or a victim into its place in waiting.

        Which one it is depends on the policy.
        """
        if self.policy == "priority":
            insort(self.waiting, request, key=urgency)
        elif request.status is RequestStatus.PREEMPTED:
            self.waiting.appendleft(request)
        else:
            self.waiting.append(request)

    # --- after the step ---------------------------------------------------------------------------

    @staticmethod
    def needs_sample(request: Request, num_scheduled: int) -> bool:
        """Whether this step catches up, so that its last logits predict a new token.

        An inner chunk's do not.
        """
        return request.num_computed_tokens + num_scheduled >= request.num_tokens

    def update_from_output(
        self, output: SchedulerOutput, sampled_token_ids: Mapping[str, Sequence[int]]
    ) -> list[Request]:
        """Advance the counters by what was computed, append what was sampled; returns who finished,
        in step order.

        vLLM advances num_computed_tokens in schedule() already; in a synchronous engine the
        decisions are the same.
        """
        finished: list[Request] = []
        num_scheduled_tokens = output.num_scheduled_tokens
        for request in output.scheduled_requests:
            # finished from outside while the model ran
            if request.status is not RequestStatus.RUNNING:
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
            self.running = [
                request for request in self.running if request.status is RequestStatus.RUNNING
            ]
        return finished

    def fail_step(self, output: SchedulerOutput) -> None:
        """Undo a step that raised: its requests are preempted, and nothing it published stays in
        the cache.
        """
        for request in reversed(output.scheduled_requests):
            if request.status is RequestStatus.RUNNING:
                self.running.remove(request)
                self._preempt(request)
            elif request.is_finished:
                self.kv_cache_manager.withdraw(
                    request, output.num_scheduled_tokens[request.request_id]
                )
