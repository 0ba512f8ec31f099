"""Which replica gets a prompt: the one that has most of it, unless that leaves another one idle.

The loads are out of balance when the busiest replica has more than BALANCE_ABS_THRESHOLD requests
more than the idlest one, and more than BALANCE_REL_THRESHOLD times as many. Without the threshold
on the prefix, a hit of one block would beat an empty replica, and replicas that have served no
request yet would stay empty.

A light load is never 64 requests out of balance. When all prompts begin with the same 8,192 tokens,
these thresholds alone send every request of a light load to one replica. So two more rules hold
here. A replica that has served no request yet gets the prompt if the one with its prefix is busy: a
cache that nothing fills draws nothing. And no prompt joins a queue for the sake of its prefix while
another replica has nothing to do.

Source: the three thresholds, their defaults and the comparisons are those of the policy cache_aware
of SGLang's Model Gateway 0.3.2, before that SGLang's router
(sgl-model-gateway/src/policies/cache_aware.rs; its documentation, "Cache-Aware Policy Tuning"). The
two rules for replicas with nothing to do are not from there. Two more things differ. The gateway
and the server (serving/replicas) guess what is cached from what they have sent where; the
simulator's fleet looks into the caches themselves, as llm-d's precise prefix-cache scorer does. And
without a match, or out of balance, the gateway takes the fewest requests, this one the fewest live
tokens.
"""

from collections.abc import Sequence
from typing import NamedTuple

CACHE_THRESHOLD = 0.3  # of the prompt
BALANCE_ABS_THRESHOLD, BALANCE_REL_THRESHOLD = 64, 1.5  # requests; times


class ReplicaState(NamedTuple):
    """What is known of a replica when a prompt comes."""

    num_cached_tokens: int
    """Of the prompt."""
    num_requests: int
    """That are unfinished."""
    num_live_tokens: int
    """Prompts and outputs of the unfinished requests."""
    has_queue: bool
    """Requests wait there."""
    is_unused: bool
    """It has served no request yet."""


def least_loaded(states: Sequence[ReplicaState]) -> int:
    """The one with the fewest live tokens; of equals the first."""
    return min(range(len(states)), key=lambda i: states[i].num_live_tokens)


def by_prefix(states: Sequence[ReplicaState], num_prompt_tokens: int) -> int:
    """The one that has cached most of the prompt, if that is enough of it and the loads are
    balanced; else the least loaded one.
    """
    loads = [state.num_requests for state in states]
    low, high = min(loads), max(loads)
    is_balanced = high - low <= BALANCE_ABS_THRESHOLD or high <= BALANCE_REL_THRESHOLD * low
    best = max(
        range(len(states)),
        key=lambda i: (states[i].num_cached_tokens, -states[i].num_live_tokens),
    )
    if not is_balanced or states[best].num_cached_tokens <= CACHE_THRESHOLD * num_prompt_tokens:
        return least_loaded(states)
    unused = [i for i, state in enumerate(states) if state.is_unused]
    if loads[best] and unused:
        return unused[0]
    return best if low or not states[best].has_queue else least_loaded(states)
