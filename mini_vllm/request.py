"""A request: two counters racing. num_computed_tokens catches up with num_tokens.

There is no prefill phase and no decode phase, only how far behind a request is. A prompt of 100 tokens starts 100
behind; when it has caught up, one token is sampled, and it is 1 behind again. Preemption sets the first counter back
to 0, a prefix hit moves it ahead. Source: vllm/v1/request.py, vllm/sampling_params.py.
"""

import math
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from enum import Enum
from typing import Any, ClassVar

from mini_vllm.errors import EmptyPromptError, InvalidParameterError, UnknownParameterError


class Params:
    """Base of the frozen parameter classes: a keyword that is not a field is refused, never ignored."""

    __slots__ = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> "Params":
        known = [field.name for field in fields(cls)]  # type: ignore[arg-type]
        for name in kwargs:
            if name not in known:
                close = get_close_matches(name, known, n=1)
                hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
                raise UnknownParameterError(f"{cls.__name__}: unknown parameter {name!r}; {hint}")
        return super().__new__(cls)

    def require(self, name: str, holds: bool, limit: str) -> None:
        """Refuse the value of field `name` unless it holds; `limit` says what is allowed."""
        if not holds:
            raise InvalidParameterError(f"{type(self).__name__}: {name} must be {limit}, got {getattr(self, name)!r}")


