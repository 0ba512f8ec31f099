"""The frozen parameter classes: SamplingParams, and the base that refuses a keyword it does not know.

Source: vllm/sampling_params.py, OpenAI's completion API.
"""

import math
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, ClassVar

from mini_vllm.errors import InvalidParameterError, UnknownParameterError, shown


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
            raise InvalidParameterError(
                f"{type(self).__name__}: {name} must be {limit}, got {shown(getattr(self, name))}"
            )


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
