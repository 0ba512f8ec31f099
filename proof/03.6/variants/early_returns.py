"""It answers case by case and returns early; the watermark is worked out anew."""

from collections.abc import Sequence

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler as ReferenceScheduler


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def _clamp_new_tokens(self, num_new_tokens: int, token_budget: int) -> int:
        if num_new_tokens > token_budget:
            num_new_tokens = token_budget
        if len(self._requests) == 1 or self.long_prefill_token_threshold == 0:
            return num_new_tokens
        if num_new_tokens > self.long_prefill_token_threshold:
            return self.long_prefill_token_threshold
        return num_new_tokens

    def _may_admit(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock]) -> bool:
        if self.reserve_full_sequence and request.num_tokens > num_tokens:
            return self._may_admit_tokens(request, request.num_tokens, computed_blocks)
        return self._may_admit_tokens(request, num_tokens, computed_blocks)

    def _may_admit_tokens(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock]) -> bool:
        kv = self.kv_cache_manager
        needed = kv.num_blocks_needed(request, num_tokens, computed_blocks)
        if needed > kv.num_free_blocks:
            return False
        if not self.running:
            return True
        return kv.num_free_blocks - needed >= int(self.watermark * kv.num_blocks)
