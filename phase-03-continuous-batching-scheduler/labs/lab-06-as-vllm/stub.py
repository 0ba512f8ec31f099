"""Lab 03.6: As vLLM does it: the finer rules (40 minutes). What must hold is in contract.md."""

from collections.abc import Sequence

from labkit import todo
from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler as ReferenceScheduler


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def _clamp_new_tokens(self, num_new_tokens: int, token_budget: int) -> int:
        """How many of the tokens that a request is behind it may compute in this step: the size of
        its chunk.
        """
        todo("03.6")

    def _may_admit(
        self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock]
    ) -> bool:
        """Whether the free blocks hold the sequence (all of it, or its first num_tokens) and the
        watermark.
        """
        todo("03.6")
