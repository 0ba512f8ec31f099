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
