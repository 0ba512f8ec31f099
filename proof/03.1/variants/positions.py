"""It thinks in positions: the chunk is a range of them, and the step speaks if it computes the last known one."""

from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler as ReferenceScheduler


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def _clamp_new_tokens(self, num_new_tokens: int, token_budget: int) -> int:
        return len(range(num_new_tokens)[:token_budget])

    @staticmethod
    def needs_sample(request: Request, num_scheduled: int) -> bool:
        computed_now = range(request.num_computed_tokens, request.num_computed_tokens + num_scheduled)
        return len(request.all_token_ids) - 1 in computed_now
