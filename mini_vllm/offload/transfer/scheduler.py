"""A scheduler whose requests load KV from another engine, at once or beside the steps.

A request with an async load holds its blocks and no seat: it stands in a queue of its own, which is
served before `waiting`. When the load has ended, it is admitted with what has arrived. Loads that
fail end their requests, or are computed. Source: vllm/v1/core/sched/scheduler.py (schedule,
_update_waiting_for_remote_kv, _update_requests_with_invalid_blocks, kv_holding_waiting).
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mini_vllm.errors import InvalidParameterError
from mini_vllm.offload.connector import REMOTE_KV
from mini_vllm.offload.transfer.connector import Match, TransferReport
from mini_vllm.offload.transfer.loads import Load, Loads
from mini_vllm.offload.transfer.manager import NOTHING, TransferKVCacheManager
from mini_vllm.offload.transfer.queues import LateVictims
from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler, SchedulerInterface, SchedulerOutput

SENDING = "sending"  # what a request waits for


@dataclass(slots=True, eq=False)
class Flight:
    """A step that has not ended. What it brings for requests in `stale` or `lost` is dropped."""

    output: SchedulerOutput
    loads: list[Load]
    stale: set[Request]
    report: TransferReport = NOTHING
    """What the workers have said when it was over."""
    lost: Sequence[Request] | None = None
    """Those that have not what they should; None: it is not over."""


class TransferScheduler(Loads):
    """The outermost class, over any scheduler of V1's kind: with_transfers() puts them together."""

    num_draft_slots = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._flights: deque[Flight] = deque()

    # --- a step -----------------------------------------------------------------------------------

    def schedule(self) -> SchedulerOutput:
        output, kv = super().schedule(), self.kv_cache_manager
        self._prefills -= {
            request
            for request in output.scheduled_requests
            if request.num_computed_tokens + output.num_scheduled_tokens[request.request_id]
            >= request.num_tokens
        }
        output.blocked.update((each.request_id, REMOTE_KV) for each in self._waits_for_load)
        output.blocked.update(dict.fromkeys(kv.kept_req_ids, SENDING))
        self._flights.append(Flight(output, self._loads, set()))
        self._loads = []
        kv.step_decided(output.num_scheduled_tokens)
        return output

    def _schedule_waiting(self, output: SchedulerOutput, token_budget: int) -> None:
        """The same, but holders come first, and a request whose KV is not known yet, or on its way,
        is passed over.
        """
        kv = self.kv_cache_manager
        while token_budget > 0 and self._has_room(output) and (request := self._next_waiting()):
            found = self._find_computed(request) if self._is_ready(request) else None
            if found is None:
                self._pass_over(request)
                continue
            blocks, num_local, match = found
            num_external = match.num_tokens or 0
            num_reserved = self._num_reserved_blocks() if match.is_async else 0
            num_computed = num_local + num_external
            is_whole = match.is_async and num_computed == request.num_tokens
            with kv.external(num_external, match.is_async, is_whole):
                if match.is_async:
                    if not self._begin_load(request, blocks, num_local, num_reserved):
                        break
                    self._pass_over(request)
                    continue
                most = token_budget if self.enable_chunked_prefill else self.num_slots
                n = self._chunk_size(request, num_computed, most)
                if n > token_budget or not self._try_admit(
                    output, request, n, num_computed, blocks
                ):
                    break
            self._tell_connector(request, num_local, num_external)
            if num_computed + n < request.num_tokens:
                self._prefills.add(request)
            token_budget -= n
        self._put_back(output)

    def _has_room(self, output: SchedulerOutput) -> bool:
        """Whether there is a seat, and a row for its drafts."""
        num_left = self.max_num_batched_tokens - output.total_num_scheduled_tokens
        num_rows = self.num_draft_slots * (1 + len(output.scheduled_requests))
        return len(self.running) < self.max_num_seqs and num_left > num_rows

    def _is_ready(self, request: Request) -> bool:
        if request in self._waits_for_load:
            if request.request_id in self.kv_cache_manager.loading:
                return False
            self._promote(request)
        return all(part.may_admit(request) for part in self.parts)

    def _find_computed(self, request: Request) -> tuple[Sequence[Any], int, Match] | None:
        """The blocks and tokens found here, and what there is elsewhere; None: nobody knows yet."""
        if request.num_computed_tokens:  # it has been loaded
            return (), request.num_computed_tokens, Match(0)
        kv = self.kv_cache_manager
        blocks, num_local = kv.get_computed_blocks(request)
        match = kv.connector.get_num_new_matched_tokens(request, num_local)
        if request in self._one_token_loads:  # vLLM 0.33.0 would load it again without end
            match = Match(0)
        return None if match.num_tokens is None else (blocks, num_local, match)

    def _begin_load(
        self, request: Request, blocks: Sequence[Any], num_local: int, num_reserved: int
    ) -> bool:
        """Give a request the blocks that its load fills, if those that are on their way can still
        get through. False: no change.
        """
        kv = self.kv_cache_manager
        num_computed = num_local + (num_external := kv.num_external_tokens(request))
        num_spare = self.num_watermark_blocks if self.running else 0
        num_needed = kv.num_blocks_needed(request, num_computed, blocks) + num_spare
        if (
            not self._may_admit(request, num_computed, blocks)
            or num_needed + num_reserved > kv.num_free_blocks
            or kv.allocate_slots(request, 0, blocks) is None
        ):
            return False
        self._tell_connector(request, num_local, num_external)
        stats = self.preempted_prefix_cache_stats
        if request.status is RequestStatus.WAITING:
            stats, request.num_cached_tokens = self.prefix_cache_stats, num_local
        if kv.enable_prefix_caching:
            stats.record(request.num_tokens, num_local)
        request.num_computed_tokens = num_computed
        kv.loading.add(request.request_id)
        self._waits_for_load.add(request)
        self._prefills.add(request)
        return True

    def _admit(self, request: Request, num_computed_tokens: int) -> None:
        self._to_waiting(request)
        self._one_token_loads.discard(request)
        if not request.num_computed_tokens:
            super()._admit(request, num_computed_tokens)
            return
        self.waiting.remove(request)  # it was looked up before its load
        self.running.append(request)
        request.status = RequestStatus.RUNNING

    def _preempt(self, request: Request) -> None:
        self._forget_loads(request)
        if self.kv_cache_manager.connector.requires_kv_delivery:
            for flight in self._flights:
                flight.stale.add(request)
        super()._preempt(request)

    # --- after the step ---------------------------------------------------------------------------

    def update_from_output(
        self, output: SchedulerOutput, sampled_token_ids: Mapping[str, Sequence[int]]
    ) -> list[Request]:
        """First what failed to load: its requests do the step again from there, or end."""
        kv, void = self.kv_cache_manager, self.void_requests(output)
        flight = self._flights.popleft()
        if void:
            rest = [each for each in output.scheduled_requests if each not in void]
            output = replace(output, scheduled_requests=rest)
        finished = super().update_from_output(output, sampled_token_ids)
        if kv.kv_load_failure_policy == "fail":
            for request in flight.lost or ():
                self.finish_request(request.request_id, "error")
                finished.append(request)
        kv.take_in(flight.report)
        return finished

    def void_requests(self, output: SchedulerOutput) -> Collection[Request]:
        flight, *later = self._flights
        if flight.lost is None:
            flight.report = self.kv_cache_manager.step_ended(output.num_scheduled_tokens)
            flight.lost = self._find_lost(flight.report)
            for request in flight.lost:
                if any(request in each.output.scheduled_requests for each in later):
                    self._begin_again(request)
        return flight.stale.union(flight.lost)

    def _find_lost(self, report: TransferReport) -> list[Request]:
        """Requests that a report says have not what they should, and whose step is void."""
        kv, invalid = self.kv_cache_manager, report.invalid_block_ids
        recomputes = kv.kv_load_failure_policy == "recompute"
        waiting = [each for each in self.holding if each in self._waits_for_load]
        loads = [each for each in waiting if each.request_id in report.failed_recving]
        for request in loads if recomputes else ():
            request.num_computed_tokens = 0
        loads = list(dict.fromkeys(loads + go_back(kv, waiting, invalid)))
        if recomputes:
            self._failed_loads.update(loads)
            loads = []
        return loads + go_back(kv, self.running, invalid)

    def _begin_again(self, request: Request) -> None:
        """What the steps in flight compute for it is as wrong. vLLM 0.33.0 takes it in."""
        for flight in self._flights:
            flight.stale.add(request)
        if request.status is RequestStatus.RUNNING:
            self.running.remove(request)
            kv = self.kv_cache_manager
            # the names of what is wrong are gone already
            request.num_computed_tokens = len(kv.get_block_ids(request.request_id)) * kv.block_size
            self._preempt(request)

    def fail_step(self, output: SchedulerOutput) -> None:
        """What the step was to load may not have arrived, or nobody has begun to load it."""
        loads = self._flights.pop().loads
        self.kv_cache_manager.step_ended(output.num_scheduled_tokens)
        self._take_back(loads)
        self._put_back(output)
        super().fail_step(output)


