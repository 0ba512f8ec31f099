"""It asks for a reason to refuse; a note of the last reason is kept for a person and decides nothing."""

from collections.abc import Iterator, Sequence

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler as ReferenceScheduler


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    last_reason = ""

    def _clamp_new_tokens(self, num_new_tokens: int, token_budget: int) -> int:
        threshold = self.long_prefill_token_threshold or num_new_tokens
        alone = len(self.requests) < 2
        wanted = num_new_tokens if alone or num_new_tokens <= threshold else threshold
        return token_budget if token_budget <= wanted else wanted

    def _reasons(self, num_needed: int) -> Iterator[str]:
        left = self.kv_cache_manager.num_free_blocks - num_needed
        if left < 0:
            yield f"{-left} blocks too few are free"
        elif self.running and left < self.num_watermark_blocks:
            yield f"{left} would be left of {self.num_watermark_blocks}"

    def _may_admit(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock]) -> bool:
        far = max(num_tokens, request.num_tokens) if self.reserve_full_sequence else num_tokens
        needed = self.kv_cache_manager.num_blocks_needed(request, far, computed_blocks)
        self.last_reason = next(self._reasons(needed), "")
        return not self.last_reason
