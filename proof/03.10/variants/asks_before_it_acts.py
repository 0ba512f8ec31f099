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
