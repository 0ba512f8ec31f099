"""What one step computes, by the state that its requests are in: prompts, next tokens, and what a
preemption lost.
"""

import re
from collections import Counter
from typing import Any, NamedTuple

from mini_vllm.request import Request
from mini_vllm.scheduler import SchedulerOutput

REQUEST_ID = re.compile(r"(?:(\d+)_)?[a-z]+-(\w{6})\w*(-\d+)?")
BUCKETS = ("prefill", "decode", "resumed")


class StepPlan(NamedTuple):
    """A step as it was decided. participants: (request id, bucket, number of tokens), in scheduling
    order.

    num_expected: how many requests are to get a token. graph: "decode 8" for a step of one token
    for each of 8 requests, "drafts 8" if each has equally many drafts behind it, which a CUDA graph
    could replay whole; "" for a mixed step. Source: BatchDescriptor in vllm/forward_context.py.
    """

    step: int
    participants: list[tuple[str, str, int]]
    num_expected: int
    graph: str

    @classmethod
    def of(cls, step: int, output: SchedulerOutput) -> "StepPlan":
        """Call it after schedule() and before the step is computed. O(batch size)."""
        participants, num_expected = [], 0
        for request in output.scheduled_requests:
            n = output.num_scheduled_tokens[request.request_id]
            participants.append((request.request_id, bucket_of(request), n))
            num_expected += request.num_computed_tokens + n >= request.num_tokens
        length = output.uniform_query_len
        kind = "decode" if length == 1 else "drafts" if length and output.drafts else ""
        return cls(step, participants, num_expected, kind and f"{kind} {len(participants)}")

    @property
    def num_tokens(self) -> dict[str, int]:
        """Tokens that are computed, by bucket."""
        counts = Counter(dict.fromkeys(BUCKETS, 0))
        for _, bucket, n in self.participants:
            counts[bucket] += n
        return counts

    def as_json(self) -> dict[str, Any]:
        """The step, with short names."""
        participants = [
            [short_name(name), bucket, num_tokens] for name, bucket, num_tokens in self.participants
        ]
        return {"step": self.step, "participants": participants, "graph": self.graph}


def short_name(request_id: str) -> str:
    """Six digits of a request's id; then "-2" for prompt 2 and ".1" for choice 1, if there are
    several.
    """
    match = REQUEST_ID.fullmatch(request_id)
    if match is None:
        return request_id[:8]
    choice, digits, prompt = match.groups()
    return digits + (prompt or "") + (f".{choice}" if choice else "")


def bucket_of(request: Request) -> str:
    """Why a request is in a step: it computes its prompt, or its next token, or what it has lost by
    a preemption.
    """
    num_computed = request.num_computed_tokens
    if num_computed + 1 >= request.num_tokens and num_computed >= request.num_prompt_tokens:
        return "decode"
    return "resumed" if request.num_preemptions else "prefill"
