"""Forks: two requests with one past, and copy-on-write when their futures part.

A child begins with its parent's block table: every block in it is held once more and stored once. A
full block is never written again, so it stays shared. The last block may be partial. A request that
writes into it while another one holds it takes a block of its own, and the runner copies what is
there (KVPlan.copy). The last holder writes in place. Source: fork and append_slots of
BlockSpaceManager in vLLM V0 (vllm/core/block_manager.py), section 4.4 of the PagedAttention paper
(Kwon et al., 2023). V1 has no forks: there n > 1 meets in the prefix cache, mostly in full blocks.
"""

from collections.abc import Mapping, Sequence

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.request import Request
from mini_vllm.step import BlockPair, KVPlan


class ForkingKVCacheManager(KVCacheManager):
    """A KVCacheManager whose block tables may share a block that is still being filled."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._copies: list[BlockPair] = []

    def fork(self, parent: Request, child: Request) -> None:
        """Give child, which holds nothing and has the tokens of parent, the blocks of parent."""
        assert child.request_id not in self._tables, f"{child.request_id!r} holds blocks already"
        table = self._tables.get(parent.request_id, [])
        if table:
            self.block_pool.touch(table)
            self._tables[child.request_id] = list(table)
        child.block_hashes = list(parent.block_hashes)

    def take_copies(self) -> list[BlockPair]:
        """The copies, (block, block), that the tables rely on since the last call: for the coming
        step to make.
        """
        copies, self._copies = self._copies, []
        return copies

    def begin_step(self) -> KVPlan:
        """The copies of the step, and the requests whose tables name a copy instead of what they
        named before.
        """
        copies = self.take_copies()
        new = {self.block_pool.blocks[block_id] for _, block_id in copies}
        rewritten = tuple(
            name for name, table in self._tables.items() if new and not new.isdisjoint(table)
        )
        return KVPlan(copy=tuple(copies), rewritten_req_ids=rewritten)

    def num_blocks_needed(
        self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> int:
        """Copy on write counts too: one block more for each shared block that the tokens are
        written into.
        """
        num_copies = len(self._shared_blocks(request, num_tokens))
        return super().num_blocks_needed(request, num_tokens, computed_blocks) + num_copies

    def num_blocks_to_append(self, requests: Sequence[Request]) -> int:
        """How many free blocks it takes for every one of these requests to compute one token more.

        Changes nothing.

        They are fewer than the sum of num_blocks_needed: of the requests that share a block, the
        last one writes in place. All requests that share a partial block have to be among them.
        """
        partial = [request for request in requests if request.num_computed_tokens % self.block_size]
        return len(requests) - len(
            {self._tables[request.request_id][-1].block_id for request in partial}
        )

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        """Copy on write: a shared block is replaced by a private copy before this step writes into
        it.
        """
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

    def computed_prefix(self, request: Request, num_tokens: int) -> list[KVCacheBlock]:
        """The blocks of the request that are full of its first num_tokens tokens, for another with
        the same ones.
        """
        return self._tables.get(request.request_id, [])[: num_tokens // self.block_size]

    def rebuild(self, tables: Mapping[str, Sequence[int]]) -> None:
        """Give requests that hold nothing tables of new blocks, shared as the numbers in `tables`
        are: one block each.

        Raises ValueError, with nothing changed, if too few are free.
        """
        numbers = list(dict.fromkeys(number for table in tables.values() for number in table))
        places = dict(zip(numbers, self.block_pool.get_new_blocks(len(numbers)), strict=True))
        for request_id, table in tables.items():
            assert request_id not in self._tables, f"{request_id!r} holds blocks already"
            self._tables[request_id] = [places[number] for number in table]
            for number in table:
                places[number].ref_cnt += 1
        for block in places.values():
            block.ref_cnt -= 1  # get_new_blocks counted one holder, before there was any

    def _shared_blocks(self, request: Request, num_tokens: int) -> list[int]:
        """Which blocks of the table would be written while other requests hold them, as indices."""
        table = self._tables.get(request.request_id, ())
        end = min(-(-num_tokens // self.block_size), len(table))
        return [
            i
            for i in range(request.num_computed_tokens // self.block_size, end)
            if table[i].ref_cnt > 1
        ]
