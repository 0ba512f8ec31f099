"""The groups of layers of recorded traces of vLLM, and what vLLM keeps of them that nobody finds."""

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.observe.trace import Record
from mini_vllm.offload.hybrid.groups import ChunkedLocal, FullAttention, IsCached, SlidingWindow
from mini_vllm.offload.hybrid.lookup import AgreedHit, Family
from mini_vllm.offload.hybrid.manager import HybridKVCacheManager
from mini_vllm.request import Request, RequestStatus
from mini_vllm.spec_decode.kv_cache import KVCacheManager as LookaheadManager

KINDS = {"full": FullAttention, "sliding": SlidingWindow, "chunked": ChunkedLocal}


def has_groups(config: Record) -> bool:
    """Whether a trace is of other groups of layers than one that sees all."""
    one = {"kind": "full", "block_size": config["block_size"]}
    return bool(config.get("groups", [one]) != [one])


def with_kinds(config: Record) -> Record:
    """The options of a trace as ours: its groups are objects."""
    groups = tuple(
        KINDS[each["kind"]](*(each[name] for name in ("block_size", "window", "chunk") if name in each))
        for each in config["groups"]
    )
    spec = config.get("spec") or {}
    flagged = [group for group, each in enumerate(config["groups"]) if each.get("eagle")]
    return config | {
        "groups": groups,
        "prefix_cache_retention_interval": config.get("retention", 0),
        "eagle_groups": tuple(flagged or range(len(groups))) if spec.get("eagle_block_drop") else (),
        "eagle_names": bool(spec.get("hash_lookahead")),
    }