def is_int(value: object, low: float, high: float = math.inf) -> bool:
    """Whether value is an integer (a bool is not) in [low, high]."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def is_number(value: object, low: float, high: float) -> bool:
    """Whether value is a finite number (a bool is not) in [low, high]."""
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high and value < math.inf


@dataclass(frozen=True, slots=True)
class SamplingParams(Params):
    """How to turn logits into tokens, and when to stop. Frozen, validated; the same limits for every way in.

    Raises InvalidParameterError naming the value and its limit, UnknownParameterError for an unknown keyword.
    Source: vllm/sampling_params.py, OpenAI's completion API.
    """

    MAX_N: ClassVar[int] = 128
    MAX_STOP: ClassVar[int] = 64
    MAX_LOGPROBS: ClassVar[int] = 20

    max_tokens: int = 16
    temperature: float = 1.0
    """0 is greedy."""
    top_p: float = 1.0
    top_k: int = 0
    """0 keeps all."""
    min_p: float = 0.0
    seed: int | None = None
    """None: the engine draws one from its own seed."""
    n: int = 1
    """How many choices are sampled for the prompt."""
    stop: tuple[str, ...] = ()
    """The text ends before the first of these strings."""
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logprobs: int | None = None
    """How many most likely tokens to report at each position, beside the sampled one."""

    @property
    def has_penalties(self) -> bool:
        """Whether the tokens so far change the logits of the next one."""
        return self.repetition_penalty != 1 or self.presence_penalty != 0 or self.frequency_penalty != 0

    def __post_init__(self) -> None:
        if isinstance(self.stop, str):
            object.__setattr__(self, "stop", (self.stop,))
        for name in ("stop", "stop_token_ids"):
            if isinstance(getattr(self, name), list):
                object.__setattr__(self, name, tuple(getattr(self, name)))
        stop, stop_token_ids = self.stop, self.stop_token_ids
        self.require("max_tokens", is_int(self.max_tokens, 1), "an integer of at least 1")
        self.require("temperature", is_number(self.temperature, 0, 1e6), "a number in [0, 1e6]")
        self.require("top_p", is_number(self.top_p, 0, 1) and self.top_p > 0, "in (0, 1]")
        self.require("top_k", is_int(self.top_k, 0), "an integer of at least 0 (0 keeps all)")
        self.require("min_p", is_number(self.min_p, 0, 1), "in [0, 1]")
        self.require("seed", self.seed is None or is_int(self.seed, -(1 << 63), (1 << 64) - 1), "None or 64 bits")
        self.require("n", is_int(self.n, 1, self.MAX_N), f"an integer in [1, {self.MAX_N}]")
        strings = isinstance(stop, tuple) and len(stop) <= self.MAX_STOP and all(isinstance(s, str) and s for s in stop)
        self.require("stop", strings, f"at most {self.MAX_STOP} strings that are not empty")
        token_ids = isinstance(stop_token_ids, tuple) and all(is_int(token_id, 0) for token_id in stop_token_ids)
        self.require("stop_token_ids", token_ids, "token ids of at least 0")
        self.require("ignore_eos", isinstance(self.ignore_eos, bool), "True or False")
        self.require("presence_penalty", is_number(self.presence_penalty, -2, 2), "in [-2, 2]")
        self.require("frequency_penalty", is_number(self.frequency_penalty, -2, 2), "in [-2, 2]")
        positive = is_number(self.repetition_penalty, 0, 1e6) and self.repetition_penalty > 0
        self.require("repetition_penalty", positive, "in (0, 1e6]")
        bounded = self.logprobs is None or is_int(self.logprobs, 0, self.MAX_LOGPROBS)
        self.require("logprobs", bounded, f"None or an integer in [0, {self.MAX_LOGPROBS}]")


class RequestStatus(Enum):
    """Where a request is in its life; the value of a finished one is its finish reason."""

    WAITING = "waiting"
    RUNNING = "running"
    PREEMPTED = "preempted"
    FINISHED_STOPPED = "stop"
    FINISHED_LENGTH = "length"
    FINISHED_ABORTED = "abort"


UNFINISHED = frozenset({RequestStatus.WAITING, RequestStatus.RUNNING, RequestStatus.PREEMPTED})
FINISH_REASONS = tuple(status.value for status in RequestStatus if status not in UNFINISHED)


class Request:
    """One prompt on its way to one output. Owned by the scheduler from add_request until it is finished.

    Stored: the tokens and num_computed_tokens. Derived: everything else. Always
    0 <= num_computed_tokens <= num_tokens = num_prompt_tokens + len(output_token_ids).

    Raises EmptyPromptError for a prompt without tokens, InvalidParameterError for an option of the wrong kind: found
    later, in the scheduler, it would stop everybody.
    """

    __slots__ = (
        "all_token_ids",
        "arrival_time",
        "block_hashes",
        "cache_salt",
        "eos_token_ids",
        "max_model_len",
        "max_tokens",
        "num_cached_tokens",
        "num_computed_tokens",
        "num_preemptions",
        "num_prompt_tokens",
        "output_token_ids",
        "priority",
        "prompt_token_ids",
        "request_id",
        "sampling_params",
        "status",
        "stop_token_ids",
    )

    def __init__(
        self,
        request_id: str,
        prompt_token_ids: Sequence[int],
        sampling_params: SamplingParams,
        *,
        eos_token_ids: Collection[int] = (),
        priority: int = 0,
        arrival_time: float = 0.0,
        cache_salt: str | None = None,
        max_model_len: int | None = None,
    ) -> None:
        if not len(prompt_token_ids):
            raise EmptyPromptError(f"request {request_id!r}: the prompt has 0 tokens, at least 1 is needed")
        for name, value, holds, limit in (
            ("request_id", request_id, isinstance(request_id, str), "a string"),
            ("priority", priority, is_int(priority, -math.inf), "an integer"),
            ("arrival_time", arrival_time, is_number(arrival_time, -math.inf, math.inf), "a number"),
            ("cache_salt", cache_salt, cache_salt is None or isinstance(cache_salt, str), "None or a string"),
            ("max_model_len", max_model_len, max_model_len is None or is_int(max_model_len, 1), "None or at least 1"),
        ):
            if not holds:
                raise InvalidParameterError(f"request {request_id!r}: {name} must be {limit}, got {value!r}")
        self.request_id = request_id
        self.prompt_token_ids = list(prompt_token_ids)
        self.sampling_params = sampling_params
        self.eos_token_ids = frozenset(eos_token_ids)
        # What ends the request, at hand: maybe_finish() runs for every token of thousands of requests, and a frozenset
        # that all requests share stays in the processor's cache.
        self.max_tokens = sampling_params.max_tokens
        self.stop_token_ids = frozenset() if sampling_params.ignore_eos else self.eos_token_ids
        if sampling_params.stop_token_ids:
            self.stop_token_ids = self.stop_token_ids.union(sampling_params.stop_token_ids)
        self.priority = priority  # lower is sooner
        self.arrival_time = arrival_time
        self.cache_salt = cache_salt  # requests with different salts never share blocks
        self.max_model_len = max_model_len  # the scheduler lowers it to what fits
        self.status = RequestStatus.WAITING
        self.num_prompt_tokens = len(self.prompt_token_ids)
        self.all_token_ids = list(prompt_token_ids)
        self.output_token_ids: list[int] = []
        self.num_computed_tokens = 0  # the first [0, num_computed_tokens) have their K and V in the cache
        self.num_cached_tokens = 0  # the prefix hit at first admission
        self.num_preemptions = 0
        self.block_hashes: list[Hashable] = []  # of the full blocks; the KV cache manager extends it

    @property
    def num_tokens(self) -> int:
        return len(self.all_token_ids)

    @property
    def is_finished(self) -> bool:
        return self.status not in UNFINISHED

    @property
    def finish_reason(self) -> str | None:
        """ "stop", "length", "abort", or None while the request lives."""
        return self.status.value if self.is_finished else None

    def append_output_token(self, token_id: int) -> None:
        self.output_token_ids.append(token_id)
        self.all_token_ids.append(token_id)

    def maybe_finish(self) -> bool:
        """Look at the last output token and finish if it is the last one: stop wins over length.

        Source: check_stop in vllm/v1/core/sched/utils.py.
        """
        outputs = self.output_token_ids
        if not outputs:
            return False
        if outputs[-1] in self.stop_token_ids:
            self.status = RequestStatus.FINISHED_STOPPED
        elif len(outputs) >= self.max_tokens or (
            self.max_model_len is not None and len(self.all_token_ids) >= self.max_model_len
        ):
            self.status = RequestStatus.FINISHED_LENGTH
        else:
            return False
        return True
