# === fresh_hits_apart
"""Held and free hits are told apart once, and what may be published is kept in a generator."""

from collections.abc import Sequence
from math import ceil

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.kv_cache import KVCacheManager as ReferenceKVCacheManager
from mini_vllm.request import Request


class KVCacheManager(ReferenceKVCacheManager):
    """What is not defined here is the reference's."""

    def _new_blocks(self, request: Request, num_tokens: int, num_hits: int) -> int:
        table = self._tables.get(request.request_id, [])
        missing = num_tokens - (len(table) + num_hits) * self.block_size
        return (missing + self.block_size - 1) // self.block_size if missing > 0 else 0

    def num_blocks_needed(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()) -> int:
        free_hits = [block for block in computed_blocks if block.ref_cnt == 0]
        return self._new_blocks(request, num_tokens, len(computed_blocks)) + len(free_hits)

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        start = request.num_computed_tokens + len(computed_blocks) * self.block_size
        end = start + num_new_tokens
        num_new = self._new_blocks(request, end, len(computed_blocks))
        if self.num_blocks_needed(request, end, computed_blocks) > self.num_free_blocks:
            return None
        self.block_pool.touch(computed_blocks)
        new = self.block_pool.get_new_blocks(num_new)
        if computed_blocks or new:
            old = self._tables.get(request.request_id, [])
            self._tables[request.request_id] = [*old, *computed_blocks, *new]
        if self.enable_prefix_caching:
            known = min(end, request.num_tokens)
            self._cache_blocks(request, start // self.block_size, known // self.block_size)
        return new

    def _cache_blocks(self, request: Request, start: int, end: int) -> None:
        for i in range(start, end):
            block, name = self._tables[request.request_id][i], self._block_hashes(request)[i]
            self.block_pool.cache_block(block, name)

    def free(self, request: Request) -> None:
        table = self._tables.pop(request.request_id, [])
        num_written = len(table) if request.is_finished else request.num_computed_tokens // self.block_size
        self.block_pool.free_blocks(table)
        while len(table) > num_written:
            self.block_pool.uncache_block(table.pop())


# === one_block_at_a_time
"""Blocks are added while slots are missing, published by a helper when they become full, and released one at a time."""

from collections.abc import Sequence
from math import ceil

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.kv_cache import KVCacheManager as ReferenceKVCacheManager
from mini_vllm.request import Request


class KVCacheManager(ReferenceKVCacheManager):
    """What is not defined here is the reference's."""

    def num_blocks_needed(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()) -> int:
        slots = (len(self.get_block_ids(request.request_id)) + len(computed_blocks)) * self.block_size
        needed = 0
        while slots < num_tokens:
            slots, needed = slots + self.block_size, needed + 1
        for block in computed_blocks:
            if block.ref_cnt == 0:
                needed += 1
        return needed

    def _publish(self, request: Request, i: int) -> None:
        self.block_pool.cache_block(self._tables[request.request_id][i], self._block_hashes(request)[i])

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        first = request.num_computed_tokens + len(computed_blocks) * self.block_size
        end = first + num_new_tokens
        if self.num_blocks_needed(request, end, computed_blocks) > self.block_pool.num_free_blocks:
            return None
        table = self._tables.get(request.request_id, [])
        for block in computed_blocks:
            self.block_pool.touch([block])
            table.append(block)
        new: list[KVCacheBlock] = []
        while len(table) * self.block_size < end:
            new += self.block_pool.get_new_blocks(1)
            table.append(new[-1])
        if table:
            self._tables[request.request_id] = table
        if self.enable_prefix_caching:
            for position in range(first, min(end, request.num_tokens)):
                if (position + 1) % self.block_size == 0:
                    self._publish(request, position // self.block_size)
        return new

    def free(self, request: Request) -> None:
        table = self._tables.pop(request.request_id, None)
        if table is None:
            return
        self.block_pool.free_blocks([block for block in table if block.block_hash is None])
        for block in reversed([block for block in table if block.block_hash is not None]):
            self.block_pool.free_blocks([block])
        for i, block in enumerate(table):
            if not request.is_finished and (i + 1) * self.block_size > request.num_computed_tokens:
                self.block_pool.uncache_block(block)


# === plans_first
"""allocate_slots makes a plan of what the table will be, with holes for fresh blocks, and carries it out or drops it."""

from collections.abc import Sequence

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.kv_cache import KVCacheManager as ReferenceKVCacheManager
from mini_vllm.request import Request


class KVCacheManager(ReferenceKVCacheManager):
    def _plan(self, request: Request, num_tokens: int, hits: Sequence[KVCacheBlock]) -> list[KVCacheBlock | None]:
        plan: list[KVCacheBlock | None] = [*self._tables.get(request.request_id, ()), *hits]
        num_blocks, rest = divmod(num_tokens, self.block_size)
        plan += [None] * (num_blocks + (rest > 0) - len(plan))
        return plan

    def num_blocks_needed(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()) -> int:
        plan = self._plan(request, num_tokens, computed_blocks)
        return plan.count(None) + [block.ref_cnt for block in plan if block is not None].count(0)

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        start = len(computed_blocks) * self.block_size or request.num_computed_tokens
        end = start + num_new_tokens
        if self.num_blocks_needed(request, end, computed_blocks) > self.block_pool.num_free_blocks:
            return None
        plan = self._plan(request, end, computed_blocks)
        self.block_pool.touch(iter(computed_blocks))
        fresh = self.block_pool.get_new_blocks(plan.count(None))
        rest = iter(fresh)
        if plan:
            self._tables[request.request_id] = [block if block is not None else next(rest) for block in plan]
        names = self._block_hashes(request) if self.enable_prefix_caching else []
        for i, name in enumerate(names[start // self.block_size : end // self.block_size], start // self.block_size):
            self.block_pool.cache_block(self._tables[request.request_id][i], name)
        return fresh

    def free(self, request: Request) -> None:
        table = self._tables.pop(request.request_id, ())
        self.block_pool.free_blocks(table)
        num_written = request.num_computed_tokens // self.block_size
        for i in range(len(table) if request.is_finished else num_written, len(table)):
            self.block_pool.uncache_block(table[i])


# === tail_is_withdrawn_first
"""The price is taken from the free queue's point of view, and free walks the table from its end, where promises are."""

from collections.abc import Sequence
from itertools import chain

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.kv_cache import KVCacheManager as ReferenceKVCacheManager
from mini_vllm.request import Request


class KVCacheManager(ReferenceKVCacheManager):
    def _missing(self, request: Request, num_tokens: int, num_hits: int) -> int:
        slots = self.block_size * (num_hits + len(self._tables.get(request.request_id, [])))
        return max(0, num_tokens - slots + self.block_size - 1) // self.block_size

    def num_blocks_needed(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()) -> int:
        missing = self._missing(request, num_tokens, len(computed_blocks))
        return missing + len(computed_blocks) - sum(1 for block in computed_blocks if block.ref_cnt)

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        size, pool = self.block_size, self.block_pool
        computed = request.num_computed_tokens + size * len(computed_blocks)
        missing = self._missing(request, computed + num_new_tokens, len(computed_blocks))
        if missing + sum(not block.ref_cnt for block in computed_blocks) > pool.num_free_blocks:
            return None
        pool.touch(computed_blocks)
        new = pool.get_new_blocks(missing)
        if computed_blocks or new:
            table = self._tables.setdefault(request.request_id, [])
            table[len(table) :] = chain(computed_blocks, new)
        if self.enable_prefix_caching:
            i = computed // size
            while (i + 1) * size <= min(computed + num_new_tokens, request.num_tokens):
                pool.cache_block(self._tables[request.request_id][i], self._block_hashes(request)[i])
                i += 1
        return new

    def free(self, request: Request) -> None:
        table = self._tables.pop(request.request_id, [])
        i = len(table)
        while not request.is_finished and i * self.block_size > request.num_computed_tokens:
            i -= 1
            self.block_pool.uncache_block(table[i])
        self.block_pool.free_blocks(table)


# === withdraws_before_it_releases
"""New content is published where a block has no hash yet; free first withdraws and releases what was not written, a block at a time."""

from collections.abc import Sequence
from math import ceil

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.kv_cache import KVCacheManager as ReferenceKVCacheManager
from mini_vllm.request import Request


class KVCacheManager(ReferenceKVCacheManager):
    """What is not defined here is the reference's."""

    def num_blocks_needed(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()) -> int:
        have = len(self._tables.get(request.request_id, [])) + len(computed_blocks)
        new = max(ceil(num_tokens / self.block_size) - have, 0)
        return new + len([block for block in computed_blocks if not block.ref_cnt])

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        num_tokens = request.num_computed_tokens + len(computed_blocks) * self.block_size + num_new_tokens
        if self.num_blocks_needed(request, num_tokens, computed_blocks) > self.num_free_blocks:
            return None
        self.block_pool.touch(computed_blocks)
        table = [*self._tables.get(request.request_id, []), *computed_blocks]
        new = self.block_pool.get_new_blocks(max(ceil(num_tokens / self.block_size) - len(table), 0))
        table += new
        if table:
            self._tables[request.request_id] = table
        if self.enable_prefix_caching:
            names = self._block_hashes(request)
            first, end = (num_tokens - num_new_tokens) // self.block_size, num_tokens // self.block_size
            for block, name in list(zip(table, names))[first:end]:
                if block.block_hash is None:
                    self.block_pool.cache_block(block, name)
        return new

    def free(self, request: Request) -> None:
        if request.request_id not in self._tables:
            return
        table = self._tables.pop(request.request_id)
        if not request.is_finished:
            for _ in table[request.num_computed_tokens // self.block_size :]:
                self.block_pool.uncache_block(table[-1])
                self.block_pool.free_blocks([table.pop()])
        self.block_pool.free_blocks(table)


# === names_of_the_engine
"""Its own state and its helpers have names that other managers of the engine have; its __init__ is its own."""

from mini_vllm.kv_cache import KVCacheManager as ReferenceKVCacheManager


class KVCacheManager(ReferenceKVCacheManager):
    """Own state under names that other managers of the engine have."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._loads = {}
        self._unpublished = {}
        self.connector = None
        self.cost = 0
        self._end = 0

    def num_slots(self, request):
        return len(self._tables.get(request.request_id, ())) * self.block_size

    def is_ready(self, table, start):
        return [block for block in table[start:]]

    def _num_blocks(self, request, num_tokens):
        return max(-(-(num_tokens - self.num_slots(request)) // self.block_size), 0)

    def num_blocks_needed(self, request, num_tokens, computed_blocks=()):
        self.cost = self._num_blocks(request, num_tokens - len(computed_blocks) * self.block_size)
        return self.cost + [block.ref_cnt for block in computed_blocks].count(0)

    def allocate_slots(self, request, num_new_tokens, computed_blocks=()):
        first = request.num_computed_tokens + len(computed_blocks) * self.block_size
        self._end = first + num_new_tokens
        if self.num_blocks_needed(request, self._end, computed_blocks) > self.block_pool.num_free_blocks:
            return None
        num_new = self._num_blocks(request, self._end - len(computed_blocks) * self.block_size)
        self.block_pool.touch(computed_blocks)
        new = self.block_pool.get_new_blocks(num_new)
        self._loads[request.request_id] = len(new)
        if computed_blocks or new:
            self._tables.setdefault(request.request_id, []).extend([*computed_blocks, *new])
        if self.enable_prefix_caching:
            hashes = self._block_hashes(request)
            for i in range(first // self.block_size, min(self._end, request.num_tokens) // self.block_size):
                self.block_pool.cache_block(self._tables[request.request_id][i], hashes[i])
        return new

    def free(self, request):
        self._loads.pop(request.request_id, None)
        table = self._tables.pop(request.request_id, [])
        done = len(table) if request.is_finished else request.num_computed_tokens // self.block_size
        tail = self.is_ready(table, done)
        self.block_pool.free_blocks(table)
        for block in tail:
            self.block_pool.uncache_block(block)
