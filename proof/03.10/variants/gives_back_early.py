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
