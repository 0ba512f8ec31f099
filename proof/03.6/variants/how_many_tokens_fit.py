"""It turns the question round: how many tokens could the request have, and is that enough?"""

from collections.abc import Sequence

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler as ReferenceScheduler


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def _clamp_new_tokens(self, num_new_tokens: int, token_budget: int) -> int:
        in_company = bool(self.running and self.waiting) or max(len(self.running), len(self.waiting)) > 1
        threshold = (in_company and self.long_prefill_token_threshold) or token_budget
        return sorted((num_new_tokens, token_budget, threshold))[0]

    def _may_admit(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock]) -> bool:
        kv = self.kv_cache_manager
        to_spend = kv.num_free_blocks
        if self.running:
            to_spend -= self.num_watermark_blocks
        shared = sum(1 for block in computed_blocks if block.ref_cnt)
        most_tokens = (to_spend + shared) * kv.block_size
        wanted = max(request.num_tokens, num_tokens) if self.reserve_full_sequence else num_tokens
        return wanted <= most_tokens
