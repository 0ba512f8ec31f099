"""Preemption by swap with several groups of layers.

A victim's blocks go out of every group, less those that a window has left, into one pool of main
memory: a block has the same bytes in each group. When it comes back, its tables begin with null
blocks where they had them. vLLM V1 has no swap; offload/manager.py says why, and what it is here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.errors import InvalidParameterError, shown
from mini_vllm.offload.cost import PreemptionCost
from mini_vllm.offload.host_memory import HostMemoryConnector
from mini_vllm.offload.hybrid.manager import HybridKVCacheManager
from mini_vllm.request import Request
from mini_vllm.step import KVPlan, KVResult


class Swapped(list[list[KVCacheBlock]]):
    """In place of hits: the null blocks with which the tables of a request begin that comes back,
    by group, and how many of its tokens come.
    """

    def __init__(self, tables: Sequence[list[KVCacheBlock]], num_tokens: int) -> None:
        super().__init__(tables)
        self.num_tokens = num_tokens


@dataclass(eq=False, repr=False, kw_only=True)
class SwappingHybridKVCacheManager(HybridKVCacheManager):
    """A HybridKVCacheManager whose preempted requests are kept in main memory.

    A request that comes back takes blocks of its own for all that was kept, unless the prefix cache
    has more. Raises InvalidParameterError for another mode, or a pool of less than 0 blocks.
    """

    modes: ClassVar[Sequence[str]] = ("swap", "cheaper")
    """What preemption_mode may be, as in OffloadingKVCacheManager."""

    preemption_mode: str = "swap"
    num_cpu_blocks: int = 0
    preemption_cost: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.preemption_mode not in self.modes:
            raise InvalidParameterError(
                f"preemption_mode must be {' or '.join(map(repr, self.modes))} here, got "
                f"{shown(self.preemption_mode)}"
            )
        self.cost = PreemptionCost(**(self.preemption_cost or {}))
        self.connector = HostMemoryConnector(self.num_cpu_blocks)
        self._loads: dict[str, tuple[Request, int]] = {}  # of the coming step: tokens that come

    def get_computed_blocks(self, request: Request) -> tuple[list[Any], int]:
        """The hits of all groups, or what was swapped out, if that is more."""
        hits, num_hit = super().get_computed_blocks(request)
        more = self.connector.get_num_new_matched_tokens(request, num_hit).num_tokens
        if not more:
            return hits, num_hit
        null, num_tokens = self.block_pool.null_block, num_hit + more
        starts = [kind.num_skipped_blocks(num_tokens) for kind in self.groups]
        return Swapped([[null] * start for start in starts], num_tokens), num_tokens

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[Any] = ()
    ) -> list[KVCacheBlock] | None:
        """On admission, what was swapped out is to be copied into the new blocks."""
        is_running = request.request_id in self._group_tables
        new_blocks = super().allocate_slots(request, num_new_tokens, computed_blocks)
        if new_blocks is not None and not is_running:
            come_back = isinstance(computed_blocks, Swapped)
            num_tokens = self._num_hit_tokens(computed_blocks) if come_back else 0
            self.connector.load(request, self._seen_blocks(request, num_tokens), 0)
            if num_tokens:
                self._loads[request.request_id] = request, num_tokens
        return new_blocks

    def free(self, request: Request) -> None:
        """Keep what a preempted request has computed, if that is the cheaper way; what has ended is
        forgotten.
        """
        num_tokens = request.num_computed_tokens
        if request.is_finished:
            self.connector.request_finished(request)
        elif num_tokens and (
            self.preemption_mode == "swap" or self.cost.swap_is_cheaper(num_tokens)
        ):
            self.connector.save(request, self._seen_blocks(request, num_tokens))
        super().free(request)

    def num_external_tokens(self, request: Request) -> int:
        return self._loads.get(request.request_id, (request, 0))[1]

    def begin_step(self) -> KVPlan:
        super().begin_step()
        return self.connector.begin_step()

    def end_step(self, result: KVResult | None) -> None:
        """What a failed step was to bring in was published, and whether it arrived is unknown."""
        super().end_step(result)
        self.connector.end_step(result)
        if result is None:
            for request, num_tokens in self._loads.values():
                for kind, pool in zip(self.groups, self.pools, strict=True):
                    step = kind.block_size // self.hash_block_size
                    ends = range(step - 1, num_tokens // self.hash_block_size, step)
                    for block_hash in request.block_hashes[ends.start : ends.stop : step]:
                        pool.uncache_hash(block_hash)
        self._loads.clear()

    def exchange_notes(self, notes: Any) -> Any:
        loads, of_connector = notes or ({}, None)
        present = self._loads, self.connector.exchange_notes(of_connector)
        self._loads = loads
        return present

    def _num_hit_tokens(self, computed_blocks: Sequence[Any]) -> int:
        if isinstance(computed_blocks, Swapped):
            return computed_blocks.num_tokens
        return super()._num_hit_tokens(computed_blocks)

    def _seen_blocks(self, request: Request, num_tokens: int) -> list[int]:
        """The blocks of all groups that hold what the token behind the first num_tokens sees."""
        tables = self.get_block_tables(request.request_id)
        block_ids: list[int] = []
        for kind, table in zip(self.groups, tables, strict=True):
            end = -(-num_tokens // kind.block_size)
            block_ids += table[kind.num_skipped_blocks(num_tokens) : end]
        return block_ids
