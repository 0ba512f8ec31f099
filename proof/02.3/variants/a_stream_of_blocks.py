"""Names come from a helper that makes one at a time; the hit is what a lazy stream gives until the first miss."""

from collections.abc import Hashable
from itertools import takewhile

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.kv_cache import KVCacheManager as ReferenceKVCacheManager
from mini_vllm.request import Request


class KVCacheManager(ReferenceKVCacheManager):
    """What is not defined here is the reference's."""

    def _next_name(self, request: Request) -> Hashable:
        start = len(request.block_hashes) * self.block_size
        token_ids = tuple(request.all_token_ids[start : start + self.block_size])
        if start == 0:
            return self._hash_block(None, token_ids, request.cache_salt)
        return self._hash_block(request.block_hashes[-1], token_ids, None)

    def _block_hashes(self, request: Request) -> list[Hashable]:
        while len(request.block_hashes) < request.num_tokens // self.block_size:
            request.block_hashes.append(self._next_name(request))
        return request.block_hashes

    def get_computed_blocks(self, request: Request) -> tuple[list[KVCacheBlock], int]:
        most = (request.num_tokens - 1) // self.block_size if self.enable_prefix_caching else 0
        names = self._block_hashes(request)[:most]
        found = list(takewhile(lambda block: block is not None, map(self.block_pool.get_cached_block, names)))
        return found, self.block_size * len(found)
