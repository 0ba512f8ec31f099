# === a_copy_is_a_leaf
"""Who holds a block is asked of its count; a refusal is decided by the free blocks that would be left. Lists of pairs."""

from collections.abc import Iterator, Sequence

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.policies.v0.fork import ForkingKVCacheManager as ReferenceForkingKVCacheManager
from mini_vllm.request import Request


class ForkingKVCacheManager(ReferenceForkingKVCacheManager):
    """What is not defined here is the reference's."""

    def fork(self, parent: Request, child: Request) -> None:
        names = list(parent.block_hashes)
        child.block_hashes.clear()
        child.block_hashes.extend(names)
        for block in self._tables.get(parent.request_id, ()):
            self.block_pool.touch([block])
            self._tables.setdefault(child.request_id, []).append(block)

    def _to_replace(self, request: Request, num_tokens: int) -> Iterator[tuple[int, KVCacheBlock]]:
        for i, block in enumerate(self._tables.get(request.request_id, ())):
            is_written = i * self.block_size < num_tokens and (i + 1) * self.block_size > request.num_computed_tokens
            if is_written and block.ref_cnt > 1:
                yield i, block

    def num_blocks_needed(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()) -> int:
        usual = super().num_blocks_needed(request, num_tokens, computed_blocks)
        return usual + sum(1 for _ in self._to_replace(request, num_tokens))

    def num_blocks_to_append(self, requests: Sequence[Request]) -> int:
        needed = {r.request_id: self.num_blocks_needed(r, r.num_computed_tokens + 1) for r in requests}
        last = {}
        for request in requests:
            if request.num_computed_tokens % self.block_size and needed[request.request_id]:
                last[self._tables[request.request_id][-1].block_id] = request.request_id
        return sum(needed.values()) - len(last)

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        end = request.num_computed_tokens + num_new_tokens
        if self.num_free_blocks - self.num_blocks_needed(request, end, computed_blocks) < 0:
            return None
        for i, block in list(self._to_replace(request, end)):
            fresh = self.block_pool.get_new_blocks(1)[0]
            self._tables[request.request_id][i] = fresh
            self._copies.append([block.block_id, fresh.block_id])
            self.block_pool.free_blocks([block])
        return super().allocate_slots(request, num_new_tokens, computed_blocks)

    def take_copies(self) -> list[tuple[int, int]]:
        copies = list(self._copies)
        del self._copies[:]
        return copies


# === all_blocks_at_once
"""All blocks are taken in one go, those for the end of the table first; a new table takes the place of the old one.

It calls nothing of the manager that it extends, and leaves out copies of blocks in which nothing is computed.
"""

from collections.abc import Sequence

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.policies.v0.fork import ForkingKVCacheManager as ReferenceForkingKVCacheManager
from mini_vllm.request import Request


