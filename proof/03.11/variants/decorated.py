"""Its methods are wrapped by a decorator of its own, as one does to log calls."""

import functools
from collections.abc import Sequence

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.policies.v0.fork import ForkingKVCacheManager as ReferenceForkingKVCacheManager
from mini_vllm.request import Request
from mini_vllm.step import BlockPair


def noted(method):
    @functools.wraps(method)
    def call(*arguments, **options):
        return method(*arguments, **options)

    return call


class ForkingKVCacheManager(ReferenceForkingKVCacheManager):
    """What is not defined here is the reference's."""

    @noted
    def fork(self, parent: Request, child: Request) -> None:
        """Give child, which holds nothing and has the tokens of parent, the blocks of parent."""
        assert child.request_id not in self._tables, f"{child.request_id!r} holds blocks already"
        table = self._tables.get(parent.request_id, [])
        if table:
            self.block_pool.touch(table)
            self._tables[child.request_id] = list(table)
        child.block_hashes = list(parent.block_hashes)

    @noted
    def num_blocks_needed(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()) -> int:
        """Copy on write counts too: one block more for each shared block that the tokens are written into."""
        num_copies = len(self._shared_blocks(request, num_tokens))
        return super().num_blocks_needed(request, num_tokens, computed_blocks) + num_copies

    def num_blocks_to_append(self, requests: Sequence[Request]) -> int:
        """How many free blocks it takes for every one of these requests to compute one token more. Changes nothing.

        They are fewer than the sum of num_blocks_needed: of the requests that share a block, the last one writes in
        place. All requests that share a partial block have to be among them.
        """
        partial = [request for request in requests if request.num_computed_tokens % self.block_size]
        return len(requests) - len({self._tables[request.request_id][-1].block_id for request in partial})

    @noted
    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        """Copy on write: a shared block is replaced by a private copy before this step writes into it."""
        num_tokens = request.num_computed_tokens + num_new_tokens
        shared = self._shared_blocks(request, num_tokens)
        if shared:
            if self.num_blocks_needed(request, num_tokens) > self.num_free_blocks:
                return None
            table = self._tables[request.request_id]
            for i, copy in zip(shared, self.block_pool.get_new_blocks(len(shared)), strict=True):
                self._copies.append((table[i].block_id, copy.block_id))
                self.block_pool.free_blocks([table[i]])
                table[i] = copy
        return super().allocate_slots(request, num_new_tokens, computed_blocks)

    def take_copies(self) -> list[BlockPair]:
        """The copies, (block, block), that the tables rely on since the last call: for the coming step to make."""
        copies, self._copies = self._copies, []
        return copies

    def _shared_blocks(self, request: Request, num_tokens: int) -> list[int]:
        """Which blocks of the table would be written while others hold them, as indices."""
        table = self._tables.get(request.request_id, ())
        end = min(-(-num_tokens // self.block_size), len(table))
        return [i for i in range(request.num_computed_tokens // self.block_size, end) if table[i].ref_cnt > 1]
