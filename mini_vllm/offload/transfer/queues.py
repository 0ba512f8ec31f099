"""What a scheduler of transfers has beside V1's queue: a queue of those that hold blocks, and
victims that it may not take.

Source: kv_holding_waiting, skip_request and _request_blocks_can_be_freed in
vllm/v1/core/sched/scheduler.py.
"""

from abc import abstractmethod
from bisect import insort
from collections import deque
from collections.abc import Sequence

from mini_vllm.errors import DuplicateRequestError, shown
from mini_vllm.offload.transfer.manager import TransferKVCacheManager
from mini_vllm.request import FINISH_REASONS, Request
from mini_vllm.scheduler import Scheduler, SchedulerOutput, urgency


class NoVictimError(Exception):
    """A step in flight still writes into the blocks of the request that would give way."""


class LateVictims(Scheduler):
    """The innermost class: running requests get nothing more in this step if no victim may be
    taken.
    """

    def _schedule_running(
        self, requests: Sequence[Request], output: SchedulerOutput, token_budget: int
    ) -> int:
        before = output.total_num_scheduled_tokens
        try:
            return super()._schedule_running(requests, output, token_budget)
        except NoVictimError:
            return token_budget + before - output.total_num_scheduled_tokens


class TwoQueues(Scheduler):
    """Waiting requests that hold blocks come first."""

    kv_cache_manager: TransferKVCacheManager

    def __post_init__(self) -> None:
        super().__post_init__()
        self.holding: deque[Request] = deque()
        """Waiting requests that hold blocks, front first."""

    @abstractmethod
    def holds_blocks(self, request: Request) -> bool:
        """Whether a waiting request belongs to `holding`."""

    def _next_waiting(self) -> Request | None:
        return self.holding[0] if self.holding else super()._next_waiting()

    def _pass_over(self, request: Request) -> None:
        (self.holding if request in self.holding else self.waiting).remove(request)
        self._set_aside.append(request)

    def _put_back(self, output: SchedulerOutput) -> None:
        """What was passed over stands in front of the queue to which it belongs now."""
        for request in reversed(self._set_aside):
            queue = self.holding if self.holds_blocks(request) else self.waiting
            if self.policy == "priority":
                insort(queue, request, key=urgency)
            else:
                queue.appendleft(request)
            output.blocked[request.request_id] = "a part"
        self._set_aside = []

    def finish_request(self, request_id: str, reason: str) -> Request | None:
        request = self._requests.get(request_id)
        if request is not None and reason in FINISH_REASONS:
            self._to_waiting(request)
        return super().finish_request(request_id, reason)

    def _to_waiting(self, request: Request) -> None:
        """What is about to leave the queues is in `waiting`, where V1 looks for it."""
        if request in self.holding:
            self.holding.remove(request)
            self.waiting.appendleft(request)

    def has_unfinished_requests(self) -> bool:
        """Also while a transfer needs the blocks of one that has finished."""
        return super().has_unfinished_requests() or bool(self.kv_cache_manager.kept_req_ids)

    def _check_requests(self, requests: Sequence[Request]) -> None:
        for name in {each.request_id for each in requests} & {*self.kv_cache_manager.kept_req_ids}:
            raise DuplicateRequestError(f"request {shown(name)} is still being transferred")
        super()._check_requests(requests)

    def _pop_victim(self) -> Request:
        running, victim = list(self.running), super()._pop_victim()
        if self.kv_cache_manager.is_in_flight(victim):
            self.running = running
            raise NoVictimError
        return victim
