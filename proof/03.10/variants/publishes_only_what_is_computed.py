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
