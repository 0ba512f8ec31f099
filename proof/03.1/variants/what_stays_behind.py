"""It reckons with what is left over: what the chunk leaves behind, and what is behind after the step."""

from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler as ReferenceScheduler


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def _clamp_new_tokens(self, num_new_tokens: int, token_budget: int) -> int:
        left_behind = max(num_new_tokens - token_budget, 0)
        return num_new_tokens - left_behind

    @staticmethod
    def needs_sample(request: Request, num_scheduled: int) -> bool:
        behind = request.num_tokens - request.num_computed_tokens
        return behind - num_scheduled == 0
