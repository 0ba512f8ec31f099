"""Names are made lazily: a look-up names no block behind the first one that is missing, and the list grows as it is asked."""

from collections.abc import Hashable, Iterator
from itertools import islice

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.kv_cache import KVCacheManager as ReferenceKVCacheManager
from mini_vllm.request import Request


class KVCacheManager(ReferenceKVCacheManager):
    def _names(self, request: Request) -> Iterator[Hashable]:
        size, names = self.block_size, request.block_hashes
        for start in range(0, request.num_tokens - size + 1, size):
            if start // size == len(names):
                parent, salt = (names[-1], None) if names else (None, request.cache_salt)
                names.append(self._hash_block(parent, tuple(request.all_token_ids[start : start + size]), salt))
            yield names[start // size]

    def _block_hashes(self, request: Request) -> list[Hashable]:
        return list(self._names(request))

    def get_computed_blocks(self, request: Request) -> tuple[list[KVCacheBlock], int]:
        hits: list[KVCacheBlock] = []
        if self.enable_prefix_caching:
            for name in islice(self._names(request), (request.num_tokens - 1) // self.block_size):
                if (block := self.block_pool.get_cached_block(name)) is None:
                    break
                hits.append(block)
        return hits, self.block_size * len(hits)
