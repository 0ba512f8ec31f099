"""It makes a small object of the tokens that a step computes, and asks it for its size and where it ends."""

from typing import NamedTuple

from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler as ReferenceScheduler


class Chunk(NamedTuple):
    start: int
    stop: int

    def within(self, limit: int) -> "Chunk":
        return Chunk(self.start, sorted((self.start, self.stop, self.start + limit))[1])


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def _clamp_new_tokens(self, num_new_tokens: int, token_budget: int) -> int:
        chunk = Chunk(0, num_new_tokens).within(token_budget)
        return chunk.stop - chunk.start

    @staticmethod
    def needs_sample(request: Request, num_scheduled: int) -> bool:
        chunk = Chunk(request.num_computed_tokens, request.num_computed_tokens + num_scheduled)
        return chunk == chunk._replace(stop=request.num_tokens)
