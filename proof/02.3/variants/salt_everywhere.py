"""The salt goes into every name, and a while loop counts tokens instead of blocks."""

from collections.abc import Hashable
from itertools import takewhile

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.kv_cache import KVCacheManager as ReferenceKVCacheManager
from mini_vllm.request import Request


class KVCacheManager(ReferenceKVCacheManager):
    """What is not defined here is the reference's."""

    def _block_hashes(self, request: Request) -> list[Hashable]:
        names = request.block_hashes
        parent = names[-1] if names else None
        end = (len(names) + 1) * self.block_size
        while end <= len(request.all_token_ids):
            parent = self._hash_block(
                parent, tuple(request.all_token_ids[end - self.block_size : end]), request.cache_salt
            )
            names.append(parent)
            end += self.block_size
        return names

    def get_computed_blocks(self, request: Request) -> tuple[list[KVCacheBlock], int]:
        hits: list[KVCacheBlock] = []
        if not self.enable_prefix_caching:
            return hits, 0
        for name in self._block_hashes(request):
            if (len(hits) + 1) * self.block_size >= request.num_tokens:
                break
            block = self.block_pool.get_cached_block(name)
            if block is None:
                break
            hits.append(block)
        return hits, len(hits) * self.block_size
