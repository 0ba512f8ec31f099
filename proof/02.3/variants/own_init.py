"""The class has an __init__ of its own, which counts the look-ups that follow."""

from collections.abc import Hashable

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.kv_cache import KVCacheManager as ReferenceKVCacheManager
from mini_vllm.request import Request


class KVCacheManager(ReferenceKVCacheManager):
    """What is not defined here is the reference's."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self._num_lookups = 0

    def _block_hashes(self, request: Request) -> list[Hashable]:
        """The hashes of the request's full blocks. They depend on its tokens alone, so it remembers them."""
        hashes, size = request.block_hashes, self.block_size
        for i in range(len(hashes), request.num_tokens // size):
            token_ids = tuple(request.all_token_ids[i * size : (i + 1) * size])
            hashes.append(
                self._hash_block(hashes[-1], token_ids, None)
                if hashes
                else self._hash_block(None, token_ids, request.cache_salt)
            )
        return hashes

    def get_computed_blocks(self, request: Request) -> tuple[list[KVCacheBlock], int]:
        """Find the longest cached prefix: its blocks and how many tokens they hold. Changes nothing.

        At most num_tokens - 1 tokens, rounded down to blocks: the last token is always computed, since its logits
        are needed. So a prompt that is cached to the last token still computes its whole last block.
        """
        self._num_lookups += 1
        hits: list[KVCacheBlock] = []
        if self.enable_prefix_caching:
            hashes = self._block_hashes(request)
            for i in range((request.num_tokens - 1) // self.block_size):
                block = self.block_pool.get_cached_block(hashes[i])
                if block is None:
                    break
                hits.append(block)
        return hits, len(hits) * self.block_size
