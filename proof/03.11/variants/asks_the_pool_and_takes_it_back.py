"""It takes what it may need before it looks, and gives it back if it was too much; who holds what is counted in tables."""

from collections import Counter
from collections.abc import Sequence

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.policies.v0.fork import ForkingKVCacheManager as ReferenceForkingKVCacheManager
from mini_vllm.request import Request


class ForkingKVCacheManager(ReferenceForkingKVCacheManager):
    """What is not defined here is the reference's."""

    def fork(self, parent: Request, child: Request) -> None:
        child.num_computed_tokens = parent.num_computed_tokens
        child.block_hashes = parent.block_hashes[: child.num_tokens // self.block_size]
        blocks = [self.block_pool.blocks[i] for i in self.get_block_ids(parent.request_id)]
        self.block_pool.touch(blocks)
        if blocks:
            self._tables[child.request_id] = blocks

    def _holders(self) -> Counter:
        return Counter(block.block_id for table in self._tables.values() for block in table)

    def _written_and_shared(self, request: Request, num_tokens: int) -> list[int]:
        holders = self._holders()
        written = {p // self.block_size for p in range(request.num_computed_tokens, num_tokens)}
        table = self.get_block_ids(request.request_id)
        return sorted(i for i in written if i < len(table) and holders[table[i]] > 1)

    def num_blocks_needed(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()) -> int:
        usual = KVCacheManager.num_blocks_needed(self, request, num_tokens, computed_blocks)
        return usual + len(self._written_and_shared(request, num_tokens))

    def num_blocks_to_append(self, requests: Sequence[Request]) -> int:
        left = self._holders()
        needed = 0
        for request in requests:
            table = self.get_block_ids(request.request_id)
            place = request.num_computed_tokens // self.block_size
            if place >= len(table):
                needed += 1
            elif left[table[place]] > 1:
                left[table[place]] -= 1
                needed += 1
        return needed

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        shared = self._written_and_shared(request, request.num_computed_tokens + num_new_tokens)
        try:
            copies = self.block_pool.get_new_blocks(len(shared))
        except ValueError:
            return None
        table = self._tables.get(request.request_id, [])
        old = [table[i] for i in shared]
        for i, copy in zip(shared, copies):
            table[i] = copy
        given = KVCacheManager.allocate_slots(self, request, num_new_tokens, computed_blocks)
        if given is None:
            for i, block in zip(shared, old):
                table[i] = block
            self.block_pool.free_blocks(copies)
            return None
        self.block_pool.free_blocks(old)
        self._copies = self._copies + [(block.block_id, copy.block_id) for block, copy in zip(old, copies)]
        return [*copies, *given]

    def take_copies(self) -> list[tuple[int, int]]:
        try:
            return self._copies
        finally:
            self._copies = []
