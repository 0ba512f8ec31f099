"""Who found all of it on the device leaves the pool at once: nothing has to come from there.

Pairs are told in another order, too, the last block first.
"""

from collections.abc import Sequence

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.offload.swap import PreemptionCost as ReferencePreemptionCost
from mini_vllm.offload.swap import SwappingKVCacheManager as ReferenceSwappingKVCacheManager
from mini_vllm.request import Request


class PreemptionCost(ReferencePreemptionCost):
    """What is not defined here is the reference's."""

    def recompute(self, num_tokens: int) -> float:
        return (2 * self.seconds_per_token + num_tokens * self.seconds_per_pair) * num_tokens / 2

    def swap(self, num_tokens: int) -> float:
        num_bytes = 2 * num_tokens * self.bytes_per_token
        return num_bytes / self.bandwidth + self.seconds_per_copy + self.seconds_per_copy

    def swap_is_cheaper(self, num_tokens: int) -> bool:
        return self.recompute(num_tokens) > self.swap(num_tokens)


class SwappingKVCacheManager(ReferenceSwappingKVCacheManager):
    """What is not defined here is the reference's."""

    def swap_out(self, request: Request) -> None:
        name, count, size = request.request_id, request.num_computed_tokens, self.block_size
        if self._swapped.get(name) is None:
            last = (count - 1) // size
            pairs = self.swap_space.swap_out(name, self.get_block_ids(name)[: last + 1])
            if pairs is not None:
                self._swapping_out.update({name: pairs[::-1]})
                self._swapped.update({name: count})

    def get_computed_blocks(self, request: Request) -> tuple[list[KVCacheBlock], int]:
        hits, found = super().get_computed_blocks(request)
        swapped = self._swapped.get(request.request_id)
        if swapped is None:
            return hits, found
        return hits, found + max(0, swapped - found)

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        name, first = request.request_id, len(computed_blocks)
        missing = self._swapped.get(name, 0) - first * self.block_size
        if name in self._tables or missing <= 0:
            new = super().allocate_slots(request, num_new_tokens, computed_blocks)
            if new is not None and name in self._swapped:
                self._forget(name)
            return new
        new = super().allocate_slots(request, missing + num_new_tokens, computed_blocks)
        if new is not None:
            targets = [block.block_id for block in new][: (missing - 1) // self.block_size + 1]
            self._swapping_in[name] = self.swap_space.swap_in(name, targets, first)[::-1]
            self._hits[name] = first * self.block_size
        return new

    def free(self, request: Request) -> None:
        super().free(request)
        if request.is_finished:
            self._forget(request.request_id)

    def _forget(self, name: str) -> None:
        if name in self._swapped:
            del self._swapped[name]
            self.swap_space.free(name)
        if name in self._swapping_out:
            del self._swapping_out[name]

    def confirm_copies(self) -> None:
        back, self._hits = self._hits, {}
        self._swapping_out, self._swapping_in = {}, {}
        for name in back:
            self._forget(name)

    def drop_copies(self) -> None:
        doubtful, self._swapping_out = self._swapping_out, {}
        self._hits, self._swapping_in = {}, {}
        for name in doubtful:
            self._forget(name)
