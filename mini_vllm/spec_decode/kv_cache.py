"""A KV cache manager that gives a request slots behind the tokens of a step, too.

A draft model writes the K and V of its drafts there before the target computes any of them. So
nothing in these slots is published. Source: num_lookahead_tokens of KVCacheManager.allocate_slots
in vllm/v1/core/kv_cache_manager.py.
"""

from collections.abc import Sequence

from mini_vllm import kv_cache
from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.request import Request


class KVCacheManager(kv_cache.KVCacheManager):
    """num_lookahead_tokens: how many slots more, which the scheduler sets before the first step."""

    num_lookahead_tokens = 0

    def num_slots(self, request: Request, num_tokens: int) -> int:
        """How many slots the first num_tokens tokens take and the lookahead behind them, which is
        cut at the limits.
        """
        limit = request.at_most(self.max_tokens_alone())
        return max(num_tokens, min(num_tokens + self.num_lookahead_tokens, limit))

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        """Slots for num_new_tokens more tokens and the lookahead behind them; or None, with nothing
        changed.
        """
        num_tokens = request.num_computed_tokens + len(computed_blocks) * self.block_size
        num_slots = self.num_slots(request, num_tokens + num_new_tokens)
        if self.num_blocks_needed(request, num_slots, computed_blocks) > self.num_free_blocks:
            return None
        new_blocks = super().allocate_slots(request, num_new_tokens, computed_blocks)
        assert new_blocks is not None, "there is room for more than these"
        ahead = self.block_pool.get_new_blocks(self.num_blocks_needed(request, num_slots))
        self._tables[request.request_id] += ahead
        return new_blocks + ahead
