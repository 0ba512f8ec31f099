# === a_stream_of_blocks
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


# === accumulated
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


# === look_up_then_cut
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


# === named_when_needed
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


# === own_init
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


# === salt_everywhere
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
