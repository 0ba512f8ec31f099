"""Each request in the pool has a record with its state: it goes out, it waits, it comes back."""

from collections.abc import Sequence
from dataclasses import dataclass

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.offload.swap import PreemptionCost as ReferencePreemptionCost
from mini_vllm.offload.swap import SwappingKVCacheManager as ReferenceSwappingKVCacheManager
from mini_vllm.request import Request


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


class SwappingKVCacheManager(ReferenceSwappingKVCacheManager):
    """What is not defined here is the reference's."""

    def swap_out(self, request: Request) -> None:
        if request.request_id not in self._swapped:
            num_blocks = (request.num_computed_tokens + self.block_size - 1) // self.block_size
            table = self._tables[request.request_id][:num_blocks]
            pairs = self.swap_space.swap_out(request.request_id, [block.block_id for block in table])
            if pairs is not None:
                self._swapped[request.request_id] = Record(request.num_computed_tokens)
                self._swapping_out[request.request_id] = pairs

    def get_computed_blocks(self, request: Request) -> tuple[list[KVCacheBlock], int]:
        hits, found = super().get_computed_blocks(request)
        record = self._swapped.get(request.request_id)
        return (hits, found) if record is None or record.num_tokens < found else (hits, record.num_tokens)

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        record = self._swapped.get(request.request_id)
        if record is None or record.comes_back:
            return super().allocate_slots(request, num_new_tokens, computed_blocks)
        hit = len(computed_blocks) * self.block_size
        end = max(hit, record.num_tokens) + num_new_tokens
        if self.num_blocks_needed(request, end, computed_blocks) > self.num_free_blocks:
            return None
        new = super().allocate_slots(request, end - hit, computed_blocks)
        held = self.swap_space.get_block_ids(request.request_id)[len(computed_blocks) :]
        self._swapping_in[request.request_id] = [(cpu, block.block_id) for cpu, block in zip(held, new, strict=False)]
        self._hits[request.request_id] = hit
        record.comes_back = True
        return new

    def free(self, request: Request) -> None:
        super().free(request)
        if request.is_finished:
            self._leave(request.request_id)

    def _leave(self, name: str) -> None:
        self.swap_space.free(name)
        self._swapped.pop(name, None)
        self._swapping_out.pop(name, None)

    def confirm_copies(self) -> None:
        for name, record in [*self._swapped.items()]:
            record.goes_out = False
            if record.comes_back:
                self._leave(name)
        self._end_the_step()

    def drop_copies(self) -> None:
        for name, record in [*self._swapped.items()]:
            record.comes_back = False
            if record.goes_out:
                self._leave(name)
        self._end_the_step()

    def _end_the_step(self) -> None:
        for book in (self._swapping_out, self._swapping_in, self._hits):
            book.clear()
