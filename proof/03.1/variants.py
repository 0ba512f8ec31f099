# === a_chunk_is_an_object
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


# === functions_of_the_module
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


# === outline
"""The lab's own rules and nothing more: the threshold is of 03.6."""

EDITS = [
    (
        """
        threshold = self.long_prefill_token_threshold
        if threshold and len(self._requests) > 1:  # a lone request need not make room for another
            num_new_tokens = min(num_new_tokens, threshold)
""",
        "\n",
    )
]


# === positions
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


# === prompt_and_output_apart
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


# === token_by_token
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


# === what_stays_behind
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
