"""What a scheduler of transfers remembers of loads that have begun.

Source: _update_waiting_for_remote_kv and _inflight_prefill_reserved_blocks in
vllm/v1/core/sched/scheduler.py.
"""

from collections.abc import Iterable
from typing import NamedTuple

from mini_vllm.offload.hybrid.manager import Reservation
from mini_vllm.offload.transfer.queues import TwoQueues
from mini_vllm.request import Request


class Load(NamedTuple):
    """Tokens [start, start + num_tokens) of a request, which a step begins to load."""

    request: Request
    start: int
    num_tokens: int


class Loads(TwoQueues):
    """A request with an async load holds blocks, and waits."""

    num_speculative_tokens = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._waits_for_load: set[Request] = set()
        self._failed_loads: set[Request] = set()  # of these, those with less than they should have
        self._one_token_loads: set[Request] = set()  # all there is has been loaded
        self._prefills: set[Request] = set()  # they will need more blocks to get through
        self._loads: list[Load] = []  # that the coming step begins

    def holds_blocks(self, request: Request) -> bool:
        return bool(request.num_computed_tokens) or request in self._waits_for_load

    def finish_request(self, request_id: str, reason: str) -> Request | None:
        finished = super().finish_request(request_id, reason)
        if finished is not None:
            self._forget_loads(finished)
        return finished

    def _forget_loads(self, request: Request) -> None:
        for each in (
            self._waits_for_load,
            self._failed_loads,
            self._one_token_loads,
            self._prefills,
        ):
            each.discard(request)

    def _promote(self, request: Request) -> None:
        """The load has ended: what has arrived gets its names. Of a whole load the last token is
        computed again, since its logits are needed.
        """
        kv = self.kv_cache_manager
        self._waits_for_load.remove(request)
        if request.num_computed_tokens:
            kv.cache_blocks(request)
        else:  # nothing has arrived
            kv.begin_again(request)
        self._failed_loads.discard(request)
        if request.num_computed_tokens == request.num_tokens:
            request.num_computed_tokens -= 1
            if not request.num_computed_tokens:
                self._one_token_loads.add(request)

    def _take_back(self, loads: Iterable[Load]) -> None:
        """The step that was to begin them has failed. Requests that wait for one begin again."""
        kv = self.kv_cache_manager
        for request, start, num_tokens in loads:
            if request.request_id in kv.loading:
                self._forget_loads(request)
                kv.take_back(request)
                if not request.is_finished:
                    self._pass_over(request)
            else:  # it was to be there before the step computes, and is published
                now, request.num_computed_tokens = request.num_computed_tokens, start
                kv.withdraw(request, num_tokens)
                request.num_computed_tokens = now

    def _num_reserved_blocks(self) -> int:
        """Blocks that prefills on their way still need, and what one request needs for its
        drafts.
        """
        kv, k = self.kv_cache_manager, self.num_speculative_tokens
        num_ahead = 1 + k + getattr(kv, "num_lookahead_tokens", 0) if k else 0
        return sum(-(-num_ahead // size) for size in kv.block_sizes) + sum(
            kv.num_blocks_needed(each, Reservation(each.at_most(each.num_tokens) + num_ahead, 0))
            for each in self._prefills
        )

    def _tell_connector(self, request: Request, num_local: int, num_external: int) -> None:
        kv = self.kv_cache_manager
        if num_external:
            self._loads.append(Load(request, num_local, num_external))
        tables = kv.get_block_tables(request.request_id, (0,) * len(kv.block_sizes))
        kv.connector.update_state_after_alloc(request, tables, num_external)
