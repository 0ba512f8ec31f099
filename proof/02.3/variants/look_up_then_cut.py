"""All names are looked up and the answers are cut at the first None; a copy of the names is returned."""

from collections.abc import Hashable
from itertools import takewhile

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.kv_cache import KVCacheManager as ReferenceKVCacheManager
from mini_vllm.request import Request


class KVCacheManager(ReferenceKVCacheManager):
    """What is not defined here is the reference's."""

    def _block_hashes(self, request: Request) -> list[Hashable]:
        known, size = len(request.block_hashes), self.block_size
        tokens = request.all_token_ids[known * size :]
        new_blocks = [tuple(tokens[i : i + size]) for i in range(0, len(tokens) - size + 1, size)]
        for block in new_blocks:
            if request.block_hashes:
                request.block_hashes.append(self._hash_block(request.block_hashes[-1], block, None))
            else:
                request.block_hashes.append(self._hash_block(None, block, request.cache_salt))
        return list(request.block_hashes)

    def get_computed_blocks(self, request: Request) -> tuple[list[KVCacheBlock], int]:
        if not self.enable_prefix_caching:
            return [], 0
        names = self._block_hashes(request)
        if names and len(names) * self.block_size == request.num_tokens:
            names.pop()
        answers = [self.block_pool.get_cached_block(name) for name in names]
        if None in answers:
            answers = answers[: answers.index(None)]
        return answers, len(answers) * self.block_size
