"""The groups of layers of recorded traces of vLLM, and what vLLM keeps of them that nobody finds."""

from collections.abc import Hashable
from dataclasses import dataclass

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.observe.trace import Record
from mini_vllm.offload.hybrid.groups import ChunkedLocal, FullAttention, SlidingWindow
from mini_vllm.offload.hybrid.manager import HybridKVCacheManager
from mini_vllm.request import Request
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
    return config | {"groups": groups, "prefix_cache_retention_interval": config.get("retention", 0)}


@dataclass(eq=False, repr=False, kw_only=True)
class RecordedGroups(HybridKVCacheManager, LookaheadManager):
    """Groups with lookahead slots, and the names that vLLM gives the end of a prompt inside a large block.

    Such a name is found by layers with a state alone, which no trace has, but it is counted. Source:
    _cache_partial_tail_block in vllm/v1/core/single_type_kv_cache_manager.py.
    """

    num_slots = LookaheadManager.num_slots

    def __post_init__(self) -> None:
        super().__post_init__()
        # by group, name and block
        self._partial: dict[tuple[int, Hashable, int], tuple[KVCacheBlock, Hashable]] = {}

    @property
    def num_cached_blocks(self) -> int:
        living = {name for name, (block, whole) in self._partial.items() if block.block_hash == whole}
        return super().num_cached_blocks + len({(group, name) for group, name, _ in living})

    def _publish(self, request: Request, num_tokens: int) -> None:
        super()._publish(request, num_tokens)
        size, hashes = self.hash_block_size, request.block_hashes
        at = min((request.num_prompt_tokens - 1) // size, len(hashes)) * size
        end = min(num_tokens, request.num_tokens) // self.block_size * self.block_size
        if not self.enable_prefix_caching or not 0 < at <= end:
            return
        tables = self._group_tables[request.request_id]
        for group, (kind, table) in enumerate(zip(self.groups, tables, strict=True)):
            if type(kind) is FullAttention and at % kind.block_size:
                block = table[at // kind.block_size]
                self._partial[group, hashes[at // size - 1], block.block_id] = block, block.block_hash
