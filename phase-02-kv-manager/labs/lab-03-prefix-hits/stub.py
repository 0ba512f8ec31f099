"""Lab 02.3: Block hashes and the longest hit (30 minutes). What must hold is in contract.md."""

from collections.abc import Hashable

from labkit import todo
from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.kv_cache import KVCacheManager as ReferenceKVCacheManager
from mini_vllm.request import Request


class KVCacheManager(ReferenceKVCacheManager):
    """What is not defined here is the reference's."""

    def _block_hashes(self, request: Request) -> list[Hashable]:
        """The hashes of the request's full blocks.

        They depend on its tokens alone, so it remembers them.
        """
        todo("02.3")

    def get_computed_blocks(self, request: Request) -> tuple[list[KVCacheBlock], int]:
        """Find the longest cached prefix: its blocks and how many tokens they hold.

        Changes nothing.

        At most num_tokens - 1 tokens, rounded down to blocks: the last token is always computed,
        since its logits are needed. So a prompt that is cached to the last token still computes its
        whole last block.
        """
        todo("02.3")
