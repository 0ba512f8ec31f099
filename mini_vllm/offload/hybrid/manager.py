"""A KV cache manager with several groups of layers: one pool, and a block table for each group.

All groups take their blocks from one pool. A block is in use by one group at a time, and layer i of
every group keeps its keys and values in the same memory (worker/cache_engine.py). So a block has
the bytes of one group, and what a window has left behind is of use to any other group. In a table
the null block stands where a group needs nothing: positions never shift. Source:
KVCacheCoordinator in vllm/v1/core/kv_cache_coordinator.py, and SlidingWindowManager in
vllm/v1/core/single_type_kv_cache_manager.py.
"""

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import gcd, lcm
from typing import Any

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.errors import InvalidParameterError
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.offload.hybrid.groups import FullAttention, IsCached, group_of
from mini_vllm.offload.hybrid.layout import KVCacheLayout, strided_groups, tokens_alone
from mini_vllm.offload.hybrid.lookup import AgreedHit, Family, families_of, find_agreed_hit
from mini_vllm.offload.hybrid.pool import BlockPoolOfGroup
from mini_vllm.offload.hybrid.swap.arriving import num_tokens_of, places_of
from mini_vllm.offload.hybrid.tables import begin_tables, drop_skipped, next_change
from mini_vllm.offload.manager import OffloadingKVCacheManager
from mini_vllm.request import Request
from mini_vllm.step import BlockTable, KVPlan, KVResult, LayerKVSpec

MOST_COMMON = 4  # times the largest block of a group: how large a block of all groups may be


class Reservation(int):
    """All tokens of a request that is to be admitted if they fit at once. first: those behind its
    first step.
    """

    first: int

    def __new__(cls, num_tokens: int, first: int) -> "Reservation":
        made = super().__new__(cls, num_tokens)
        made.first = first
        return made


def check_sizes(
    groups: Sequence[FullAttention], block_size: int, retention_interval: int | None
) -> None:
    """Raise InvalidParameterError for sizes of blocks that do not go together."""
    sizes = [kind.block_size for kind in groups]
    if not sizes or block_size != lcm(*sizes):
        raise InvalidParameterError(
            "block_size must be the least common multiple of those of the groups, "
            f"{sizes}, got {block_size}"
        )
    if block_size > MOST_COMMON * max(sizes):
        raise InvalidParameterError(
            f"groups with blocks of {sizes} tokens have blocks of {block_size} in common, "
            f"more than {MOST_COMMON} times the largest"
        )
    if retention_interval is not None and (
        retention_interval < 0 or retention_interval % block_size
    ):
        raise InvalidParameterError(
            "prefix_cache_retention_interval must be None or a multiple of block_size "
            f"{block_size}, got {retention_interval}"
        )


