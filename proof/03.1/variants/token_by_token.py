"""It counts tokens one at a time, and looks for one that the step does not reach."""

from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler as ReferenceScheduler


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def _clamp_new_tokens(self, num_new_tokens: int, token_budget: int) -> int:
        n = 0
        while n < num_new_tokens and n < token_budget:
            n += 1
        return n

    @staticmethod
    def needs_sample(request: Request, num_scheduled: int) -> bool:
        after = request.num_computed_tokens + num_scheduled
        not_reached = request.all_token_ids[after:]
        return num_scheduled > 0 and not not_reached
