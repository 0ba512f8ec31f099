"""Position by position: pairs are put together from the two tables, a preemption is paid token by token."""

from collections.abc import Sequence

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.offload.swap import PreemptionCost as ReferencePreemptionCost
from mini_vllm.offload.swap import SwappingKVCacheManager as ReferenceSwappingKVCacheManager
from mini_vllm.request import Request


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


class SwappingKVCacheManager(ReferenceSwappingKVCacheManager):
    """What is not defined here is the reference's."""

    def swap_out(self, request: Request) -> None:
        name = request.request_id
        if name in self._swapped:
            return
        table = self.get_block_ids(name)
        begun = [block for i, block in enumerate(table) if i * self.block_size < request.num_computed_tokens]
        if len(begun) > self.swap_space.num_free_blocks:
            return
        self._swapped[name] = request.num_computed_tokens
        self.swap_space.swap_out(name, begun)
        self._swapping_out[name] = [*zip(begun, self.swap_space.get_block_ids(name), strict=True)]

    def get_computed_blocks(self, request: Request) -> tuple[list[KVCacheBlock], int]:
        hits, found = super().get_computed_blocks(request)
        if request.request_id in self._swapped and self._swapped[request.request_id] > found:
            found = self._swapped[request.request_id]
        return hits, found

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        name = request.request_id
        is_back = name in self._swapped and not self.get_block_ids(name)
        if is_back:
            num_new_tokens += max(self._swapped[name], len(computed_blocks) * self.block_size)
            num_new_tokens -= len(computed_blocks) * self.block_size
        new = super().allocate_slots(request, num_new_tokens, computed_blocks)
        if is_back and new is not None:
            pairs = []
            cpu_blocks = self.swap_space.get_block_ids(name)
            for place, block in enumerate(self.get_block_ids(name)):
                if len(computed_blocks) <= place < len(cpu_blocks):
                    pairs.append((cpu_blocks[place], block))
            self._swapping_in[name] = pairs
            self._hits[name] = len(computed_blocks) * self.block_size
        return new

    def free(self, request: Request) -> None:
        if request.is_finished:
            self._swapped.pop(request.request_id, None)
            self._swapping_out.pop(request.request_id, None)
            self.swap_space.free(request.request_id)
        super().free(request)

    def confirm_copies(self) -> None:
        while self._hits:
            name, _ = self._hits.popitem()
            self._swapped.pop(name, None)
            self._swapping_in.pop(name, None)
            self.swap_space.free(name)
        self._swapping_out = {}

    def drop_copies(self) -> None:
        while self._swapping_out:
            name, _ = self._swapping_out.popitem()
            self._swapped.pop(name)
            self.swap_space.free(name)
        self._swapping_in = {}
        self._hits = {}
