"""Tiers with several groups of layers: what goes down and comes up are blocks of one group.

The name of a block has its group. A hit is what all groups find, each block on the device or in
main memory, so a window needs only the end of it. What a window has left goes down if it was worth
being found again, as with several groups in vLLM. Source: OffloadingConnectorScheduler in
vllm/distributed/kv_transfer/kv_connector/v1/offloading/scheduler.py.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

from mini_vllm.block_pool import BlockPool, KVCacheBlock
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.offload.hybrid.groups import IsCached
from mini_vllm.offload.hybrid.lookup import AgreedHit, Family
from mini_vllm.offload.hybrid.manager import HybridKVCacheManager
from mini_vllm.offload.hybrid.pool import BlockPoolOfGroup
from mini_vllm.offload.hybrid.swap.arriving import Arriving, places_of
from mini_vllm.offload.manager import Load
from mini_vllm.offload.tiers.manager import TieredKVCacheManager
from mini_vllm.offload.tiers.work import LookupResult, Name
from mini_vllm.request import Request


def grouped(manager_cls: Any) -> type[KVCacheManager]:
    """A manager that tiered() has made, with groups, if it may have them."""
    if not getattr(manager_cls, "may_have_groups", False):
        return manager_cls  # type: ignore[no-any-return]
    made = {"make_connector": staticmethod(manager_cls.make_connector)}
    return type(TieredHybridKVCacheManager.__name__, (TieredHybridKVCacheManager,), made)


class TieredPoolOfGroup(BlockPoolOfGroup):
    """Its names outlive the process, as files do. publish: is told of each block that gets one."""

    def __init__(
        self, pool: BlockPool, group: int, publish: Callable[[Sequence[KVCacheBlock]], None]
    ) -> None:
        super().__init__(pool, group)
        self._tag, self._publish = group.to_bytes(4, "big"), publish

    def name(self, block_hash: Any) -> Name:
        return sha256(b"group:" + self._tag + block_hash).digest()

    def cache_block(self, block: KVCacheBlock, block_hash: Any) -> None:
        super().cache_block(block, block_hash)
        self._publish([block])


class InLine:
    """A request as the tiers see it: the blocks of all groups that it is about, in one line, and a
    token behind them.
    """

    def __init__(
        self, request_id: str, names: Callable[[], Sequence[Name]], block_size: int
    ) -> None:
        self.request_id = request_id
        self._names, self._block_size = names, block_size

    @cached_property
    def block_hashes(self) -> Sequence[Name]:
        return self._names()

    @property
    def num_tokens(self) -> int:
        return len(self.block_hashes) * self._block_size + 1


@dataclass(eq=False, repr=False, kw_only=True)
class TieredHybridKVCacheManager(TieredKVCacheManager, HybridKVCacheManager):
    """A TieredKVCacheManager with groups. A request that is admitted holds what the device has of
    the hit, up to the first block of each group that it has not, and loads the rest.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.pools: list[TieredPoolOfGroup] = [  # type: ignore[assignment]
            TieredPoolOfGroup(self.block_pool, g, self.connector.publish)
            for g in range(len(self.groups))
        ]

    def get_computed_blocks(self, request: Request) -> tuple[list[Any], int]:
        """The hits of all groups on the device, or on it and in main memory, if that is more."""
        hits, num_hit = HybridKVCacheManager.get_computed_blocks(self, request)
        hit = self._agree(request, num_hit, {LookupResult.HIT})
        if hit.num_tokens <= num_hit:
            return hits, num_hit
        tables = []
        for kind, found in zip(self.groups, hits or [[]] * len(self.groups), strict=True):
            first = min(hit.firsts[kind], hit.num_tokens // kind.block_size)
            tables.append([self.block_pool.null_block] * first + found[first:])
        return Arriving(tables, hit.num_tokens), hit.num_tokens

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[Any] = ()
    ) -> list[KVCacheBlock] | None:
        """On admission, what main memory has is to be copied into the new blocks."""
        is_running = request.request_id in self._group_tables
        new_blocks = HybridKVCacheManager.allocate_slots(
            self, request, num_new_tokens, computed_blocks
        )
        if new_blocks is not None and not is_running:
            self._load(request, computed_blocks)
        return new_blocks

    def _load(self, request: Request, hits: Sequence[Any]) -> None:
        names: list[Name] = []
        block_ids: list[int] = []
        if isinstance(hits, Arriving):
            tables = self.get_block_tables(request.request_id)
            for g, kind in enumerate(self.groups):
                first = max(len(hits[g]), kind.num_skipped_blocks(hits.num_tokens))
                names += map(self.pools[g].name, self._hashes(request, g, first, hits))
                block_ids += tables[g][first : hits.num_tokens // kind.block_size]
            self._loads[request.request_id] = Load(request, 0, hits.num_tokens)
        self.connector.load(self._in_line(request, lambda: names), block_ids, 0)

    def is_ready(self, request: Request) -> bool:
        return self.connector.is_ready(self._in_line(request, lambda: self._wanted(request)), 0)

    def _in_line(self, request: Request, names: Callable[[], Sequence[Name]]) -> Any:
        return InLine(request.request_id, names, self.connector.block_size)

    def withdraw(self, request: Request, num_new_tokens: int) -> None:
        HybridKVCacheManager.withdraw(self, request, num_new_tokens)
        start = request.num_computed_tokens
        for kind, pool in zip(self.groups, self.pools, strict=True):
            places = places_of(kind, self.hash_block_size, start, start + num_new_tokens)
            self.connector.withdraw(map(pool.name, request.block_hashes[places]))

    def _uncache(self, request: Request, start: int, end: int) -> None:
        HybridKVCacheManager._uncache(self, request, start, end)

    def _agree(self, request: Request, num_hit: int, wanted: set[LookupResult]) -> AgreedHit:
        """The longest hit whose blocks are among the first num_hit tokens on the device, or of
        which the tiers say what is wanted. Behind those on the device all are in the tiers.
        """
        hashes, lookup = self._block_hashes(request), self.connector.lookup

        def is_cached(family: Family) -> IsCached:
            kind, members = family
            step = kind.block_size // self.hash_block_size
            pools = [self.pools[g] for g in members]

            def holds(i: int) -> bool:
                block_hash = hashes[(i + 1) * step - 1]
                if (i + 1) * kind.block_size <= num_hit:
                    return all(pool.get_cached_block(block_hash) for pool in pools)
                return all(lookup(pool.name(block_hash)) in wanted for pool in pools)

            return holds

        return self._find_agreed_hit(is_cached, request.num_tokens - 1)

    def _wanted(self, request: Request) -> list[Name]:
        """What a waiting request lacks on the device of the longest hit that any tier has."""
        _, num_hit = HybridKVCacheManager.get_computed_blocks(self, request)
        hit = self._agree(request, num_hit, {*LookupResult} - {LookupResult.MISS})
        return [
            pool.name(block_hash)
            for g, (kind, pool) in enumerate(zip(self.groups, self.pools, strict=True))
            for block_hash in self._hashes(
                request, g, max(hit.firsts[kind], num_hit // kind.block_size), hit
            )
        ]

    def _hashes(self, request: Request, group: int, first: int, hit: Any) -> list[Any]:
        """Of a group's blocks from the first-th on, up to the end of a hit."""
        kind = self.groups[group]
        start = first * kind.block_size
        return request.block_hashes[places_of(kind, self.hash_block_size, start, hit.num_tokens)]
