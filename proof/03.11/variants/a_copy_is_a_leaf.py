"""Who holds a block is asked of its count; a refusal is decided by the free blocks that would be left. Lists of pairs."""

from collections.abc import Iterator, Sequence

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.policies.v0.fork import ForkingKVCacheManager as ReferenceForkingKVCacheManager
from mini_vllm.request import Request


class ForkingKVCacheManager(ReferenceForkingKVCacheManager):
    """What is not defined here is the reference's."""

    def fork(self, parent: Request, child: Request) -> None:
        names = list(parent.block_hashes)
        child.block_hashes.clear()
        child.block_hashes.extend(names)
        for block in self._tables.get(parent.request_id, ()):
            self.block_pool.touch([block])
            self._tables.setdefault(child.request_id, []).append(block)

    def _to_replace(self, request: Request, num_tokens: int) -> Iterator[tuple[int, KVCacheBlock]]:
        for i, block in enumerate(self._tables.get(request.request_id, ())):
            is_written = i * self.block_size < num_tokens and (i + 1) * self.block_size > request.num_computed_tokens
            if is_written and block.ref_cnt > 1:
                yield i, block

    def num_blocks_needed(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()) -> int:
        usual = super().num_blocks_needed(request, num_tokens, computed_blocks)
        return usual + sum(1 for _ in self._to_replace(request, num_tokens))

    def num_blocks_to_append(self, requests: Sequence[Request]) -> int:
        needed = {r.request_id: self.num_blocks_needed(r, r.num_computed_tokens + 1) for r in requests}
        last = {}
        for request in requests:
            if request.num_computed_tokens % self.block_size and needed[request.request_id]:
                last[self._tables[request.request_id][-1].block_id] = request.request_id
        return sum(needed.values()) - len(last)

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        end = request.num_computed_tokens + num_new_tokens
        if self.num_free_blocks - self.num_blocks_needed(request, end, computed_blocks) < 0:
            return None
        for i, block in list(self._to_replace(request, end)):
            fresh = self.block_pool.get_new_blocks(1)[0]
            self._tables[request.request_id][i] = fresh
            self._copies.append([block.block_id, fresh.block_id])
            self.block_pool.free_blocks([block])
        return super().allocate_slots(request, num_new_tokens, computed_blocks)

    def take_copies(self) -> list[tuple[int, int]]:
        copies = list(self._copies)
        del self._copies[:]
        return copies
