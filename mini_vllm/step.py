"""The vocabulary of a step: what crosses the boundary between the engine and the runner, there and
back.

Everything here is frozen and can be pickled, so that a step is the same for a call and for another
process. Nothing here imports torch. Source: SchedulerOutput in vllm/v1/core/sched/output.py,
ModelRunnerOutput in vllm/v1/outputs.py.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Any, NamedTuple, NewType

from mini_vllm.params import SamplingParams

BlockTable = tuple[int, ...]
BlockPair = tuple[int, int]  # (from, to), both on the device
# a block of main memory: its number names no block of the device
CpuBlockId = NewType("CpuBlockId", int)
SwapOut = tuple[int, CpuBlockId]
SwapIn = tuple[CpuBlockId, int]
GREEDY_BELOW = 1e-5  # a smaller temperature is greedy; vLLM: _SAMPLING_EPS


class Logprob(NamedTuple):
    """How likely one token was. rank: 1 is the most likely of the vocabulary."""

    logprob: float
    rank: int
    decoded_token: str | None = None


class SampledToken(NamedTuple):
    """logprobs: the most likely tokens and the sampled one by token id, None if the request did not
    ask for them.
    """

    token_id: int
    logprobs: dict[int, Logprob] | None


class PromptLogprobs(NamedTuple):
    """How likely the tokens of a prompt from index start on were, each after those before it."""

    start: int
    logprobs: list[dict[int, Logprob]]


class TokenDelta(NamedTuple):
    """What one step brought one request: its new tokens, and how it ended if it did.

    The front makes text of it. All of it is plain data, so it travels to another process as it is.
    vLLM: EngineCoreOutput (vllm/v1/engine/__init__.py).
    """

    request_id: str
    tokens: list[SampledToken]
    finish_reason: str | None = None
    num_cached_tokens: int = 0  # of the prompt, found in the prefix cache at first admission
    error: str | None = None  # why, if the reason is "error"
    # if there is an error: whether the request is at fault, and not the engine
    is_refused: bool = False
    # of what the step computed of the prompt, if they were asked for
    prompt_logprobs: PromptLogprobs | None = None
    # What the core does not know and those around it add, in seconds of the engine's clock:
    time: float | None = None  # when the step was over
    scheduled_time: float | None = None  # when the request was first in a step
    num_preemptions: int = 0


# --- the KV cache ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KVPlan:
    """What has to happen to the KV cache before the step computes, in this order: out, in, copy.

    The KV cache manager says it in begin_step(). Ids are of blocks on the device and, in main
    memory, of CPU blocks.
    """

    swap_out: tuple[SwapOut, ...] = ()  # (block, CPU block)
    swap_in: tuple[SwapIn, ...] = ()  # (CPU block, block)
    copy: tuple[BlockPair, ...] = ()  # (block, block): all are read before any is written
    # what a connector's scheduler side tells its worker side; the code between does not read it
    connector: Any = None
    # whose block tables changed not only at the end: they are sent whole
    rewritten_req_ids: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether the runner has anything to do."""
        return bool(self.swap_out or self.swap_in or self.copy or self.connector is not None)


@dataclass(frozen=True, slots=True)
class KVResult:
    """What came of a connector's work; the KV cache manager takes it in end_step()."""

    loaded_req_ids: tuple[str, ...] = ()  # requests whose loads have arrived
    # what a connector's worker side tells its scheduler side; the code between does not read it
    connector: Any = None


# --- one step -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SamplingRow:
    """How a request samples its tokens. It travels once, when its request is new to the runner.

    token_ids: all tokens known by then, prompt and output, if penalties look at them; the runner
    keeps them up to date. ending_token_ids: those that would end the request, if it has min_tokens.
    """

    params: SamplingParams
    seed: int = 0
    choice_index: int = 0
    num_prompt_tokens: int = 0
    token_ids: tuple[int, ...] = ()
    ending_token_ids: tuple[int, ...] = ()

    @property
    def is_greedy(self) -> bool:
        return self.params.temperature < GREEDY_BELOW

    def key(self, position: int) -> int:
        """64 well mixed bits, signed, for the token at this index of the sequence (prompt
        included).

        Every int is a good seed, and neighbouring positions have unrelated keys.
        """
        name = f"{self.seed:x}/{self.choice_index:x}/{position:x}"
        return int.from_bytes(
            hashlib.blake2b(name.encode(), digest_size=8).digest(), "little", signed=True
        )


class Sample(NamedTuple):
    """One row of logits, from which one token is sampled for a request; a fork's is a row of its
    parent's chunk.

    A chunk that catches up has one at its last row, one with k drafts has k + 1, an inner chunk has
    none.
    """

    request_id: str
    row: int  # of the chunk, from 0


