"""The words of vLLM V0's scheduler: groups of sequences, the budget of a step, and what a step
concerns.

Source: SequenceGroup in vllm/sequence.py, SchedulingBudget and SchedulerOutputs in
vllm/core/scheduler.py (vLLM 0.5.5).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from mini_vllm.request import Request
from mini_vllm.scheduler import SchedulerOutput, urgency


class SequenceGroup:
    """What one prompt asks for.

    Sequences have a past of their own; unforked ones wait for the prompt's logits.
    """

    def __init__(self, requests: Sequence[Request]) -> None:
        self.sequences = list(requests[:1])
        self.unforked = list(requests[1:])
        self.urgency = urgency(requests[0])
        self.is_swapped = False

    @property
    def requests(self) -> list[Request]:
        """All requests that live. Until the other sequences fork there is one sequence."""
        return self.sequences + self.unforked


@dataclass(slots=True)
class SchedulingBudget:
    """What one step may take: its tokens, and the places that are left among the running
    requests.
    """

    token_budget: int
    num_free_seqs: int
    num_batched_tokens: int = 0

    def can_schedule(self, num_new_tokens: int, num_new_seqs: int) -> bool:
        num_tokens = self.num_batched_tokens + num_new_tokens
        return num_tokens <= self.token_budget and num_new_seqs <= self.num_free_seqs

    def chunk_of(self, num_missing: int) -> int:
        """How much of a prompt fits: all or nothing, but in a step that has nothing yet as much as
        there is room.
        """
        if self.num_batched_tokens and not self.can_schedule(num_missing, 0):
            return 0
        return min(num_missing, self.token_budget)


@dataclass(slots=True)
class GroupSchedulerOutput(SchedulerOutput):
    """What a SchedulerOutput says, and which groups it concerns."""

    # that rely on this step, in order
    groups: dict[SequenceGroup, None] = field(default_factory=dict)
    # that wait for what a request computes, by its id
    prompts: dict[str, SequenceGroup] = field(default_factory=dict)
    # whose blocks this step copies away
    swapped_out: list[SequenceGroup] = field(default_factory=list)
    # that fork behind a request's prompt
    sampling_along: dict[str, list[Request]] = field(default_factory=dict)
