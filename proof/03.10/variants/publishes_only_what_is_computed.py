"""What is copied in counts as computed while slots are given, so its blocks are not in the prefix cache again.

That costs a hit now and then and is right all the same. The counter is put back before anybody looks.
"""

from collections.abc import Sequence
from contextlib import contextmanager

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.offload.swap import PreemptionCost as ReferencePreemptionCost
from mini_vllm.offload.swap import SwappingKVCacheManager as ReferenceSwappingKVCacheManager
from mini_vllm.request import Request


class PreemptionCost(ReferencePreemptionCost):
    """What is not defined here is the reference's."""

    def recompute(self, num_tokens: int) -> float:
        return num_tokens * (self.seconds_per_token + self.seconds_per_pair * num_tokens / 2)

    def swap(self, num_tokens: int) -> float:
        return self.seconds_per_copy * 2 + self.bytes_per_token * 2 * num_tokens / self.bandwidth

    def swap_is_cheaper(self, num_tokens: int) -> bool:
        return min((self.recompute(num_tokens), 0), (self.swap(num_tokens), 1))[1] == 1


class SwappingKVCacheManager(ReferenceSwappingKVCacheManager):
    """What is not defined here is the reference's."""

    @contextmanager
    def _counter_at(self, request: Request, num_tokens: int):
        before, request.num_computed_tokens = request.num_computed_tokens, num_tokens
        try:
            yield
        finally:
            request.num_computed_tokens = before

    def swap_out(self, request: Request) -> None:
        if request.request_id in self._swapped:
            return
        num_blocks, rest = divmod(request.num_computed_tokens, self.block_size)
        table = self.get_block_ids(request.request_id)[: num_blocks + bool(rest)]
        pairs = self.swap_space.swap_out(request.request_id, table)
        if pairs is None:
            return
        self._swapping_out |= {request.request_id: pairs}
        self._swapped |= {request.request_id: request.num_computed_tokens}

    def get_computed_blocks(self, request: Request) -> tuple[list[KVCacheBlock], int]:
        hits, found = super().get_computed_blocks(request)
        return hits, sorted([found, self._swapped.get(request.request_id, 0)])[1]

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        name, start = request.request_id, len(computed_blocks)
        if name in self._tables or name not in self._swapped:
            return super().allocate_slots(request, num_new_tokens, computed_blocks)
        num_behind = self._swapped[name] - min(self._swapped[name], start * self.block_size)
        with self._counter_at(request, num_behind):
            new = super().allocate_slots(request, num_new_tokens, computed_blocks)
        if new is None:
            return None
        num_copied = -(-num_behind // self.block_size)
        blocks = [block.block_id for block in new[:num_copied]]
        self._swapping_in[name] = self.swap_space.swap_in(name, blocks, start)
        self._hits[name] = start * self.block_size
        return new

    def free(self, request: Request) -> None:
        super().free(request)
        if request.is_finished:
            self._leave([request.request_id])

    def confirm_copies(self) -> None:
        self._swapping_out.clear()
        self._leave(self._hits)
        self._swapping_in.clear()
        self._hits.clear()

    def drop_copies(self) -> None:
        self._leave(tuple(self._swapping_out))
        self._swapping_in.clear()
        self._hits.clear()

    def _leave(self, names):
        for name in names:
            self.swap_space.free(name)
            for book in (self._swapped, self._swapping_out):
                book.pop(name, None)
