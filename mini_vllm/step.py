"""The vocabulary of a step: what crosses the boundary between the engine and the runner, there and back.

Everything here is frozen and can be pickled, so that a step is the same for a call and for another process. Nothing
here imports torch. Source: SchedulerOutput and ModelRunnerOutput of vLLM V1 (vllm/v1/core/sched/output.py,
vllm/v1/outputs.py).
"""

import hashlib
from dataclasses import dataclass
from typing import Any, NamedTuple

from mini_vllm.params import SamplingParams

BlockTable = tuple[int, ...]
BlockPair = tuple[int, int]  # (from, to)
GREEDY_BELOW = 1e-5  # a smaller temperature is greedy; vLLM: _SAMPLING_EPS


class Logprob(NamedTuple):
    """How likely one token was. rank: 1 is the most likely of the vocabulary."""

    logprob: float
    rank: int
    decoded_token: str | None = None


class SampledToken(NamedTuple):
    """logprobs: the most likely tokens and the sampled one by token id, None if nobody asked."""

    token_id: int
    logprobs: dict[int, Logprob] | None


class TokenDelta(NamedTuple):
    """What one step brought one request: its new tokens, and how it ended if it did. Text is made of it elsewhere."""

    request_id: str
    tokens: list[SampledToken]
    finish_reason: str | None = None
    num_cached_tokens: int = 0  # of the prompt, found in the prefix cache at first admission


# --- the KV cache -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KVPlan:
    """What has to happen to the KV cache before the step computes, in this order: out, in, copy.

    The KV cache manager says it in begin_step(). Ids are of blocks on the device and, in main memory, of CPU blocks.
    """

    swap_out: tuple[BlockPair, ...] = ()  # (block, CPU block)
    swap_in: tuple[BlockPair, ...] = ()  # (CPU block, block)
    copy: tuple[BlockPair, ...] = ()  # (block, block): all are read before any is written
    connector: Any = None  # what a connector's scheduler side tells its worker side; nobody between looks into it
    rewritten_req_ids: tuple[str, ...] = ()  # whose block tables changed not only at the end: they are sent whole

    def __bool__(self) -> bool:
        """Whether the runner has anything to do."""
        return bool(self.swap_out or self.swap_in or self.copy or self.connector is not None)


@dataclass(frozen=True, slots=True)
class KVResult:
    """What came of a connector's work; the KV cache manager takes it in end_step()."""

    loaded_req_ids: tuple[str, ...] = ()  # requests whose loads have arrived
    saved_req_ids: tuple[str, ...] = ()  # requests whose blocks may go
    failed_block_ids: tuple[int, ...] = ()  # blocks that hold nothing, though they were to be loaded


# --- one step -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SamplingRow:
    """How to sample one row. position: the index the token will have in its sequence (prompt included)."""

    params: SamplingParams
    seed: int
    choice_index: int
    position: int
    prompt_token_ids: tuple[int, ...] = ()  # these two may stay empty unless there are penalties
    output_token_ids: tuple[int, ...] = ()

    @property
    def is_greedy(self) -> bool:
        return self.params.temperature < GREEDY_BELOW

    @property
    def key(self) -> int:
        """64 well mixed bits, signed; every int is a good seed, and neighbouring rows have unrelated keys."""
        name = f"{self.seed:x}/{self.choice_index:x}/{self.position:x}"
        return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little", signed=True)


@dataclass(frozen=True, slots=True)
class ScheduledChunk:
    """What one request computes in this step: its tokens [start, start + len(token_ids))."""

    request_id: str
    token_ids: tuple[int, ...]
    start: int  # num_computed_tokens before the step
    block_ids: tuple[int, ...]  # the block table, long enough for the chunk
    sampling: SamplingRow | None  # None: an inner chunk, its logits predict a token that is known already
    forks: tuple[tuple[str, SamplingRow], ...] = ()  # request ids that sample from the same logits, each in its own way


@dataclass(frozen=True, slots=True)
class StepInput:
    """The boundary between the live world of requests and the runner. Nothing in it changes any more."""

    chunks: tuple[ScheduledChunk, ...]
    finished_req_ids: tuple[str, ...] = ()  # ended since the last step: state kept for them may go
    kv: KVPlan = KVPlan()  # is done first
