"""Lab 03.1: How many tokens, and which requests are sampled (15 minutes). What must hold is in contract.md."""

from labkit import todo
from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler as ReferenceScheduler


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def _clamp_new_tokens(self, num_new_tokens: int, token_budget: int) -> int:
        """How many of the tokens that a request is behind it may compute in this step: the size of
        its chunk.
        """
        todo("03.1")

    @staticmethod
    def needs_sample(request: Request, num_scheduled: int) -> bool:
        """Whether this step catches up, so that its last logits predict a new token.

        An inner chunk's do not.
        """
        todo("03.1")
