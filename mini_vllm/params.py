"""SamplingParams: how a request turns logits into tokens, and when it stops.

Source: vllm/sampling_params.py, OpenAI's completion API.
"""

from dataclasses import dataclass
from typing import ClassVar

from mini_vllm.errors import Params, is_int, is_number

OUTPUT_KINDS = ("cumulative", "delta", "final_only")


@dataclass(frozen=True, slots=True)
class SamplingParams(Params):
    """How to turn logits into tokens, and when to stop. Frozen, validated; the same limits for every way in.

    Raises InvalidParameterError naming the value and its limit, UnknownParameterError for an unknown keyword.
    Source: vllm/sampling_params.py, OpenAI's completion API.
    """

    MAX_N: ClassVar[int] = 128
    MAX_STOP: ClassVar[int] = 64
    MAX_STOP_CHARS: ClassVar[int] = 1024
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

    output_kind: str = "cumulative"
    """What an output tells: "cumulative" (all so far), "delta" (what is new), "final_only". vLLM: RequestOutputKind."""

    @property
    def has_penalties(self) -> bool:
        """Whether the tokens so far change the logits of the next one."""
        return self.repetition_penalty != 1 or self.presence_penalty != 0 or self.frequency_penalty != 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "stop", (self.stop,) if isinstance(self.stop, str) else self.stop)
        self.normalise()
        self.require("max_tokens", is_int(self.max_tokens, 1), "an integer of at least 1")
        self.require("temperature", is_number(self.temperature, 0, 1e6), "a number in [0, 1e6]")
        self.require("top_p", is_number(self.top_p, 0, 1) and self.top_p > 0, "in (0, 1]")
        self.require("top_k", is_int(self.top_k, 0), "an integer of at least 0 (0 keeps all)")
        self.require("min_p", is_number(self.min_p, 0, 1), "in [0, 1]")
        self.require("seed", self.seed is None or is_int(self.seed, -(1 << 63), (1 << 64) - 1), "None or 64 bits")
        self.require("n", is_int(self.n, 1, self.MAX_N), f"an integer in [1, {self.MAX_N}]")
        few = isinstance(self.stop, tuple) and len(self.stop) <= self.MAX_STOP
        short = few and all(isinstance(s, str) and 0 < len(s) <= self.MAX_STOP_CHARS for s in self.stop)
        self.require("stop", short, f"at most {self.MAX_STOP} strings of 1 to {self.MAX_STOP_CHARS} characters")
        few = isinstance(ids := self.stop_token_ids, tuple) and len(ids) <= 1024 and all(is_int(i, 0) for i in ids)
        self.require("stop_token_ids", few, "at most 1024 token ids of at least 0")
        self.require("ignore_eos", isinstance(self.ignore_eos, bool), "True or False")
        self.require("presence_penalty", is_number(self.presence_penalty, -2, 2), "in [-2, 2]")
        self.require("frequency_penalty", is_number(self.frequency_penalty, -2, 2), "in [-2, 2]")
        self.require("repetition_penalty", is_number(self.repetition_penalty, 1e-6, 1e6), "in [1e-6, 1e6]")
        known = isinstance(self.output_kind, str) and self.output_kind in OUTPUT_KINDS
        self.require("output_kind", known, f"one of {OUTPUT_KINDS}")
        bounded = self.logprobs is None or is_int(self.logprobs, 0, self.MAX_LOGPROBS)
        self.require("logprobs", bounded, f"None or an integer in [0, {self.MAX_LOGPROBS}]")
