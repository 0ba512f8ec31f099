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
