"""The pool of all groups of layers, with names of its own for each group."""

from collections.abc import Hashable

from mini_vllm.block_pool import BlockPool, KVCacheBlock


class BlockPoolOfGroup:
    """The pool as one of several groups of layers sees it: the same blocks, but names of its own.

    Equal tokens have other K and V in other layers, so a group finds only what it has published
    itself. Source: make_block_hash_with_group_id in vllm/v1/core/kv_cache_utils.py.
    """

    def __init__(self, pool: BlockPool, group: int) -> None:
        self._pool = pool
        self._group = group

    def name(self, block_hash: Hashable) -> Hashable:
        """What the pool calls a block of this content here."""
        return self._group, block_hash

    def get_cached_block(self, block_hash: Hashable) -> KVCacheBlock | None:
        return self._pool.get_cached_block(self.name(block_hash))

    def cache_block(self, block: KVCacheBlock, block_hash: Hashable) -> None:
        self._pool.cache_block(block, self.name(block_hash))

    def uncache_hash(self, block_hash: Hashable) -> None:
        self._pool.uncache_hash(self.name(block_hash))
