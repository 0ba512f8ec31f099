# === a_book_of_stays
"""The connector keeps one book of who went out and who came in; the end of a step goes through it line by line.

The manager finds the blocks to fill by their places in the new table, one place after the other.
"""

from collections.abc import Sequence
from math import ceil

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.offload.connector import Lookup
from mini_vllm.offload.cost import PreemptionCost as ReferencePreemptionCost
from mini_vllm.offload.host_memory import HostMemoryConnector as ReferenceHostMemoryConnector
from mini_vllm.offload.manager import Load
from mini_vllm.offload.manager import OffloadingKVCacheManager as ReferenceOffloadingKVCacheManager
from mini_vllm.request import Request
from mini_vllm.step import KVResult


class PreemptionCost(ReferencePreemptionCost):
    """What is not defined here is the reference's."""

    def recompute(self, num_tokens: int) -> float:
        num_pairs = num_tokens * num_tokens / 2
        return self.seconds_per_pair * num_pairs + self.seconds_per_token * num_tokens

    def swap(self, num_tokens: int) -> float:
        return sum(self.seconds_per_copy + num_tokens * self.bytes_per_token / self.bandwidth for _ in ("out", "in"))

    def swap_is_cheaper(self, num_tokens: int) -> bool:
        ways = {"compute": self.recompute(num_tokens), "copy": self.swap(num_tokens)}
        return min(ways, key=ways.get) == "copy"


class HostMemoryConnector(ReferenceHostMemoryConnector):
    """What is not defined here is the reference's."""

    def _book(self) -> list[tuple[str, str]]:
        """Lines of this step: the direction, and whose."""
        if "lines" not in vars(self):
            self.lines = []
        return self.lines

    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> Lookup:
        behind = self._num_tokens.get(request.request_id, 0) - num_computed_tokens
        return Lookup(behind * (behind > 0))

    def save(self, request: Request, block_ids: Sequence[int]) -> None:
        name = request.request_id
        pairs = None if name in self._num_tokens else self.pool.store(name, block_ids)
        if pairs is not None:
            self._book().append(("out", name))
            self._saving[name] = pairs
            self._num_tokens[name] = request.num_computed_tokens

    def load(self, request: Request, block_ids: Sequence[int], start: int) -> None:
        name = request.request_id
        if name in self._num_tokens:
            self._book().append(("in", name))
            self._loading[name] = self.pool.fetch(name, block_ids, start)

    def request_finished(self, request: Request) -> None:
        self.lines = [line for line in self._book() if line[1] != request.request_id]
        self._close(request.request_id)

    def _close(self, name: str) -> None:
        self._saving.pop(name, None)
        self._num_tokens.pop(name, None)
        self.pool.free(name)

    def end_step(self, result: KVResult | None) -> None:
        closing = "in" if result is not None else "out"
        for direction, name in self._book():
            if direction == closing:
                self._close(name)
        for each in (self.lines, self._saving, self._loading):
            each.clear()


