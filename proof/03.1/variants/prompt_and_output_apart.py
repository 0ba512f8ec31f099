"""It counts prompt and output apart, and asks for both; the chunk comes from a sorted pair."""

from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler as ReferenceScheduler


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def _clamp_new_tokens(self, num_new_tokens: int, token_budget: int) -> int:
        smaller, _ = sorted((num_new_tokens, token_budget))
        return smaller

    @staticmethod
    def needs_sample(request: Request, num_scheduled: int) -> bool:
        after = request.num_computed_tokens + num_scheduled
        prompt_done = after >= request.num_prompt_tokens
        return prompt_done and after - request.num_prompt_tokens == len(request.output_token_ids)