@dataclass(eq=False, repr=False, kw_only=True)
class HybridKVCacheManager(KVCacheManager):
    """Owns for every request a block table for each group.

    block_size is the scheduler's: the least common multiple of the groups' block sizes. What the
    base class calls computed blocks is a list of blocks for each group, which no scheduler looks
    into. Raises InvalidParameterError for groups whose blocks have no good common size.
    """

    groups: tuple[FullAttention, ...]
    """What each group sees of the past."""
    max_num_batched_tokens: int
    """Most tokens of a step, which a window holds beside its own."""
    async_scheduling: bool = False
    """Whether two steps may be in flight."""
    prefix_cache_retention_interval: int | None = 0
    """Where blocks of a window can be found again: at the end of the prompt (0); also at each
    multiple of so many tokens; or everywhere (None).
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(self.groups, self.block_size, self.prefix_cache_retention_interval)
        sizes = [kind.block_size for kind in self.groups]
        self.num_in_flight = self.max_num_batched_tokens * (1 + self.async_scheduling)
        self.hash_block_size = gcd(*sizes) if self.enable_prefix_caching else self.block_size
        self.families = families_of(self.groups)
        self.pools = [BlockPoolOfGroup(self.block_pool, g) for g in range(len(sizes))]
        self._group_tables: dict[str, list[list[KVCacheBlock]]] = {}
        # by request and group: blocks that were published, or never will be
        self._num_considered: dict[str, list[int]] = {}
        # by request: where one group's hit ended behind the one that all agree on
        self._junctions: dict[str, int] = {}
        self._in_flight: deque[dict[str, int]] = deque()  # by step and request, its tokens
        self._coming: dict[str, int] = {}  # the same, of the step that is being decided
        self._unchanged: dict[str, tuple[int, int]] = {}  # by request, what next_change() said

    @classmethod
    def layer_groups(cls, kv_specs: Sequence[LayerKVSpec]) -> tuple[int, ...]:
        return strided_groups(kv_specs)

    def max_tokens_alone(self) -> int:
        return tokens_alone(self.groups, self.num_usable_blocks, self.num_in_flight)

    # --- tables -----------------------------------------------------------------------------------

    def get_block_ids(self, request_id: str) -> list[int]:
        """The block table of the request in the group that sees most."""
        return list(self.get_block_tables(request_id)[self.families[0][1][0]])

    def get_num_blocks(self, request_id: str) -> tuple[int, ...]:
        tables = self._group_tables.get(request_id)
        return tuple(map(len, tables)) if tables else (0,) * len(self.groups)

    def get_block_tables(
        self, request_id: str, num_known: Sequence[int] = ()
    ) -> tuple[BlockTable, ...]:
        tables = self._group_tables.get(request_id) or [[] for _ in self.groups]
        return tuple(
            tuple(block.block_id for block in table[n:])
            for table, n in zip(tables, num_known or (0,) * len(tables), strict=True)
        )

    # --- lookup -----------------------------------------------------------------------------------

    def get_computed_blocks(self, request: Request) -> tuple[list[Any], int]:
        """The longest hit that all groups have: its blocks by group, and how many tokens it has."""
        if not self.enable_prefix_caching:
            return [], 0
        hashes = self._block_hashes(request)

        def is_cached(family: Family) -> IsCached:
            kind, members = family
            step = kind.block_size // self.hash_block_size
            pools = [self.pools[g] for g in members]
            return lambda i: all(
                pool.get_cached_block(hashes[(i + 1) * step - 1]) for pool in pools
            )

        hit = self._find_agreed_hit(is_cached, request.num_tokens - 1)
        if len(self.groups) > 1:
            is_longer = hit.longest > hit.num_tokens
            self._junctions[request.request_id] = hit.longest if is_longer else 0
        if not hit.num_tokens:
            return [], 0
        blocks: list[list[Any]] = []
        for kind, pool in zip(self.groups, self.pools, strict=True):
            step, end = kind.block_size // self.hash_block_size, hit.num_tokens // kind.block_size
            first = min(hit.firsts[kind], end)
            nulls = [self.block_pool.null_block] * first
            found = [pool.get_cached_block(hashes[i * step + step - 1]) for i in range(first, end)]
            blocks.append([*nulls, *found])
        return blocks, hit.num_tokens

    def _find_agreed_hit(
        self, is_cached: Callable[[Family], IsCached], num_tokens: int
    ) -> AgreedHit:
        return find_agreed_hit(self.families, is_cached, num_tokens, self.block_size)

    # --- allocation -------------------------------------------------------------------------------

    def num_tokens_reserved(self, request: Request, num_tokens: int = 0) -> int:
        return Reservation(request.num_tokens, num_tokens)

    def num_blocks_needed(
        self, request: Request, num_tokens: int, computed_blocks: Sequence[Any] = ()
    ) -> int:
        """Of a reservation both what the first step needs and what all tokens do, of which a window
        holds at most its own and those of a step.
        """
        if not isinstance(num_tokens, Reservation):
            totals = [-(-num_tokens // kind.block_size) for kind in self.groups]
            return self._num_missing(request, totals, computed_blocks)
        totals = [kind.most_blocks(num_tokens, self.num_in_flight) for kind in self.groups]
        return max(
            self.num_blocks_needed(request, num_tokens.first, computed_blocks),
            self._num_missing(request, totals, computed_blocks),
        )

    def _num_missing(
        self, request: Request, totals: Sequence[int], computed_blocks: Sequence[Any]
    ) -> int:
        """The free blocks that it takes to have so many in each table, nulls included; hits that
        leave the free queue count.
        """
        num_computed = request.num_computed_tokens + self._num_hit_tokens(computed_blocks)
        lengths = self.get_num_blocks(request.request_id)
        num_missing = 0
        for g, (kind, total, length) in enumerate(zip(self.groups, totals, lengths, strict=True)):
            hits = computed_blocks[g] if computed_blocks else ()
            num_skipped = kind.num_skipped_blocks(num_computed)
            num_missing += max(total - max(num_skipped, len(hits) + length), 0)
            null = self.block_pool.null_block
            num_missing += sum(not b.ref_cnt for b in hits[num_skipped:] if b is not null)
        return num_missing

    def _num_hit_tokens(self, computed_blocks: Sequence[Any]) -> int:
        return num_tokens_of(self.groups, computed_blocks)

    def num_slots(self, request: Request, num_tokens: int) -> int:
        """How many slots a request of num_tokens tokens gets."""
        return num_tokens

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[Any] = ()
    ) -> list[KVCacheBlock] | None:
        """Give blocks behind the windows back, even if there is no room for the new tokens then;
        all groups hold their hits before one of them takes a new block.
        """
        request_id = request.request_id
        num_settled = request.num_computed_tokens + self._num_hit_tokens(computed_blocks)
        num_tokens = num_settled + num_new_tokens
        for step in self._in_flight:
            num_settled -= step.get(request_id, 0)
        num_slots = self.num_slots(request, num_tokens)
        most_settled, most_slots = self._unchanged.get(request_id, (0, 0))
        new_blocks: list[KVCacheBlock] | None = []  # most decodes change nothing in any group
        if num_settled >= most_settled or num_slots > most_slots:
            tables = self._group_tables.get(request_id, [])
            drop_skipped(self.groups, tables, num_settled, self.block_pool)
            new_blocks = self._take_blocks(request, num_slots, computed_blocks)
            if new_blocks is not None:
                self._publish(request, num_tokens)
                if num_tokens <= request.num_tokens:  # else drafts are published later
                    tables, size = self._group_tables[request_id], self.hash_block_size
                    change = next_change(self.groups, tables, num_settled, num_tokens, size)
                    self._unchanged[request_id] = change
        if new_blocks is not None:
            self._coming[request_id] = num_new_tokens
        return new_blocks

    def _take_blocks(
        self, request: Request, num_slots: int, computed_blocks: Sequence[Any]
    ) -> list[KVCacheBlock] | None:
        """The hits and new blocks, up to so many slots in each group; or None, with nothing
        changed.
        """
        pool, request_id = self.block_pool, request.request_id
        if self.num_blocks_needed(request, num_slots, computed_blocks) > pool.num_free_blocks:
            return None
        if request_id not in self._group_tables:
            num_hit_tokens = self._num_hit_tokens(computed_blocks)
            tables = begin_tables(self.groups, computed_blocks, num_hit_tokens, pool)
            self._group_tables[request_id] = tables
            self._num_considered[request_id] = list(map(len, tables))
        new_blocks = []
        for kind, table in zip(self.groups, self._group_tables[request_id], strict=True):
            num_missing = -(-num_slots // kind.block_size) - len(table)
            if num_missing > 0:
                table += (taken := pool.get_new_blocks(num_missing))
                new_blocks += taken
        return new_blocks

    def free(self, request: Request) -> None:
        request_id, null = request.request_id, self.block_pool.null_block
        self._junctions.pop(request_id, None)
        self._num_considered.pop(request_id, None)
        self._unchanged.pop(request_id, None)
        for step in (self._coming, *self._in_flight):
            step.pop(request_id, None)
        tables = self._group_tables.pop(request_id, [])
        for table in tables:
            self.block_pool.free_blocks([block for block in table if block is not null])
        if not request.is_finished:
            for kind, table in zip(self.groups, tables, strict=False):
                for block in table[request.num_computed_tokens // kind.block_size :]:
                    self.block_pool.uncache_block(block)

    def begin_step(self) -> KVPlan:
        self._in_flight.append(self._coming)
        self._coming = {}
        return super().begin_step()

    def end_step(self, result: KVResult | None) -> None:
        """Steps end in the order in which they were decided, and are undone in the opposite one."""
        if self._in_flight:
            self._in_flight.popleft() if result is not None else self._in_flight.pop()

    # --- names ------------------------------------------------------------------------------------

    def cache_blocks(self, request: Request, num_in_flight: int = 0, is_left: bool = False) -> None:
        if request.request_id in self._group_tables:
            self._publish(request, request.num_computed_tokens)

    def withdraw(self, request: Request, num_new_tokens: int) -> None:
        self._uncache(request, start := request.num_computed_tokens, start + num_new_tokens)

    def _uncache(self, request: Request, start: int, end: int) -> None:
        """No group finds tokens [start, end) of a request."""
        for kind, pool in zip(self.groups, self.pools, strict=True):
            places = places_of(kind, self.hash_block_size, start, end)
            for block_hash in request.block_hashes[places]:
                pool.uncache_hash(block_hash)

    def _publish(self, request: Request, num_tokens: int) -> None:
        """Let the blocks of the first num_tokens tokens be found that are worth it, each once."""
        if not self.enable_prefix_caching:
            return
        hashes, null = self._block_hashes(request), self.block_pool.null_block
        num_tokens = min(num_tokens, len(hashes) * self.hash_block_size)
        interval = self.prefix_cache_retention_interval
        segment = self.block_size if interval is None else interval
        considered = self._num_considered[request.request_id]
        tables = self._group_tables[request.request_id]
        for g, (kind, table) in enumerate(zip(self.groups, tables, strict=True)):
            start, end = considered[g], self._num_cacheable(kind, num_tokens) // kind.block_size
            if start >= end:
                continue
            ends, step = self._expected_ends(request, kind), kind.block_size // self.hash_block_size
            for i in range(start, end):
                if table[i] is not null and kind.is_kept(i, segment, ends):
                    self.pools[g].cache_block(table[i], hashes[i * step + step - 1])
            considered[g] = end

    def _block_hashes(self, request: Request) -> list[Hashable]:
        """One for each hash_block_size tokens. A group with larger blocks uses every n-th."""
        hashes, size = request.block_hashes, self.hash_block_size
        for i in range(len(hashes), request.num_tokens // size):
            token_ids = tuple(request.all_token_ids[i * size : (i + 1) * size])
            parent, salt = (hashes[-1], None) if hashes else (None, request.cache_salt)
            hashes.append(self._hash_block(parent, token_ids, salt))
        return hashes

    def _num_cacheable(self, kind: FullAttention, num_tokens: int) -> int:
        """So many of the first num_tokens tokens may be part of a hit of all groups."""
        return num_tokens // self.block_size * self.block_size

    def _expected_ends(self, request: Request, kind: FullAttention) -> list[int]:
        """Where hits are expected to end: at that of the same prompt, and where this one left what
        one group still had.
        """
        ends = request.num_prompt_tokens - 1, self._junctions.get(request.request_id, 0)
        return [end // self.block_size * self.block_size for end in ends]


def with_groups(
    manager_cls: type[KVCacheManager],
    kv_specs: tuple[LayerKVSpec, ...],
    block_size: int,
    num_batched_tokens: int,
) -> tuple[type[KVCacheManager], KVCacheLayout]:
    """The KV cache manager for a model of these layers, and how they lie in blocks: where a layer
    does not see all, the plain one gives way to the one that has groups.

    num_batched_tokens: most tokens of steps in flight. A manager that does more than the plain one
    keeps all blocks of all layers; where the layers differ, the ones that swap or have tiers have
    groups, too. Raises InvalidParameterError for another one that swaps, if they do.
    """
    kinds = dict.fromkeys(group_of(spec, block_size) for spec in kv_specs)
    differ = len(kinds) > 1
    if differ and manager_cls is OffloadingKVCacheManager:
        from mini_vllm.offload.hybrid.swap.manager import SwappingHybridKVCacheManager

        manager_cls = SwappingHybridKVCacheManager
    elif differ and issubclass(manager_cls, OffloadingKVCacheManager):
        from mini_vllm.offload.hybrid.tiers.manager import grouped

        if "recompute" not in manager_cls.modes:
            raise InvalidParameterError(
                f"{manager_cls.__name__} keeps blocks of one group, and the layers of this model "
                f"differ in what they see ({', '.join(map(str, kinds))})"
            )
        manager_cls = grouped(manager_cls)
    if manager_cls is KVCacheManager and {*map(type, kinds)} - {FullAttention}:
        manager_cls = HybridKVCacheManager
    layer_groups = manager_cls.layer_groups(kv_specs)
    return manager_cls, KVCacheLayout(kv_specs, block_size, num_batched_tokens, layer_groups)
