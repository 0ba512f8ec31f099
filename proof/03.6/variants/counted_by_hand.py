"""It counts the blocks itself instead of asking the manager, and company from the two lists."""

from collections.abc import Sequence

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler as ReferenceScheduler


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def _clamp_new_tokens(self, num_new_tokens: int, token_budget: int) -> int:
        limits = [num_new_tokens, token_budget]
        if self.long_prefill_token_threshold > 0 and len(self.running) + len(self.waiting) > 1:
            limits.append(self.long_prefill_token_threshold)
        return min(limits)

    def _may_admit(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock]) -> bool:
        kv = self.kv_cache_manager
        size = kv.block_size
        tokens = request.num_tokens if self.reserve_full_sequence else num_tokens
        whole, rest = divmod(tokens, size)
        held_by_others = len([block for block in computed_blocks if block.ref_cnt > 0])
        needed = whole + (rest > 0) - held_by_others
        left_over = kv.num_free_blocks - needed
        return left_over >= (self.num_watermark_blocks if len(self.running) else 0)
