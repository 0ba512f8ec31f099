"""Which blocks a transfer holds: those that a load fills, and those that another engine reads.

Source: Scheduler._connector_finished, _free_request_blocks and _drain_deferred_frees in
vllm/v1/core/sched/scheduler.py; delay_cache_blocks of KVCacheManager.allocate_slots in
vllm/v1/core/kv_cache_manager.py.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import ClassVar

from mini_vllm.block_pool import BlockPool, KVCacheBlock
from mini_vllm.errors import InvalidParameterError, shown
from mini_vllm.kv_cache import PART, KVCacheManager
from mini_vllm.offload.transfer.connector import TransferConnector, TransferReport
from mini_vllm.request import Request
from mini_vllm.step import BlockTable, KVPlan, KVResult

POLICIES = ("fail", "recompute")
NOTHING = TransferReport()


class DeferringPool(BlockPool):
    """A BlockPool that can hand over the blocks of a table instead of freeing them."""

    def __init__(self, num_blocks: int) -> None:
        super().__init__(num_blocks)
        self._held_back: list[KVCacheBlock] | None = None

    @contextmanager
    def hold_back(self) -> Iterator[list[KVCacheBlock]]:
        """What is freed meanwhile stays held, and comes into the list."""
        blocks: list[KVCacheBlock] = []
        self._held_back = blocks
        try:
            yield blocks
        finally:
            self._held_back = None

    def free_blocks(self, table: Sequence[KVCacheBlock]) -> None:
        if self._held_back is None:
            super().free_blocks(table)
        else:
            self._held_back += table


@dataclass(eq=False, repr=False, kw_only=True)
class TransferKVCacheManager(KVCacheManager):
    """A request holds blocks from the beginning of its load on. They get names when it has ended.

    A step in flight may still write into the blocks of a request that ends. Where another engine
    could fill such a block meanwhile (defers_frees), it is free as soon as that step has ended.
    Raises InvalidParameterError for an unknown policy.
    """

    make_connector: ClassVar[Callable[[], TransferConnector]]

    connector: TransferConnector = field(default=None, metadata=PART)  # type: ignore[assignment]
    kv_load_failure_policy: str = "fail"
    """What a request does whose load has failed: "fail", or "recompute"."""
    defers_frees: bool = False
    keeps_failed_names: bool = False
    """vLLM 0.33.0 lets a block that is computed again be found meanwhile, which is wrong K and V
    for whoever finds it.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kv_load_failure_policy not in POLICIES:
            raise InvalidParameterError(
                f"kv_load_failure_policy must be one of {POLICIES}, got "
                f"{shown(self.kv_load_failure_policy)}"
            )
        self.connector = self.connector or type(self).make_connector()
        self.block_pool: DeferringPool = DeferringPool(self.num_blocks)
        self.loading: set[str] = set()
        """Requests whose async load has not ended, as far as reports have told."""
        self._kept: dict[str, Request] = {}  # they have ended, and a transfer needs their blocks
        # of the request that is being admitted
        self._num_external, self._is_async, self._is_whole = 0, False, False
        self._report = NOTHING
        self._scheduled: Mapping[str, int] = {}  # tokens of the newest step, until it ends
        self._num_steps = self._num_ended = 0  # with tokens
        self._last_steps: dict[str, int] = {}  # by request
        self._deferred: deque[tuple[int, list[KVCacheBlock]]] = deque()  # with the step to wait for

    @property
    def block_sizes(self) -> Sequence[int]:
        """Of each group of layers."""
        return (self.block_size,)

    @property
    def kept_req_ids(self) -> Sequence[str]:
        """Requests that have ended, and whose blocks a transfer holds."""
        return list(self._kept)

    # --- admission --------------------------------------------------------------------------------

    @contextmanager
    def external(
        self, num_tokens: int, is_async: bool = False, is_whole: bool = False
    ) -> Iterator[None]:
        """The request that is being admitted gets blocks for so many tokens more, which are loaded
        behind its hits.

        An async load comes without lookahead, and its blocks get no names yet. is_whole: it has all
        tokens, and the last one will be computed again.
        """
        self._num_external, self._is_async, self._is_whole = num_tokens, is_async, is_whole
        try:
            yield
        finally:
            self._num_external, self._is_async, self._is_whole = 0, False, False

    def num_external_tokens(self, request: Request) -> int:
        return self._num_external

    def num_slots(self, request: Request, num_tokens: int) -> int:
        """As a manager with lookahead has it."""
        above = getattr(super(), "num_slots", None)
        return num_tokens if above is None or self._is_async else int(above(request, num_tokens))

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        num_new_tokens += self._num_new_external()
        return super().allocate_slots(request, num_new_tokens, computed_blocks)

    def _num_new_external(self) -> int:
        """External tokens that count as new ones, and not as hits."""
        return self._num_external

    def _cache_blocks(self, request: Request, start: int, end: int) -> None:
        """A block that is computed once more has its name already."""
        if self._is_async:
            self._num_published[request.request_id] = start
            return
        request_id, hashes = request.request_id, self._block_hashes(request)
        table, start = self._tables[request_id], self._num_published.pop(request_id, start)
        for i in range(start, min(end, len(hashes))):
            if table[i].block_hash is None:
                self.block_pool.cache_block(table[i], hashes[i])
        if end > len(hashes):
            self._num_published[request_id] = max(start, len(hashes))

    # --- the end of a request ---------------------------------------------------------------------

    def free(self, request: Request) -> None:
        """Ask the connector about a request that has ended: its blocks may have to stay."""
        name = request.request_id
        if request.is_finished:
            keeps = self.connector.request_finished(request, self._computed_tables(request))
            if keeps or name in self.loading:
                self._kept[name] = request
                return
        self._release(request)

    def _computed_tables(self, request: Request) -> tuple[BlockTable, ...]:
        """The blocks of the tokens that are computed, or are about to be."""
        name = request.request_id
        num_computed = request.num_computed_tokens + self._scheduled.get(name, 0)
        tables = self.get_block_tables(name, (0,) * len(self.block_sizes))
        return tuple(
            table[: -(-num_computed // size)]
            for table, size in zip(tables, self.block_sizes, strict=True)
        )

    def _release(self, request: Request) -> None:
        if not self.is_in_flight(request):
            super().free(request)
        else:
            with self.block_pool.hold_back() as blocks:
                super().free(request)
            if blocks:
                self._deferred.append((self._num_steps, blocks))
        self._last_steps.pop(request.request_id, None)

    def is_in_flight(self, request: Request) -> bool:
        """Whether a step that has not ended writes into its blocks, and a load might, too."""
        return self._last_steps.get(request.request_id, 0) > self._num_ended

    def forget_names(self, request: Request, start: int) -> None:
        """The blocks of a request from `start` on are not what their names say."""
        for block in self._tables[request.request_id][start:]:
            self.block_pool.uncache_block(block)

    # --- steps ------------------------------------------------------------------------------------

    def step_decided(self, num_scheduled_tokens: Mapping[str, int]) -> None:
        """The scheduler has decided a step, by request."""
        self._scheduled = num_scheduled_tokens
        if self.defers_frees and num_scheduled_tokens:
            self._num_steps += 1
            self._last_steps.update(dict.fromkeys(num_scheduled_tokens, self._num_steps))

    def step_ended(self, num_scheduled_tokens: Mapping[str, int]) -> TransferReport:
        """The oldest step is over: blocks that waited for it are free. Returns its report."""
        if self._scheduled is num_scheduled_tokens:
            self._scheduled = {}
        if self.defers_frees and num_scheduled_tokens:
            self._num_ended += 1
            while self._deferred and self._deferred[0][0] <= self._num_ended:
                self.block_pool.free_blocks(self._deferred.popleft()[1])
        report, self._report = self._report, NOTHING
        return report

    def take_back(self, request: Request) -> None:
        """The step that was to begin its load has failed, so nobody reports on it."""
        if request.is_finished:
            self.take_in(TransferReport(finished_recving=[request.request_id]))
        else:
            self.loading.discard(request.request_id)
            self.begin_again(request)

    def begin_again(self, request: Request) -> None:
        """Nothing has been loaded. The request has no blocks, and what it found keeps its name."""
        request.num_computed_tokens = request.num_tokens
        self.free(request)
        request.num_computed_tokens = 0

    def take_in(self, report: TransferReport) -> None:
        """Transfers have ended. A name that no transfer has is passed over."""
        for name in (*report.finished_recving, *report.finished_sending):
            self.loading.discard(name)
            if (request := self._kept.pop(name, None)) is not None:
                self._release(request)

    def begin_step(self) -> KVPlan:
        plan, meta = super().begin_step(), self.connector.build_connector_meta(self._scheduled)
        return plan if meta is None else replace(plan, connector=meta)

    def end_step(self, result: KVResult | None) -> None:
        super().end_step(result)
        if result is not None and isinstance(result.connector, TransferReport):
            self._report = result.connector