class OffloadingKVCacheManager(ReferenceOffloadingKVCacheManager):
    """What is not defined here is the reference's."""

    def get_computed_blocks(self, request: Request) -> tuple[list[KVCacheBlock], int]:
        hits, num_hit = super().get_computed_blocks(request)
        return hits, max(num_hit, num_hit + self._num_loadable_tokens(request, num_hit))

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        name = request.request_id
        runs = name in self._tables
        hit = len(computed_blocks) * self.block_size
        to_load = 0 if runs else self._num_loadable_tokens(request, hit)
        new_blocks = super().allocate_slots(request, to_load + num_new_tokens, computed_blocks)
        if runs or new_blocks is None:
            return new_blocks
        places = range(len(computed_blocks), ceil((hit + to_load) / self.block_size))
        table = self.get_block_ids(name)
        self.connector.load(request, [table[place] for place in places], len(computed_blocks))
        if to_load:
            self._loads[name] = Load(request, hit, hit + to_load)
        return new_blocks

    def free(self, request: Request) -> None:
        if request.is_finished:
            self.connector.request_finished(request)
        elif request.num_computed_tokens > 0 and self._goes_out(request):
            table, count = self.get_block_ids(request.request_id), request.num_computed_tokens
            self.connector.save(
                request, [block for place, block in enumerate(table) if place * self.block_size < count]
            )
        super().free(request)

    def _goes_out(self, request: Request) -> bool:
        return {"swap": lambda _: True, "cheaper": self.cost.swap_is_cheaper}[self.preemption_mode](
            request.num_computed_tokens
        )

    def end_step(self, result: KVResult | None) -> None:
        self.connector.end_step(result)
        while self._loads:
            _, (request, start, end) = self._loads.popitem()
            if result is None:
                for place in range(start // self.block_size, min(end // self.block_size, len(request.block_hashes))):
                    self.block_pool.uncache_hash(request.block_hashes[place])


# === a_state_for_each
"""Each request in the pool has a record with its state: it goes out, it waits, it comes back."""

from collections.abc import Sequence
from dataclasses import dataclass

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.offload.connector import Lookup
from mini_vllm.offload.cost import PreemptionCost as ReferencePreemptionCost
from mini_vllm.offload.host_memory import HostMemoryConnector as ReferenceHostMemoryConnector
from mini_vllm.offload.manager import Load
from mini_vllm.offload.manager import OffloadingKVCacheManager as ReferenceOffloadingKVCacheManager
from mini_vllm.request import Request
from mini_vllm.step import KVResult


class PreemptionCost(ReferencePreemptionCost):
    """What is not defined here is the reference's."""

    def recompute(self, num_tokens: int) -> float:
        linear, pairs = num_tokens, num_tokens * num_tokens * 0.5
        return self.seconds_per_token * linear + self.seconds_per_pair * pairs

    def _one_way(self, num_tokens: int) -> float:
        return self.seconds_per_copy + num_tokens * (self.bytes_per_token / self.bandwidth)

    def swap(self, num_tokens: int) -> float:
        return sum(self._one_way(num_tokens) for _ in ("out", "back"))

    def swap_is_cheaper(self, num_tokens: int) -> bool:
        return self.recompute(num_tokens) - self.swap(num_tokens) > 0


@dataclass
class Record:
    num_tokens: int
    goes_out: bool = True
    comes_back: bool = False


class HostMemoryConnector(ReferenceHostMemoryConnector):
    """What is not defined here is the reference's."""

    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> Lookup:
        record = self._num_tokens.get(request.request_id)
        return Lookup(
            0 if record is None or record.num_tokens < num_computed_tokens else record.num_tokens - num_computed_tokens
        )

    def save(self, request: Request, block_ids: Sequence[int]) -> None:
        if request.request_id not in self._num_tokens:
            pairs = self.pool.store(request.request_id, block_ids)
            if pairs is not None:
                self._num_tokens[request.request_id] = Record(request.num_computed_tokens)
                self._saving[request.request_id] = pairs

    def load(self, request: Request, block_ids: Sequence[int], start: int) -> None:
        record = self._num_tokens.get(request.request_id)
        if record is not None:
            record.comes_back = True
            held = self.pool.get_block_ids(request.request_id)[start:]
            self._loading[request.request_id] = list(zip(held, block_ids, strict=False))

    def request_finished(self, request: Request) -> None:
        self._leave(request.request_id)

    def _leave(self, name: str) -> None:
        self.pool.free(name)
        self._num_tokens.pop(name, None)
        self._saving.pop(name, None)

    def end_step(self, result: KVResult | None) -> None:
        for name, record in [*self._num_tokens.items()]:
            if record.goes_out if result is None else record.comes_back:
                self._leave(name)
            record.goes_out = record.comes_back = False
        self._saving, self._loading = {}, {}


class OffloadingKVCacheManager(ReferenceOffloadingKVCacheManager):
    """What is not defined here is the reference's."""

    def get_computed_blocks(self, request: Request) -> tuple[list[KVCacheBlock], int]:
        hits, found = super().get_computed_blocks(request)
        lookup = self.connector.get_num_new_matched_tokens(request, found)
        return hits, found + lookup.num_tokens

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        if request.request_id in self._tables:
            return super().allocate_slots(request, num_new_tokens, computed_blocks)
        hit = len(computed_blocks) * self.block_size
        behind = self.connector.get_num_new_matched_tokens(request, hit).num_tokens
        if self.num_blocks_needed(request, hit + behind + num_new_tokens, computed_blocks) > self.num_free_blocks:
            return None
        new = super().allocate_slots(request, behind + num_new_tokens, computed_blocks)
        num_filled = (behind + self.block_size - 1) // self.block_size
        self.connector.load(request, [block.block_id for block in new[:num_filled]], len(computed_blocks))
        self._loads[request.request_id] = Load(request, hit, hit + behind)
        return new

    def free(self, request: Request) -> None:
        count = request.num_computed_tokens
        if request.is_finished:
            self.connector.request_finished(request)
        elif count > 0 and (self.preemption_mode != "cheaper" or self.cost.swap_is_cheaper(count)):
            num_blocks = (count + self.block_size - 1) // self.block_size
            table = self._tables[request.request_id][:num_blocks]
            self.connector.save(request, [block.block_id for block in table])
        super().free(request)

    def end_step(self, result: KVResult | None) -> None:
        loads, self._loads = self._loads, {}
        for load in loads.values() if result is None else ():
            first, last = load.start // self.block_size, load.end // self.block_size
            for block_hash in load.request.block_hashes[first:last]:
                self.block_pool.uncache_hash(block_hash)
        self.connector.end_step(result)


# === asks_before_it_acts
"""The manager asks for the price of an admission first, and every change is made after the last question.

The connector makes its dictionaries anew where something leaves them. Costs are compared as exact fractions.
"""

from collections.abc import Sequence
from fractions import Fraction

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.offload.connector import Lookup
from mini_vllm.offload.cost import PreemptionCost as ReferencePreemptionCost
from mini_vllm.offload.host_memory import HostMemoryConnector as ReferenceHostMemoryConnector
from mini_vllm.offload.manager import Load
from mini_vllm.offload.manager import OffloadingKVCacheManager as ReferenceOffloadingKVCacheManager
from mini_vllm.request import Request
from mini_vllm.step import KVResult


class PreemptionCost(ReferencePreemptionCost):
    """What is not defined here is the reference's."""

    def _again(self, n: int) -> Fraction:
        return Fraction(self.seconds_per_token) * n + Fraction(self.seconds_per_pair) * n * n / 2

    def _away_and_back(self, n: int) -> Fraction:
        way = Fraction(self.seconds_per_copy) + Fraction(self.bytes_per_token) * n / Fraction(self.bandwidth)
        return 2 * way

    def recompute(self, num_tokens: int) -> float:
        return float(self._again(num_tokens))

    def swap(self, num_tokens: int) -> float:
        return float(self._away_and_back(num_tokens))

    def swap_is_cheaper(self, num_tokens: int) -> bool:
        return self._again(num_tokens) - self._away_and_back(num_tokens) > 0


class HostMemoryConnector(ReferenceHostMemoryConnector):
    """What is not defined here is the reference's."""

    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> Lookup:
        return Lookup(len(range(num_computed_tokens, self._num_tokens.get(request.request_id, 0))))

    def save(self, request: Request, block_ids: Sequence[int]) -> None:
        name = request.request_id
        if name not in self._num_tokens and len(block_ids) <= self.pool.num_free_blocks:
            self._num_tokens = {**self._num_tokens, name: request.num_computed_tokens}
            self._saving = {**self._saving, name: self.pool.store(name, block_ids)}

    def load(self, request: Request, block_ids: Sequence[int], start: int) -> None:
        if self.pool.get_block_ids(request.request_id):
            pairs = self.pool.fetch(request.request_id, block_ids, start)
            self._loading = {**self._loading, request.request_id: pairs}

    def request_finished(self, request: Request) -> None:
        self._without({request.request_id})

    def end_step(self, result: KVResult | None) -> None:
        self._without(set(self._loading if result else self._saving))
        self._saving = self._loading = {}

    def _without(self, names) -> None:
        for name in names:
            self.pool.free(name)
        self._num_tokens = {name: n for name, n in self._num_tokens.items() if name not in names}
        self._saving = {name: pairs for name, pairs in self._saving.items() if name not in names}


class OffloadingKVCacheManager(ReferenceOffloadingKVCacheManager):
    """What is not defined here is the reference's."""

    def get_computed_blocks(self, request: Request) -> tuple[list[KVCacheBlock], int]:
        hits, found = super().get_computed_blocks(request)
        return hits, found + self._num_loadable_tokens(request, found)

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        if self.get_block_ids(request.request_id):
            return super().allocate_slots(request, num_new_tokens, computed_blocks)
        size, num_hits = self.block_size, len(computed_blocks)
        end = num_hits * size + self._num_loadable_tokens(request, num_hits * size)
        if self.num_blocks_needed(request, end + num_new_tokens, computed_blocks) > self.num_free_blocks:
            return None
        new = super().allocate_slots(request, end - num_hits * size + num_new_tokens, computed_blocks)
        num_filled = (end + size - 1) // size - num_hits
        self.connector.load(request, [block.block_id for block in new[:num_filled]], num_hits)
        if num_filled:
            self._loads[request.request_id] = Load(request, num_hits * size, end)
        return new

    def free(self, request: Request) -> None:
        count, table = request.num_computed_tokens, self.get_block_ids(request.request_id)
        if not request.is_finished and count:
            if self.preemption_mode == "swap" or self.cost.swap_is_cheaper(count):
                self.connector.save(request, table[: (count + self.block_size - 1) // self.block_size])
        elif request.is_finished:
            self.connector.request_finished(request)
        super().free(request)

    def end_step(self, result: KVResult | None) -> None:
        loads, self._loads = self._loads, {}
        for load in loads.values() if result is None else ():
            first, last = load.start // self.block_size, load.end // self.block_size
            for name in request_names(load.request)[first:last]:
                self.block_pool.uncache_hash(name)
        self.connector.end_step(result)


def request_names(request: Request) -> list:
    return list(request.block_hashes)


# === by_hand
"""Position by position: pairs are put together from the two tables, a preemption is paid token by token."""

from collections.abc import Sequence

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.offload.connector import Lookup
from mini_vllm.offload.cost import PreemptionCost as ReferencePreemptionCost
from mini_vllm.offload.host_memory import HostMemoryConnector as ReferenceHostMemoryConnector
from mini_vllm.offload.manager import Load
from mini_vllm.offload.manager import OffloadingKVCacheManager as ReferenceOffloadingKVCacheManager
from mini_vllm.request import Request
from mini_vllm.step import KVResult


class PreemptionCost(ReferencePreemptionCost):
    """What is not defined here is the reference's."""

    def recompute(self, num_tokens: int) -> float:
        return sum(self.seconds_per_token + (position + 0.5) * self.seconds_per_pair for position in range(num_tokens))

    def swap(self, num_tokens: int) -> float:
        transfer = self.bytes_per_token * num_tokens / self.bandwidth
        way = self.seconds_per_copy + transfer
        return way + way

    def swap_is_cheaper(self, num_tokens: int) -> bool:
        return not self.recompute(num_tokens) <= self.swap(num_tokens)


class HostMemoryConnector(ReferenceHostMemoryConnector):
    """What is not defined here is the reference's."""

    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> Lookup:
        saved = self._num_tokens.get(request.request_id, num_computed_tokens)
        return Lookup(saved - num_computed_tokens if saved > num_computed_tokens else 0)

    def save(self, request: Request, block_ids: Sequence[int]) -> None:
        name = request.request_id
        if name in self._num_tokens or len(block_ids) > self.pool.num_free_blocks:
            return
        self._num_tokens[name] = request.num_computed_tokens
        self.pool.store(name, block_ids)
        self._saving[name] = [*zip(block_ids, self.pool.get_block_ids(name), strict=True)]

    def load(self, request: Request, block_ids: Sequence[int], start: int) -> None:
        if request.request_id in self._num_tokens:
            cpu_blocks, pairs = self.pool.get_block_ids(request.request_id), []
            for place, block in enumerate(block_ids, start):
                pairs.append((cpu_blocks[place], block))
            self._loading[request.request_id] = pairs

    def request_finished(self, request: Request) -> None:
        self._num_tokens.pop(request.request_id, None)
        self._saving.pop(request.request_id, None)
        self.pool.free(request.request_id)

    def end_step(self, result: KVResult | None) -> None:
        done = self._saving if result is None else self._loading
        while done:
            name, _ = done.popitem()
            self._num_tokens.pop(name, None)
            self.pool.free(name)
        self._saving, self._loading = {}, {}


class OffloadingKVCacheManager(ReferenceOffloadingKVCacheManager):
    """What is not defined here is the reference's."""

    def get_computed_blocks(self, request: Request) -> tuple[list[KVCacheBlock], int]:
        hits, found = super().get_computed_blocks(request)
        found += self._num_loadable_tokens(request, found)
        return hits, found

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        name, num_hits = request.request_id, len(computed_blocks)
        is_new = not self.get_block_ids(name)
        num_behind = self._num_loadable_tokens(request, num_hits * self.block_size) if is_new else 0
        new = super().allocate_slots(request, num_behind + num_new_tokens, computed_blocks)
        if is_new and new is not None:
            end = num_hits * self.block_size + num_behind
            begun = [block for i, block in enumerate(self.get_block_ids(name)) if i * self.block_size < end]
            self.connector.load(request, begun[num_hits:], num_hits)
            self._loads[name] = Load(request, num_hits * self.block_size, end)
        return new

    def free(self, request: Request) -> None:
        count = request.num_computed_tokens
        pays = self.preemption_mode == "swap" or self.cost.swap_is_cheaper(count)
        if request.is_finished:
            self.connector.request_finished(request)
        elif count and pays:
            table = self.get_block_ids(request.request_id)
            begun = [block for i, block in enumerate(table) if i * self.block_size < count]
            self.connector.save(request, begun)
        super().free(request)

    def end_step(self, result: KVResult | None) -> None:
        self.connector.end_step(result)
        while self._loads:
            _, (request, start, end) = self._loads.popitem()
            for place, block_hash in enumerate(request.block_hashes):
                if result is None and start <= place * self.block_size and (place + 1) * self.block_size <= end:
                    self.block_pool.uncache_hash(block_hash)


# === gives_back_early
"""Who found all of it on the device leaves the pool at once: nothing has to come from there.

Pairs are told in another order, too, the last block first.
"""

from collections.abc import Sequence

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.offload.connector import Lookup
from mini_vllm.offload.cost import PreemptionCost as ReferencePreemptionCost
from mini_vllm.offload.host_memory import HostMemoryConnector as ReferenceHostMemoryConnector
from mini_vllm.offload.manager import Load
from mini_vllm.offload.manager import OffloadingKVCacheManager as ReferenceOffloadingKVCacheManager
from mini_vllm.request import Request
from mini_vllm.step import KVResult


class PreemptionCost(ReferencePreemptionCost):
    """What is not defined here is the reference's."""

    def recompute(self, num_tokens: int) -> float:
        return (2 * self.seconds_per_token + num_tokens * self.seconds_per_pair) * num_tokens / 2

    def swap(self, num_tokens: int) -> float:
        num_bytes = 2 * num_tokens * self.bytes_per_token
        return num_bytes / self.bandwidth + self.seconds_per_copy + self.seconds_per_copy

    def swap_is_cheaper(self, num_tokens: int) -> bool:
        return self.recompute(num_tokens) > self.swap(num_tokens)


class HostMemoryConnector(ReferenceHostMemoryConnector):
    """What is not defined here is the reference's."""

    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> Lookup:
        return Lookup(max(self._num_tokens.get(request.request_id, 0), num_computed_tokens) - num_computed_tokens)

    def save(self, request: Request, block_ids: Sequence[int]) -> None:
        name = request.request_id
        if self._num_tokens.get(name) is None:
            pairs = self.pool.store(name, block_ids)
            if pairs is not None:
                self._saving.update({name: pairs[::-1]})
                self._num_tokens.update({name: request.num_computed_tokens})

    def load(self, request: Request, block_ids: Sequence[int], start: int) -> None:
        name = request.request_id
        if not block_ids:
            self._forget(name)
        elif name in self._num_tokens:
            self._loading[name] = self.pool.fetch(name, block_ids, start)[::-1]

    def request_finished(self, request: Request) -> None:
        self._forget(request.request_id)

    def _forget(self, name: str) -> None:
        if name in self._num_tokens:
            del self._num_tokens[name]
            self.pool.free(name)
        if name in self._saving:
            del self._saving[name]

    def end_step(self, result: KVResult | None) -> None:
        doubtful, back = self._saving, self._loading
        self._saving, self._loading = {}, {}
        for name in back if result is not None else doubtful:
            self._forget(name)


class OffloadingKVCacheManager(ReferenceOffloadingKVCacheManager):
    """What is not defined here is the reference's."""

    def get_computed_blocks(self, request: Request) -> tuple[list[KVCacheBlock], int]:
        hits, found = super().get_computed_blocks(request)
        return hits, sum((found, self._num_loadable_tokens(request, found)))

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        first = len(computed_blocks)
        is_running = request.request_id in self._tables
        missing = 0 if is_running else self._num_loadable_tokens(request, first * self.block_size)
        new = super().allocate_slots(request, missing + num_new_tokens, computed_blocks)
        if new is not None and not is_running:
            targets = [block.block_id for block in new][: -(-missing // self.block_size)]
            self.connector.load(request, targets, first)
            if missing:
                start = first * self.block_size
                self._loads[request.request_id] = Load(request, start, start + missing)
        return new

    def free(self, request: Request) -> None:
        count = request.num_computed_tokens
        if not request.is_finished and count:
            last = (count - 1) // self.block_size
            if self.preemption_mode == "swap" or self.cost.swap(count) < self.cost.recompute(count):
                self.connector.save(request, self.get_block_ids(request.request_id)[: last + 1])
        super().free(request)
        if request.is_finished:
            self.connector.request_finished(request)

    def end_step(self, result: KVResult | None) -> None:
        if result is None:
            for load in self._loads.values():
                names = load.request.block_hashes[: load.end // self.block_size]
                for block_hash in names[load.start // self.block_size :]:
                    self.block_pool.uncache_hash(block_hash)
        self._loads.clear()
        self.connector.end_step(result)


# === publishes_only_what_is_computed
"""What is loaded counts as computed while slots are given, so its blocks are not in the prefix cache again.

That costs a hit now and then and is right all the same. The counter is put back before anybody looks.
"""

from collections.abc import Sequence
from contextlib import contextmanager

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.offload.connector import Lookup
from mini_vllm.offload.cost import PreemptionCost as ReferencePreemptionCost
from mini_vllm.offload.host_memory import HostMemoryConnector as ReferenceHostMemoryConnector
from mini_vllm.offload.manager import Load
from mini_vllm.offload.manager import OffloadingKVCacheManager as ReferenceOffloadingKVCacheManager
from mini_vllm.request import Request
from mini_vllm.step import KVResult


class PreemptionCost(ReferencePreemptionCost):
    """What is not defined here is the reference's."""

    def recompute(self, num_tokens: int) -> float:
        return num_tokens * (self.seconds_per_token + self.seconds_per_pair * num_tokens / 2)

    def swap(self, num_tokens: int) -> float:
        return self.seconds_per_copy * 2 + self.bytes_per_token * 2 * num_tokens / self.bandwidth

    def swap_is_cheaper(self, num_tokens: int) -> bool:
        return min((self.recompute(num_tokens), 0), (self.swap(num_tokens), 1))[1] == 1


class HostMemoryConnector(ReferenceHostMemoryConnector):
    """What is not defined here is the reference's."""

    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> Lookup:
        num_tokens = sorted([0, self._num_tokens.get(request.request_id, 0) - num_computed_tokens])[1]
        return Lookup(num_tokens)

    def save(self, request: Request, block_ids: Sequence[int]) -> None:
        if request.request_id in self._num_tokens:
            return
        pairs = self.pool.store(request.request_id, block_ids)
        if pairs is None:
            return
        self._saving |= {request.request_id: pairs}
        self._num_tokens |= {request.request_id: request.num_computed_tokens}

    def load(self, request: Request, block_ids: Sequence[int], start: int) -> None:
        if request.request_id in self.pool:
            self._loading |= {request.request_id: self.pool.fetch(request.request_id, block_ids, start)}

    def request_finished(self, request: Request) -> None:
        self._leave([request.request_id])

    def end_step(self, result: KVResult | None) -> None:
        self._leave(tuple(self._saving) if result is None else self._loading)
        self._saving.clear()
        self._loading.clear()

    def _leave(self, names):
        for name in names:
            self.pool.free(name)
            for book in (self._num_tokens, self._saving):
                book.pop(name, None)


class OffloadingKVCacheManager(ReferenceOffloadingKVCacheManager):
    """What is not defined here is the reference's."""

    def get_computed_blocks(self, request: Request) -> tuple[list[KVCacheBlock], int]:
        hits, found = super().get_computed_blocks(request)
        return hits, found + self._num_loadable_tokens(request, found)

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        name, start = request.request_id, len(computed_blocks)
        if name in self._tables:
            return super().allocate_slots(request, num_new_tokens, computed_blocks)
        hit = start * self.block_size
        num_behind = self._num_loadable_tokens(request, hit)
        num_tokens = hit + num_behind + num_new_tokens
        if self.num_blocks_needed(request, num_tokens, computed_blocks) > self.num_free_blocks:
            return None
        if computed_blocks:
            self.block_pool.touch(computed_blocks)
            self._tables[name] = list(computed_blocks)
        with self._counter_at(request, hit + num_behind):
            new = super().allocate_slots(request, num_new_tokens)
        blocks = [block.block_id for block in new[: -(-num_behind // self.block_size)]]
        self.connector.load(request, blocks, start)
        self._loads[name] = Load(request, hit, hit + num_behind)
        return new

    @contextmanager
    def _counter_at(self, request: Request, num_tokens: int):
        before, request.num_computed_tokens = request.num_computed_tokens, num_tokens
        try:
            yield
        finally:
            request.num_computed_tokens = before

    def free(self, request: Request) -> None:
        count = request.num_computed_tokens
        if request.is_finished:
            self.connector.request_finished(request)
        elif count and not (self.preemption_mode == "cheaper" and not self.cost.swap_is_cheaper(count)):
            num_blocks, rest = divmod(count, self.block_size)
            self.connector.save(request, self.get_block_ids(request.request_id)[: num_blocks + bool(rest)])
        super().free(request)

    def end_step(self, result: KVResult | None) -> None:
        self.connector.end_step(result)
        self._loads = {}
