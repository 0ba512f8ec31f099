"""Both rules are functions of the module; the class only binds them, and notes for a person what it was asked."""

from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler as ReferenceScheduler


def at_most(wanted: int, limit: int) -> int:
    return wanted if wanted <= limit else limit


def has_caught_up(request: Request, num_scheduled: int) -> bool:
    num_known = len(request.prompt_token_ids) + len(request.output_token_ids)
    return not num_known - request.num_computed_tokens - num_scheduled


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    asked: list = []

    def _clamp_new_tokens(self, num_new_tokens: int, token_budget: int) -> int:
        self.asked.append((num_new_tokens, token_budget))
        return at_most(*self.asked.pop())

    needs_sample = staticmethod(has_caught_up)