def go_back(
    kv: TransferKVCacheManager, requests: Iterable[Request], invalid: Collection[int]
) -> list[Request]:
    """Requests with an invalid block among those of their computed tokens, which end before it
    now. What lies behind it cannot be found.

    In vLLM 0.33.0 the first of requests that share such a block computes it, and the other
    ones do not wait for that.
    """
    marked, affected = set[int](), []
    recomputes = kv.kv_load_failure_policy != "fail"
    for request in requests if invalid else ():
        num_blocks = -(-request.num_computed_tokens // kv.block_size)
        table = kv.get_block_ids(request.request_id)[:num_blocks]
        bad = [i for i, block_id in enumerate(table) if block_id in invalid]
        own = [i for i in bad if table[i] not in marked or not kv.keeps_failed_names]
        if bad:
            affected.append(request)
            marked.update(table[i] for i in bad)
        if own:
            request.num_computed_tokens = own[0] * kv.block_size
            is_named = request.status is RequestStatus.RUNNING
            if is_named and not (recomputes and kv.keeps_failed_names):
                kv.forget_names(request, own[0])
    return affected


def with_transfers(base: type[SchedulerInterface]) -> type[TransferScheduler]:
    """The scheduler `base`, whose requests load from another engine.

    Raises InvalidParameterError for one that shares too little with V1.
    """
    if not issubclass(base, Scheduler):
        raise InvalidParameterError(
            f"a KV transfer needs a scheduler that decides as Scheduler does, got {base.__name__}"
        )
    between = () if base is Scheduler else (base,)
    return type(f"Transfer{base.__name__}", (TransferScheduler, *between, LateVictims), {})