class ForkingKVCacheManager(ReferenceForkingKVCacheManager):
    """What is not defined here is the reference's."""

    def fork(self, parent: Request, child: Request) -> None:
        table = self._tables.get(parent.request_id)
        child.block_hashes = [*parent.block_hashes]
        if table is not None:
            self._tables[child.request_id] = [*table]
            self.block_pool.touch(table)

    def _plan(self, request: Request, num_tokens: int, hits: Sequence[KVCacheBlock]) -> tuple[set[int], int]:
        """Which places of the table are replaced, and how many are added."""
        table = self._tables.get(request.request_id, [])
        num_blocks = (num_tokens + self.block_size - 1) // self.block_size
        replaced = {
            i
            for i, block in enumerate(table[:num_blocks])
            if block.ref_cnt > 1 and (i + 1) * self.block_size > request.num_computed_tokens
        }
        return replaced, max(num_blocks - len(table) - len(hits), 0)

    def num_blocks_needed(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()) -> int:
        replaced, num_added = self._plan(request, num_tokens, computed_blocks)
        return len(replaced) + num_added + len([block for block in computed_blocks if block.ref_cnt == 0])

    def num_blocks_to_append(self, requests: Sequence[Request]) -> int:
        size = self.block_size
        families: dict[object, int] = {}
        for request in requests:
            if request.num_computed_tokens % size:
                last = self._tables[request.request_id][request.num_computed_tokens // size]
                families[last.block_id] = families.get(last.block_id, 0) + 1
        num_full = sum(request.num_computed_tokens % size == 0 for request in requests)
        return num_full + sum(number - 1 for number in families.values())

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        size = self.block_size
        start = request.num_computed_tokens + len(computed_blocks) * size
        end = start + num_new_tokens
        replaced, num_added = self._plan(request, end, computed_blocks)
        if self.num_blocks_needed(request, end, computed_blocks) > self.num_free_blocks:
            return None
        self.block_pool.touch(computed_blocks)
        new = self.block_pool.get_new_blocks(num_added + len(replaced))
        added, copies = new[:num_added], new[num_added:]
        table = []
        for i, block in enumerate(self._tables.get(request.request_id, [])):
            if i in replaced:
                table.append(copies.pop())
                self.block_pool.free_blocks([block])
                if i * size < request.num_computed_tokens:
                    self._copies.insert(0, (block.block_id, table[-1].block_id))
            else:
                table.append(block)
        table += [*computed_blocks, *added]
        if table:
            self._tables[request.request_id] = table
        if self.enable_prefix_caching:
            self._cache_blocks(request, start // size, end // size)
        return new

    def take_copies(self) -> list[tuple[int, int]]:
        result = []
        while self._copies:
            result.append(self._copies.pop())
        return result


# === asks_the_pool_and_takes_it_back
"""It takes what it may need before it looks, and gives it back if it was too much; who holds what is counted in tables."""

from collections import Counter
from collections.abc import Sequence

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.policies.v0.fork import ForkingKVCacheManager as ReferenceForkingKVCacheManager
from mini_vllm.request import Request


class ForkingKVCacheManager(ReferenceForkingKVCacheManager):
    """What is not defined here is the reference's."""

    def fork(self, parent: Request, child: Request) -> None:
        child.num_computed_tokens = parent.num_computed_tokens
        child.block_hashes = parent.block_hashes[: child.num_tokens // self.block_size]
        blocks = [self.block_pool.blocks[i] for i in self.get_block_ids(parent.request_id)]
        self.block_pool.touch(blocks)
        if blocks:
            self._tables[child.request_id] = blocks

    def _holders(self) -> Counter:
        return Counter(block.block_id for table in self._tables.values() for block in table)

    def _written_and_shared(self, request: Request, num_tokens: int) -> list[int]:
        holders = self._holders()
        written = {p // self.block_size for p in range(request.num_computed_tokens, num_tokens)}
        table = self.get_block_ids(request.request_id)
        return sorted(i for i in written if i < len(table) and holders[table[i]] > 1)

    def num_blocks_needed(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()) -> int:
        usual = KVCacheManager.num_blocks_needed(self, request, num_tokens, computed_blocks)
        return usual + len(self._written_and_shared(request, num_tokens))

    def num_blocks_to_append(self, requests: Sequence[Request]) -> int:
        left = self._holders()
        needed = 0
        for request in requests:
            table = self.get_block_ids(request.request_id)
            place = request.num_computed_tokens // self.block_size
            if place >= len(table):
                needed += 1
            elif left[table[place]] > 1:
                left[table[place]] -= 1
                needed += 1
        return needed

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        shared = self._written_and_shared(request, request.num_computed_tokens + num_new_tokens)
        try:
            copies = self.block_pool.get_new_blocks(len(shared))
        except ValueError:
            return None
        table = self._tables.get(request.request_id, [])
        old = [table[i] for i in shared]
        for i, copy in zip(shared, copies):
            table[i] = copy
        given = KVCacheManager.allocate_slots(self, request, num_new_tokens, computed_blocks)
        if given is None:
            for i, block in zip(shared, old):
                table[i] = block
            self.block_pool.free_blocks(copies)
            return None
        self.block_pool.free_blocks(old)
        self._copies = self._copies + [(block.block_id, copy.block_id) for block, copy in zip(old, copies)]
        return [*copies, *given]

    def take_copies(self) -> list[tuple[int, int]]:
        try:
            return self._copies
        finally:
            self._copies = []


# === asks_the_tables
"""Who holds a block is read from the tables, and not from its count; a promise is a copy's way by the new block."""

from collections.abc import Sequence

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.policies.v0.fork import ForkingKVCacheManager as ReferenceForkingKVCacheManager
from mini_vllm.request import Request


class ForkingKVCacheManager(ReferenceForkingKVCacheManager):
    """What is not defined here is the reference's."""

    def fork(self, parent: Request, child: Request) -> None:
        if parent.request_id in self._tables:
            self._tables[child.request_id] = [*self._tables[parent.request_id]]
            for block in self._tables[child.request_id]:
                block.ref_cnt += 1
        child.block_hashes = []  # they are made again from the tokens

    def _held_by_others(self, request: Request, block: KVCacheBlock) -> bool:
        tables = [table for name, table in self._tables.items() if name != request.request_id]
        return any(block is other for table in tables for other in table)

    def _to_replace(self, request: Request, num_tokens: int) -> dict[int, KVCacheBlock]:
        table = self._tables.get(request.request_id, [])
        first, last = request.num_computed_tokens // self.block_size, (num_tokens - 1) // self.block_size
        return {
            i: table[i] for i in range(first, last + 1) if i < len(table) and self._held_by_others(request, table[i])
        }

    def num_blocks_needed(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()) -> int:
        in_all = -(-num_tokens // self.block_size)
        there = len(self._tables.get(request.request_id, [])) + len(computed_blocks)
        hits_to_take = len([block for block in computed_blocks if not block.ref_cnt])
        return len(self._to_replace(request, num_tokens)) + hits_to_take + max(0, in_all - there)

    def num_blocks_to_append(self, requests: Sequence[Request]) -> int:
        total, in_place = 0, set()
        for request in requests:
            last = self._tables[request.request_id][-1]
            if request.num_computed_tokens % self.block_size == 0 or last.block_id in in_place:
                total += 1
            else:
                in_place.add(last.block_id)
        return total

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        end = request.num_computed_tokens + len(computed_blocks) * self.block_size + num_new_tokens
        if self.num_blocks_needed(request, end, computed_blocks) > self.num_free_blocks:
            return None
        copies = []
        for i, block in self._to_replace(request, end).items():
            (own,) = self.block_pool.get_new_blocks(1)
            self._copies.append((block.block_id, own.block_id))
            self.block_pool.free_blocks([block])
            self._tables[request.request_id][i] = own
            copies.append(own)
        return copies + super().allocate_slots(request, num_new_tokens, computed_blocks)

    def take_copies(self):
        return [self._copies.pop(0) for _ in range(len(self._copies))]


# === decorated
"""Its methods are wrapped by a decorator of its own, as one does to log calls."""

import functools
from collections.abc import Sequence

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.policies.v0.fork import ForkingKVCacheManager as ReferenceForkingKVCacheManager
from mini_vllm.request import Request
from mini_vllm.step import BlockPair


def noted(method):
    @functools.wraps(method)
    def call(*arguments, **options):
        return method(*arguments, **options)

    return call


class ForkingKVCacheManager(ReferenceForkingKVCacheManager):
    """What is not defined here is the reference's."""

    @noted
    def fork(self, parent: Request, child: Request) -> None:
        """Give child, which holds nothing and has the tokens of parent, the blocks of parent."""
        assert child.request_id not in self._tables, f"{child.request_id!r} holds blocks already"
        table = self._tables.get(parent.request_id, [])
        if table:
            self.block_pool.touch(table)
            self._tables[child.request_id] = list(table)
        child.block_hashes = list(parent.block_hashes)

    @noted
    def num_blocks_needed(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()) -> int:
        """Copy on write counts too: one block more for each shared block that the tokens are written into."""
        num_copies = len(self._shared_blocks(request, num_tokens))
        return super().num_blocks_needed(request, num_tokens, computed_blocks) + num_copies

    def num_blocks_to_append(self, requests: Sequence[Request]) -> int:
        """How many free blocks it takes for every one of these requests to compute one token more. Changes nothing.

        They are fewer than the sum of num_blocks_needed: of the requests that share a block, the last one writes in
        place. All requests that share a partial block have to be among them.
        """
        partial = [request for request in requests if request.num_computed_tokens % self.block_size]
        return len(requests) - len({self._tables[request.request_id][-1].block_id for request in partial})

    @noted
    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        """Copy on write: a shared block is replaced by a private copy before this step writes into it."""
        num_tokens = request.num_computed_tokens + num_new_tokens
        shared = self._shared_blocks(request, num_tokens)
        if shared:
            if self.num_blocks_needed(request, num_tokens) > self.num_free_blocks:
                return None
            table = self._tables[request.request_id]
            for i, copy in zip(shared, self.block_pool.get_new_blocks(len(shared)), strict=True):
                self._copies.append((table[i].block_id, copy.block_id))
                self.block_pool.free_blocks([table[i]])
                table[i] = copy
        return super().allocate_slots(request, num_new_tokens, computed_blocks)

    def take_copies(self) -> list[BlockPair]:
        """The copies, (block, block), that the tables rely on since the last call: for the coming step to make."""
        copies, self._copies = self._copies, []
        return copies

    def _shared_blocks(self, request: Request, num_tokens: int) -> list[int]:
        """Which blocks of the table would be written while others hold them, as indices."""
        table = self._tables.get(request.request_id, ())
        end = min(-(-num_tokens // self.block_size), len(table))
        return [i for i in range(request.num_computed_tokens // self.block_size, end) if table[i].ref_cnt > 1]


# === one_block_after_the_other
"""Each shared block is replaced by itself, and then the call begins again; hashes are made anew by the child."""

from collections.abc import Sequence

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.policies.v0.fork import ForkingKVCacheManager as ReferenceForkingKVCacheManager
from mini_vllm.request import Request


class ForkingKVCacheManager(ReferenceForkingKVCacheManager):
    """What is not defined here is the reference's."""

    def fork(self, parent: Request, child: Request) -> None:
        child.block_hashes = []
        if parent.request_id in self._tables:
            self._tables[child.request_id] = self._tables[parent.request_id].copy()
        for block in self._tables.get(child.request_id, ()):
            block.ref_cnt += 1

    def _next_shared(self, request: Request, num_tokens: int, start: int) -> int | None:
        table = self._tables.get(request.request_id, [])
        for position in range(start, num_tokens):
            i = position // self.block_size
            if i < len(table) and table[i].ref_cnt != 1:
                return i
        return None

    def num_blocks_needed(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()) -> int:
        needed, start = super().num_blocks_needed(request, num_tokens, computed_blocks), request.num_computed_tokens
        while (i := self._next_shared(request, num_tokens, start)) is not None:
            needed, start = needed + 1, (i + 1) * self.block_size
        return needed

    def num_blocks_to_append(self, requests: Sequence[Request]) -> int:
        seen: set[KVCacheBlock] = set()
        needed = 0
        for request in requests:
            i = request.num_computed_tokens // self.block_size
            table = self._tables.get(request.request_id, [])
            if i < len(table) and table[i] not in seen:
                seen.add(table[i])
            else:
                needed += 1
        return needed

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        end = request.num_computed_tokens + num_new_tokens
        if self.num_blocks_needed(request, end, computed_blocks) > self.num_free_blocks:
            return None
        i = self._next_shared(request, end, request.num_computed_tokens)
        if i is None:
            return super().allocate_slots(request, num_new_tokens, computed_blocks)
        table = self._tables[request.request_id]
        [new] = self.block_pool.get_new_blocks(1)
        old, table[i] = table[i], new
        old.ref_cnt -= 1
        self._copies.append((old.block_id, new.block_id))
        return self.allocate_slots(request, num_new_tokens, computed_blocks)

    def take_copies(self) -> list[tuple[int, int]]:
        copies = self._copies[:]
        self._copies.clear()
        return copies


# === promises_of_the_living
"""The promises are kept by the new block: one that is given away again in the same step takes its promise along."""

from collections.abc import Sequence

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.policies.v0.fork import ForkingKVCacheManager as ReferenceForkingKVCacheManager
from mini_vllm.request import Request


class ForkingKVCacheManager(ReferenceForkingKVCacheManager):
    """What is not defined here is the reference's."""

    def fork(self, parent: Request, child: Request) -> None:
        self.block_pool.touch(self._tables.get(parent.request_id, ()))
        for block in self._tables.get(parent.request_id, ()):
            self._tables.setdefault(child.request_id, []).append(block)
        child.block_hashes = parent.block_hashes[:]

    def num_blocks_needed(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()) -> int:
        return super().num_blocks_needed(request, num_tokens, computed_blocks) + sum(
            block.ref_cnt > 1 for block in self._written(request, num_tokens)
        )

    def _written(self, request: Request, num_tokens: int) -> list[KVCacheBlock]:
        """The blocks of the table into which the tokens [computed, num_tokens) go."""
        table = self._tables.get(request.request_id, [])
        return table[request.num_computed_tokens // self.block_size : -(-num_tokens // self.block_size)]

    def num_blocks_to_append(self, requests: Sequence[Request]) -> int:
        partial = {
            self._tables[request.request_id][-1].block_id: True
            for request in requests
            if request.num_computed_tokens % self.block_size
        }
        return len(requests) - len(partial)

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        num_tokens = request.num_computed_tokens + num_new_tokens
        if not computed_blocks and self.num_blocks_needed(request, num_tokens) > self.num_free_blocks:
            return None
        if not isinstance(self._copies, dict):
            self._copies = {}
        for old in [block for block in self._written(request, num_tokens) if block.ref_cnt > 1]:
            new = self.block_pool.get_new_blocks(1)[0]
            table = self._tables[request.request_id]
            table[table.index(old)] = new
            self.block_pool.free_blocks((old,))
            self._copies[new.block_id] = old.block_id
        return super().allocate_slots(request, num_new_tokens, computed_blocks)

    def take_copies(self):
        promised, self._copies = dict(self._copies or {}), {}
        return [(old, new) for new, old in promised.items() if self.block_pool.blocks[new].ref_cnt]


# === super_with_arguments
"""super() has its arguments, as in Python 2: the class by its name, and self."""

from collections.abc import Sequence

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.policies.v0.fork import ForkingKVCacheManager as ReferenceForkingKVCacheManager
from mini_vllm.request import Request
from mini_vllm.step import BlockPair


class ForkingKVCacheManager(ReferenceForkingKVCacheManager):
    """What is not defined here is the reference's."""

    def fork(self, parent: Request, child: Request) -> None:
        """Give child, which holds nothing and has the tokens of parent, the blocks of parent."""
        assert child.request_id not in self._tables, f"{child.request_id!r} holds blocks already"
        table = self._tables.get(parent.request_id, [])
        if table:
            self.block_pool.touch(table)
            self._tables[child.request_id] = list(table)
        child.block_hashes = list(parent.block_hashes)

    def num_blocks_needed(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()) -> int:
        """Copy on write counts too: one block more for each shared block that the tokens are written into."""
        num_copies = len(self._shared_blocks(request, num_tokens))
        return super(ForkingKVCacheManager, self).num_blocks_needed(request, num_tokens, computed_blocks) + num_copies

    def num_blocks_to_append(self, requests: Sequence[Request]) -> int:
        """How many free blocks it takes for every one of these requests to compute one token more. Changes nothing.

        They are fewer than the sum of num_blocks_needed: of the requests that share a block, the last one writes in
        place. All requests that share a partial block have to be among them.
        """
        partial = [request for request in requests if request.num_computed_tokens % self.block_size]
        return len(requests) - len({self._tables[request.request_id][-1].block_id for request in partial})

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        """Copy on write: a shared block is replaced by a private copy before this step writes into it."""
        num_tokens = request.num_computed_tokens + num_new_tokens
        shared = self._shared_blocks(request, num_tokens)
        if shared:
            if self.num_blocks_needed(request, num_tokens) > self.num_free_blocks:
                return None
            table = self._tables[request.request_id]
            for i, copy in zip(shared, self.block_pool.get_new_blocks(len(shared)), strict=True):
                self._copies.append((table[i].block_id, copy.block_id))
                self.block_pool.free_blocks([table[i]])
                table[i] = copy
        return super(ForkingKVCacheManager, self).allocate_slots(request, num_new_tokens, computed_blocks)

    def take_copies(self) -> list[BlockPair]:
        """The copies, (block, block), that the tables rely on since the last call: for the coming step to make."""
        copies, self._copies = self._copies, []
        return copies

    def _shared_blocks(self, request: Request, num_tokens: int) -> list[int]:
        """Which blocks of the table would be written while others hold them, as indices."""
        table = self._tables.get(request.request_id, ())
        end = min(-(-num_tokens // self.block_size), len(table))
        return [i for i in range(request.num_computed_tokens // self.block_size, end) if table[i].ref_cnt > 1]
