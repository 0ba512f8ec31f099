"""Lab 03.11: Fork and copy-on-write (40 minutes). What must hold is in contract.md."""

from collections.abc import Sequence

from labkit import todo
from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.policies.v0.fork import ForkingKVCacheManager as ReferenceForkingKVCacheManager
from mini_vllm.request import Request
from mini_vllm.step import BlockPair


class ForkingKVCacheManager(ReferenceForkingKVCacheManager):
    """What is not defined here is the reference's."""

    def fork(self, parent: Request, child: Request) -> None:
        """Give child, which holds nothing and has the tokens of parent, the blocks of parent."""
        todo("03.11")

    def num_blocks_needed(
        self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> int:
        """Copy on write counts too: one block more for each shared block that the tokens are
        written into.
        """
        todo("03.11")

    def num_blocks_to_append(self, requests: Sequence[Request]) -> int:
        """How many free blocks it takes for every one of these requests to compute one token more.

        Changes nothing.

        They are fewer than the sum of num_blocks_needed: of the requests that share a block, the
        last one writes in place. All requests that share a partial block have to be among them.
        """
        todo("03.11")

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        """Copy on write: a shared block is replaced by a private copy before this step writes into
        it.
        """
        todo("03.11")

    def take_copies(self) -> list[BlockPair]:
        """The copies, (block, block), that the tables rely on since the last call: for the coming
        step to make.
        """
        todo("03.11")
