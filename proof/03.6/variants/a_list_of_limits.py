"""It collects all that limits a chunk and takes the least; admission is a balance of blocks, entry by entry."""

from collections.abc import Sequence

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler as ReferenceScheduler


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def _clamp_new_tokens(self, num_new_tokens: int, token_budget: int) -> int:
        limits = [num_new_tokens, token_budget]
        if len(self.running) + len(self.waiting) >= 2:
            limits += [self.long_prefill_token_threshold] * bool(self.long_prefill_token_threshold)
        return min(limits)

    def _may_admit(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock]) -> bool:
        kv = self.kv_cache_manager
        goal = len(request.prompt_token_ids) + len(request.output_token_ids)
        if not self.reserve_full_sequence:
            goal = num_tokens
        balance = kv.num_free_blocks
        balance -= (goal + kv.block_size - 1) // kv.block_size
        balance += len([block for block in computed_blocks if block.ref_cnt > 0])
        balance -= int(self.watermark * kv.num_blocks) * (len(self.running) > 0)
        return balance >= 0
