"""The chain is an accumulation over the blocks of tokens; a hit is the names up to the number of answers before a None."""

from collections.abc import Hashable
from itertools import accumulate

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.kv_cache import KVCacheManager as ReferenceKVCacheManager
from mini_vllm.request import Request


class KVCacheManager(ReferenceKVCacheManager):
    def _block_hashes(self, request: Request) -> list[Hashable]:
        names, size, tokens = request.block_hashes, self.block_size, request.all_token_ids
        if not names and len(tokens) >= size:
            names.append(self._hash_block(None, tuple(tokens[:size]), request.cache_salt))
        new = [tuple(tokens[i : i + size]) for i in range(len(names) * size, len(tokens) // size * size, size)]
        if new:
            chain = accumulate(new, lambda parent, block: self._hash_block(parent, block, None), initial=names[-1])
            names += list(chain)[1:]
        return names

    def get_computed_blocks(self, request: Request) -> tuple[list[KVCacheBlock], int]:
        most = (len(request.all_token_ids) - 1) // self.block_size
        names = self._block_hashes(request)[:most] if self.enable_prefix_caching else []
        answers: list[KVCacheBlock] = []
        for answer in map(self.block_pool.get_cached_block, names):
            if not answer:
                return answers, len(answers) * self.block_size
            answers.append(answer)
        return answers, len(answers) * self.block_size
