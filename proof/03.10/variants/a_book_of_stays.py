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