class Chunk(NamedTuple):
    """What one request computes in this step: its tokens [num_computed_tokens, num_computed_tokens
    + len(token_ids)).

    One request's part of a StepInput, for those who make or read one by hand.
    """

    request_id: str
    token_ids: tuple[int, ...]
    num_computed_tokens: int
    # of each group of layers, behind those that the runner has
    new_block_ids: tuple[BlockTable, ...] = ()
    samples: tuple[Sample, ...] = ()


@dataclass(frozen=True, slots=True)
class StepInput:
    """The boundary between the live world of requests and the runner: what is new in this step, and
    nothing else.

    A struct of arrays: entry i of the first three is of request i of the packed batch, whose B
    requests compute T tokens. The runner keeps block tables, sampling rows and, for penalties,
    tokens of its requests (InputBatch). Source: SchedulerOutput with NewRequestData and
    CachedRequestData (vllm/v1/core/sched/output.py).
    """

    req_ids: tuple[str, ...] = ()  # [B]
    num_computed_tokens: tuple[int, ...] = ()  # [B], before the step
    num_scheduled_tokens: tuple[int, ...] = ()  # [B]
    token_ids: tuple[int, ...] = ()  # [T], end to end
    sample_req_ids: tuple[str, ...] = ()  # [S]: whose token each row of logits gives
    sample_rows: tuple[int, ...] = ()  # [S]: rows of the packed batch, in [0, T)
    new_rows: Mapping[str, SamplingRow] = field(default_factory=dict)
    """Requests that the runner does not know, or no longer knows aright: whatever it has of that
    name goes.
    """
    new_block_ids: Mapping[str, tuple[BlockTable, ...]] = field(default_factory=dict)
    """By request, by group of layers: the block ids behind those that the runner has; of a new
    request, all.
    """
    prompt_targets: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By request: the prompt's tokens whose log-probabilities are wanted. The first rows of its
    chunk predict them.
    """
    finished_req_ids: tuple[str, ...] = ()
    """Requests that the runner knows and that ended since the last step: what is kept of them goes,
    first of all.
    """
    forget_all: bool = False
    """The engine begins again, or a step has failed: whatever the runner has goes, first of all."""
    kv: KVPlan = KVPlan()
    masks: Mapping[str, Sequence[bytes | None]] = field(default_factory=dict)
    """By request: for each of its samples which tokens it may be, bit i of byte i // 8 for token i;
    None: any token.
    """
    uniform_query_len: int = 0
    """As the scheduler decided it (SchedulerOutput): a recorded forward is chosen by it."""

    @classmethod
    def of(
        cls, chunks: Iterable[Chunk], new_rows: Mapping[str, SamplingRow] | None = None, **rest: Any
    ) -> "StepInput":
        """The step of these chunks.

        A chunk of a request that is not in new_rows goes on with what the runner has.
        """
        chunks = tuple(chunks)
        ends = accumulate((len(chunk.token_ids) for chunk in chunks), initial=0)
        samples = [
            (sample.request_id, end + sample.row)
            for end, c in zip(ends, chunks, strict=False)
            for sample in c.samples
        ]
        return cls(
            tuple(chunk.request_id for chunk in chunks),
            tuple(chunk.num_computed_tokens for chunk in chunks),
            tuple(len(chunk.token_ids) for chunk in chunks),
            tuple(chain.from_iterable(chunk.token_ids for chunk in chunks)),
            tuple(request_id for request_id, _ in samples),
            tuple(row for _, row in samples),
            dict(new_rows or {}),
            {chunk.request_id: chunk.new_block_ids for chunk in chunks if chunk.new_block_ids},
            **rest,
        )


class Refusal(str):
    """Why no token can be sampled for a request that is the cause itself: all that it asks for
    leaves none.
    """


@dataclass(frozen=True, slots=True)
class StepOutput:
    """What came of a step. Source: ModelRunnerOutput (vllm/v1/outputs.py)."""

    # by request, in order; several after drafts
    tokens: dict[str, list[SampledToken]] = field(default_factory=dict)
    kv: KVResult = KVResult()
    # by request: why no token can be sampled for it; a Refusal where it is the cause
    errors: dict[str, str] = field(default_factory=dict)
    prompt_logprobs: dict[str, PromptLogprobs] = field(default_factory=dict)  # by request


# --- what the engine asks of a worker at start ----------------------------------------------------


class LayerKVSpec(NamedTuple):
    """What one layer asks of the KV cache.

    Source: AttentionSpec in vllm/v1/kv_cache_interface.py.
    """

    num_kv_heads: int
    head_dim: int
    bytes_per_element: int
    sliding_window: int | None = None
    attention_chunk_size: int | None = None

    @property
    def bytes_per_token(self) -> int:
        """K and V."""
        return 2 * self.num_kv_heads * self.head_dim * self.bytes_per_element


class ModelInfo(NamedTuple):
    """What the engine must know of a model that is loaded elsewhere."""

    vocab_size: int
    kv_specs: tuple[LayerKVSpec, ...]  # of each layer

    @property
    def bytes_per_token(self) -> int:
        """K and V in every layer."""
        return sum(spec.bytes_per_token for spec in self.kv_specs)
