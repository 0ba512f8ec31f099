"""Each shared block is replaced by itself, and then the call begins again; hashes are made anew by the child."""

from collections.abc import Sequence

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.policies.v0.fork import ForkingKVCacheManager as ReferenceForkingKVCacheManager
from mini_vllm.request import Request


class ForkingKVCacheManager(ReferenceForkingKVCacheManager):
    """What is not defined here is the reference's."""

    def fork(self, parent: Request, child: Request) -> None:
        child.block_hashes = []
        if parent.request_id in self._tables:
            self._tables[child.request_id] = self._tables[parent.request_id].copy()
        for block in self._tables.get(child.request_id, ()):
            block.ref_cnt += 1

    def _next_shared(self, request: Request, num_tokens: int, start: int) -> int | None:
        table = self._tables.get(request.request_id, [])
        for position in range(start, num_tokens):
            i = position // self.block_size
            if i < len(table) and table[i].ref_cnt != 1:
                return i
        return None

    def num_blocks_needed(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()) -> int:
        needed, start = super().num_blocks_needed(request, num_tokens, computed_blocks), request.num_computed_tokens
        while (i := self._next_shared(request, num_tokens, start)) is not None:
            needed, start = needed + 1, (i + 1) * self.block_size
        return needed

    def num_blocks_to_append(self, requests: Sequence[Request]) -> int:
        seen: set[KVCacheBlock] = set()
        needed = 0
        for request in requests:
            i = request.num_computed_tokens // self.block_size
            table = self._tables.get(request.request_id, [])
            if i < len(table) and table[i] not in seen:
                seen.add(table[i])
            else:
                needed += 1
        return needed

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        end = request.num_computed_tokens + num_new_tokens
        if self.num_blocks_needed(request, end, computed_blocks) > self.num_free_blocks:
            return None
        i = self._next_shared(request, end, request.num_computed_tokens)
        if i is None:
            return super().allocate_slots(request, num_new_tokens, computed_blocks)
        table = self._tables[request.request_id]
        [new] = self.block_pool.get_new_blocks(1)
        old, table[i] = table[i], new
        old.ref_cnt -= 1
        self._copies.append((old.block_id, new.block_id))
        return self.allocate_slots(request, num_new_tokens, computed_blocks)

    def take_copies(self) -> list[tuple[int, int]]:
        copies = self._copies[:]
        self._copies.clear()
        return copies