@dataclass(frozen=True, slots=True)
class DroppingWindow(SlidingWindow):
    """A window whose hit is a block longer than it needs, and loses that block again."""

    def is_kept(self, block: int, segment: int, ends: Sequence[int]) -> bool:
        size, need = self.block_size, self.num_needed + 1
        num_blocks = segment // size
        if segment and (need >= num_blocks or (block and (block - 1) % num_blocks >= num_blocks - need)):
            return True
        return any(end // size + 1 - need <= block <= end // size for end in ends)

    def find_longest_hit(self, is_cached: IsCached, num_tokens: int, alignment: int) -> tuple[int, int]:
        size, run, first, end = self.block_size, 0, 0, 0
        for i in range(num_tokens // size - 1, -1, -1):
            if not is_cached(i):
                run = 0
            elif run or i * size % alignment == 0:
                run += 1
                first, end = i, i + run
                if run > self.num_needed:
                    break
        else:
            first, end = 0, run * size // alignment * alignment // size
        return first, max(end - 1, 0) * size // alignment * alignment


@dataclass(eq=False, repr=False, kw_only=True)
class RecordedGroups(HybridKVCacheManager, LookaheadManager):
    """Groups with lookahead slots, drafts of EAGLE, and names that vLLM counts though nobody finds them.

    Such a name is that of the end of a prompt inside a large block. Layers with a state alone find it, which no trace
    has. Source: _cache_partial_tail_block in vllm/v1/core/single_type_kv_cache_manager.py.
    """

    eagle_groups: tuple[int, ...] = ()
    """Groups that leave out the last block of a hit; of equal groups all do if one does."""
    eagle_names: bool = False
    """A block is named by one token more than it holds."""
    num_slots = LookaheadManager.num_slots

    def __post_init__(self) -> None:
        self.dropping = {self.groups[group] for group in self.eagle_groups}
        self.groups = tuple(self._dropping(kind) for kind in self.groups)
        self.dropping = set(map(self._dropping, self.dropping))
        super().__post_init__()
        # by group, name and block
        self._partial: dict[tuple[int, Hashable, int], tuple[KVCacheBlock, Hashable]] = {}

    def _dropping(self, kind: FullAttention) -> FullAttention:
        if kind in self.dropping and type(kind) is SlidingWindow:
            return DroppingWindow(kind.block_size, kind.window)
        return kind

    @property
    def num_cached_blocks(self) -> int:
        living = {name for name, (block, whole) in self._partial.items() if block.block_hash == whole}
        return super().num_cached_blocks + len({(group, name) for group, name, _ in living})

    def free(self, request: Request) -> None:
        if self.eagle_names and request.is_finished and request.status is not RequestStatus.FINISHED_ABORTED:
            self.cache_blocks(request)
        super().free(request)

    def _block_hashes(self, request: Request) -> list[Hashable]:
        if not self.eagle_names:
            return super()._block_hashes(request)
        hashes, size = request.block_hashes, self.hash_block_size
        for i in range(len(hashes), (request.num_tokens - 1) // size):
            token_ids = tuple(request.all_token_ids[i * size : (i + 1) * size + 1])
            parent = hashes[-1] if hashes else None
            hashes.append(self._hash_block(parent, token_ids, None if hashes else request.cache_salt))
        return hashes

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[Any] = ()
    ) -> list[KVCacheBlock] | None:
        if self.eagle_names or self.dropping:  # a block may get its name a token later
            self._unchanged.clear()
        return super().allocate_slots(request, num_new_tokens, computed_blocks)

    def _find_agreed_hit(self, is_cached: Callable[[Family], IsCached], num_tokens: int) -> AgreedHit:
        if not self.dropping:
            return super()._find_agreed_hit(is_cached, num_tokens)
        return find_dropping_hit(self.families, self.dropping, is_cached, num_tokens, self.block_size)

    def _num_cacheable(self, kind: FullAttention, num_tokens: int) -> int:
        rounded = super()._num_cacheable(kind, num_tokens)
        return min(num_tokens, rounded + kind.block_size) if rounded and kind in self.dropping else rounded

    def _expected_ends(self, request: Request, kind: FullAttention) -> list[int]:
        if not self.dropping:
            return super()._expected_ends(request, kind)
        size, num_prompt = self.block_size, request.num_prompt_tokens
        ends = [max(n // size * size - size, 0) for n in (num_prompt - 1, num_prompt)]
        if junction := self._junctions.get(request.request_id, 0):
            ends += [junction, junction - kind.block_size] if kind in self.dropping else [junction]
        return [end // size * size for end in ends]

    def _publish(self, request: Request, num_tokens: int) -> None:
        super()._publish(request, num_tokens)
        if self.enable_prefix_caching:
            for group, kind in enumerate(self.groups):
                if type(kind) is FullAttention:
                    self._name_end_of_prompt(request, num_tokens, group)

    def _name_end_of_prompt(self, request: Request, num_tokens: int, group: int) -> None:
        kind, size, hashes = self.groups[group], self.hash_block_size, request.block_hashes
        num_prompt = request.num_prompt_tokens - (kind not in self.dropping)
        at = min(num_prompt // size, len(hashes)) * size
        table = self._group_tables[request.request_id][group]
        end = min(self._num_cacheable(kind, min(num_tokens, request.num_tokens)), len(table) * kind.block_size)
        if 0 < at <= end and at % kind.block_size:
            block = table[at // kind.block_size]
            self._partial[group, hashes[at // size - 1], block.block_id] = block, block.block_hash


def find_dropping_hit(
    families: Sequence[Family],
    dropping: Collection[FullAttention],
    is_cached: Callable[[Family], IsCached],
    num_tokens: int,
    alignment: int,
) -> AgreedHit:
    """The same as find_agreed_hit(), where some families find a block more than they may use.

    A family that drops one does so once for each limit, until another family has lowered it.
    """
    most, longest, verified = num_tokens, 0, set[FullAttention]()
    firsts: dict[FullAttention, int] = {}
    full_hits: dict[FullAttention, int] = {}
    while True:
        before = num_tokens
        for family in families:
            kind = family[0]
            if kind in full_hits:
                num_tokens = min(num_tokens, full_hits[kind])
                continue
            drops, limit = kind in dropping and kind not in verified, num_tokens
            if drops and len(families) > 1:
                limit = min(num_tokens + kind.block_size, (most + 1) // kind.block_size * kind.block_size)
            asked = kind
            if isinstance(kind, DroppingWindow) and not drops:
                asked = SlidingWindow(kind.block_size, kind.window)
            first, found = asked.find_longest_hit(is_cached(family), limit, alignment)
            if drops and type(kind) is FullAttention:
                _, found = kind.find_longest_hit(is_cached(family), limit, kind.block_size)
                found = max(found - kind.block_size, 0) // alignment * alignment
            if drops:
                verified.add(kind)
            elif found < num_tokens:
                verified.clear()
            firsts[kind], num_tokens = first, found
            longest = max(longest, num_tokens)
            if type(kind) is FullAttention:
                full_hits[kind] = num_tokens
        is_simple = len(families) == 2 and type(families[0][0]) is FullAttention
        if num_tokens >= before or is_simple or len(families) == 1:
            return AgreedHit(num_tokens, longest, firsts)
