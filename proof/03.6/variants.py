# === a_list_of_limits
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


# === asks_for_the_latest_refusal
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


# === counted_by_hand
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


# === early_returns
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


# === how_many_tokens_fit
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
