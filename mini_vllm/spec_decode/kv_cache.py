"""The prefix cache of a target whose draft head reads the target's own hidden states (EAGLE).

The head's K and V at a place depend on the token behind it, so a block is known by one token more than it holds; or, in
the other mode, the last block that is found is not used. The rules are vLLM's; a trained head is not here.
Source: get_request_block_hasher in vllm/v1/core/kv_cache_utils.py (num_hash_lookahead_tokens), drop_eagle_block in
vllm/v1/core/single_type_kv_cache_manager.py.
"""

from collections.abc import Hashable
from dataclasses import dataclass

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.request import Request, RequestStatus


@dataclass(eq=False, repr=False, kw_only=True)
class EagleKVCacheManager(KVCacheManager):
    """Blocks have lookahead hashes; with eagle_block_drop they have plain ones, and a lookup drops the last hit."""

    eagle_block_drop: bool = False

    def get_computed_blocks(self, request: Request) -> tuple[list[KVCacheBlock], int]:
        hits, _ = super().get_computed_blocks(request)
        if self.eagle_block_drop:
            hits = hits[:-1]
        return hits, len(hits) * self.block_size

    def free(self, request: Request) -> None:
        """A request that ends with the token that names its last block publishes it before the blocks go."""
        if request.status in (RequestStatus.FINISHED_STOPPED, RequestStatus.FINISHED_LENGTH):
            self.cache_blocks(request)
        super().free(request)

    def _block_hashes(self, request: Request) -> list[Hashable]:
        if self.eagle_block_drop:
            return super()._block_hashes(request)
        hashes, size = request.block_hashes, self.block_size
        for i in range(len(hashes), (request.num_tokens - 1) // size):
            parent = hashes[-1] if hashes else None
            token_ids = tuple(request.all_token_ids[i * size : (i + 1) * size + 1])
            hashes.append(self._hash_block(parent, token_ids, None if hashes else request.cache_salt))
        return hashes
