"""The promises are kept by the new block: one that is given away again in the same step takes its promise along."""

from collections.abc import Sequence

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.policies.v0.fork import ForkingKVCacheManager as ReferenceForkingKVCacheManager
from mini_vllm.request import Request


class ForkingKVCacheManager(ReferenceForkingKVCacheManager):
    """What is not defined here is the reference's."""

    def fork(self, parent: Request, child: Request) -> None:
        self.block_pool.touch(self._tables.get(parent.request_id, ()))
        for block in self._tables.get(parent.request_id, ()):
            self._tables.setdefault(child.request_id, []).append(block)
        child.block_hashes = parent.block_hashes[:]

    def num_blocks_needed(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()) -> int:
        return super().num_blocks_needed(request, num_tokens, computed_blocks) + sum(
            block.ref_cnt > 1 for block in self._written(request, num_tokens)
        )

    def _written(self, request: Request, num_tokens: int) -> list[KVCacheBlock]:
        """The blocks of the table into which the tokens [computed, num_tokens) go."""
        table = self._tables.get(request.request_id, [])
        return table[request.num_computed_tokens // self.block_size : -(-num_tokens // self.block_size)]

    def num_blocks_to_append(self, requests: Sequence[Request]) -> int:
        partial = {
            self._tables[request.request_id][-1].block_id: True
            for request in requests
            if request.num_computed_tokens % self.block_size
        }
        return len(requests) - len(partial)

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        num_tokens = request.num_computed_tokens + num_new_tokens
        if not computed_blocks and self.num_blocks_needed(request, num_tokens) > self.num_free_blocks:
            return None
        if not isinstance(self._copies, dict):
            self._copies = {}
        for old in [block for block in self._written(request, num_tokens) if block.ref_cnt > 1]:
            new = self.block_pool.get_new_blocks(1)[0]
            table = self._tables[request.request_id]
            table[table.index(old)] = new
            self.block_pool.free_blocks((old,))
            self._copies[new.block_id] = old.block_id
        return super().allocate_slots(request, num_new_tokens, computed_blocks)

    def take_copies(self):
        promised, self._copies = dict(self._copies or {}), {}
        return [(old, new) for new, old in promised.items() if self.block_pool.blocks[new].ref_cnt]
