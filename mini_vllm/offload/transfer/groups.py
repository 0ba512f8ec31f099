"""Transfers where layers are in groups: a window needs only the end of what is loaded."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.offload.hybrid.manager import HybridKVCacheManager
from mini_vllm.offload.hybrid.pool import BlockPoolOfGroup
from mini_vllm.offload.hybrid.tables import drop_skipped
from mini_vllm.offload.transfer.connector import KVTransferError, TransferReport
from mini_vllm.offload.transfer.manager import TransferKVCacheManager
from mini_vllm.request import Request
from mini_vllm.step import BlockTable


@dataclass(eq=False, repr=False, kw_only=True)
class HybridTransferManager(TransferKVCacheManager, HybridKVCacheManager):
    """All groups hold their hits before one takes a block, and have blocks for what is loaded
    before one takes a block for what is computed.

    Source: allocate_new_computed_blocks of KVCacheCoordinator in
    vllm/v1/core/kv_cache_coordinator.py.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.pools = [BlockPoolOfGroup(self.block_pool, g) for g in range(len(self.groups))]

    @property
    def block_sizes(self) -> Sequence[int]:
        return [kind.block_size for kind in self.groups]

    def _num_new_external(self) -> int:
        return 0

    def _num_hit_tokens(self, computed_blocks: Sequence[Any]) -> int:
        """So many tokens are behind the windows' next one.

        That is the last one of a whole load: vLLM 0.33.0 takes the one behind it, and then misses
        the oldest token that the last one sees.
        """
        return super()._num_hit_tokens(computed_blocks) + self._num_external - self._is_whole

    def _take_blocks(
        self, request: Request, num_slots: int, computed_blocks: Sequence[Any]
    ) -> list[KVCacheBlock] | None:
        if not self._num_external:
            return super()._take_blocks(request, num_slots, computed_blocks)
        if self.num_blocks_needed(request, num_slots, computed_blocks) > self.num_free_blocks:
            return None
        num_computed = self._num_hit_tokens(computed_blocks) + self._is_whole
        loaded = super()._take_blocks(request, num_computed, computed_blocks)
        rest = super()._take_blocks(request, num_slots, ())
        assert loaded is not None
        assert rest is not None
        return loaded + rest

    def _publish(self, request: Request, num_tokens: int) -> None:
        if not self._is_async:
            super()._publish(request, num_tokens)

    def _computed_tables(self, request: Request) -> tuple[BlockTable, ...]:
        """Without what lies behind the windows, which is free now."""
        name = request.request_id
        num_settled = request.num_computed_tokens + self._scheduled.get(name, 0)
        num_settled -= sum(step.get(name, 0) for step in self._in_flight)
        tables = self._group_tables.get(name, [])
        drop_skipped(self.groups, tables, num_settled, self.block_pool)
        return super()._computed_tables(request)

    def step_ended(self, num_scheduled_tokens: Any) -> TransferReport:
        """Raises KVTransferError for blocks that did not arrive: a connector has to name the
        requests here, since what a window has left behind cannot be computed again.
        """
        report = super().step_ended(num_scheduled_tokens)
        if report.invalid_block_ids:
            raise KVTransferError(
                f"blocks {list(report.invalid_block_ids)} were not loaded: with groups of layers "
                "a report must have the requests in failed_recving"
            )
        return report
