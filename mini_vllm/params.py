"""SamplingParams: how a request turns logits into tokens, and when it stops.

Source: vllm/sampling_params.py, OpenAI's completion API.
"""

import json as json_text
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from mini_vllm.errors import (
    BOOL,
    SHARE,
    InvalidParameterError,
    Params,
    Rule,
    integer,
    is_int,
    is_number,
    is_writable,
    one_of,
    plain,
    shown,
)

OUTPUT_KINDS = ("cumulative", "delta", "final_only")


@dataclass(frozen=True, slots=True)
class StructuredOutputs(Params):
    """What form a text has to have; one of the fields is given.

    Whether it can be compiled is found out later.

    Raises InvalidParameterError if none or several are given, or one is of the wrong kind.
    Source: StructuredOutputsParams in vllm/sampling_params.py.
    """

    json: Any = None
    """A JSON schema: a mapping, a pydantic model, or text. It is stored as text."""
    regex: str | None = None
    """The whole text matches it."""
    choice: tuple[str, ...] | None = None
    """The text is one of these."""
    grammar: str | None = None
    """EBNF (root ::= ...) for xgrammar, Lark (start: ...) for guidance."""
    json_object: bool | None = None
    """True: any JSON object."""
    closes: bool = False
    """JSON ends within max_tokens where its end fits, instead of being cut (structured/closing)."""

    def __post_init__(self) -> None:
        self.normalise()
        given = self._given()
        if len(given) != 1:
            raise InvalidParameterError(
                "StructuredOutputs: structured must be one of "
                f"{', '.join(self.__slots__[:-1])}, got {given or 'none'}"
            )
        object.__setattr__(self, "json", None if self.json is None else as_schema_text(self.json))
        for name in ("regex", "grammar"):
            value = getattr(self, name)
            self.require(name, value is None or (isinstance(value, str) and value != ""), "a text")
        choices = self.choice
        texts = (
            isinstance(choices, tuple)
            and bool(choices)
            and all(isinstance(c, str) and c for c in choices)
        )
        self.require("choice", choices is None or texts, "a list of texts, none of them empty")
        self.require("json_object", isinstance(self.json_object, bool | None), "True")
        self.require(
            "closes", self.closes in (False, "json" in given[0]), "False, or True with JSON"
        )

    def _given(self) -> list[str]:
        return [
            name
            for name in self.__slots__[:-1]
            if (value := getattr(self, name)) is not None
            and (name, value) != ("json_object", False)
        ]

    @property
    def key(self) -> tuple[str, str]:
        """Which of the fields is given, and its value as text: two requests with one key want the
        same.
        """
        if self.json_object:
            return "json", '{"type": "object"}'
        (name,) = self._given()
        value = getattr(self, name)
        return name, json_text.dumps(value) if name == "choice" else value


def as_schema_text(schema: object) -> str:
    """A JSON schema as text. Raises InvalidParameterError for what is none."""
    if hasattr(schema, "model_json_schema"):
        schema = schema.model_json_schema()
    try:
        found = json_text.loads(schema) if isinstance(schema, str) else schema
        text = json_text.dumps(found, ensure_ascii=False, allow_nan=False)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidParameterError(
            f"StructuredOutputs: json must be a JSON schema: {str(error)[:100]}"
        ) from error
    if not isinstance(found, Mapping | bool):
        raise InvalidParameterError(
            f"StructuredOutputs: json must be an object or a bool, got {shown(found)}"
        )
    return text


def as_structured(given: object) -> object:
    """A mapping of fields, or a pydantic model, as StructuredOutputs; anything else as it is."""
    if isinstance(given, Mapping):
        return StructuredOutputs(**given)
    return StructuredOutputs(json=given) if hasattr(given, "model_json_schema") else given


@dataclass(frozen=True, slots=True)
class SamplingParams(Params):
    """How to turn logits into tokens, and when to stop.

    Frozen, validated; the same limits for every way in.

    Raises InvalidParameterError naming the value and its limit, UnknownParameterError for an
    unknown keyword. Source: vllm/sampling_params.py, OpenAI's completion API.
    """

    MAX_N: ClassVar[int] = 128
    MAX_STOP: ClassVar[int] = 64
    MAX_STOP_CHARS: ClassVar[int] = 1024
    MAX_LOGPROBS: ClassVar[int] = 20
    MAX_BIASES: ClassVar[int] = 1024
    MAX_BAD_WORDS: ClassVar[int] = 128

    max_tokens: int = 16
    temperature: float = 1.0
    """0 is greedy."""
    top_p: float = 1.0
    top_k: int = 0
    """0 and -1 keep all."""
    min_p: float = 0.0
    seed: int | None = None
    """None: the engine draws one from its own seed."""
    n: int = 1
    """How many choices are sampled for the prompt."""
    stop: tuple[str, ...] = ()
    """The text ends before the first of these strings."""
    include_stop_str_in_output: bool = False
    """The text shows what has ended it, a stop string or the text of a stop token."""
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    """The text shows no special tokens, such as the end of a turn."""
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    min_tokens: int = 0
    """So many tokens come before one that ends the text."""
    logit_bias: tuple[tuple[int, float], ...] = ()
    """What is added to the logits of some tokens: pairs of token id and number, or a mapping,
    stored as pairs.
    """
    allowed_token_ids: tuple[int, ...] | None = None
    """Only these tokens can be sampled."""
    bad_words: tuple[str, ...] = ()
    """Texts that are not written: the last token of one is never sampled behind its other ones."""
    bad_token_ids: tuple[tuple[int, ...], ...] = ()
    """The same as token ids. The front adds those of bad_words (vLLM: update_from_tokenizer)."""
    logprobs: int | None = None
    """How many most likely tokens to report at each position, beside the sampled one."""
    prompt_logprobs: int | None = None
    """The same for the tokens of the prompt, beside the one that is there. The prompt is computed
    whole.
    """

    structured: StructuredOutputs | None = None
    """The form of the text: StructuredOutputs, a mapping of its fields, or a pydantic model."""

    kv_transfer_params: Any = None
    """What a KV connector is told of the request, a mapping. vLLM: extra_args."""

    output_kind: str = "cumulative"
    """What an output tells: "cumulative" (all so far), "delta" (what is new), "final_only". vLLM:
    RequestOutputKind.
    """

    @property
    def changes_logits(self) -> bool:
        """Whether a row of logits is changed before a token is sampled from it."""
        return bool(
            self.looks_back
            or self.min_tokens
            or self.logit_bias
            or self.allowed_token_ids is not None
        )

    @property
    def looks_back(self) -> bool:
        """Whether the tokens so far change the logits of the next one."""
        return (
            self.repetition_penalty != 1
            or self.presence_penalty != 0
            or self.frequency_penalty != 0
            or self.bad_token_ids != ()
        )

    def __post_init__(self) -> None:
        self.store(
            {
                "stop": (self.stop,) if isinstance(self.stop, str) else self.stop,
                "logit_bias": as_pairs(self.logit_bias),
                "structured": as_structured(self.structured),
            }
        )
        self.normalise()
        self.check(RULES)
        self.require(
            "min_tokens",
            is_int(self.min_tokens, 0, self.max_tokens),
            f"in [0, max_tokens {self.max_tokens}]",
        )


def is_token_id(value: object) -> bool:
    """Whether it is one of some vocabulary."""
    return is_int(value, 0)


def is_bias(pair: Sequence[Any]) -> bool:
    """Whether pair is a token id and what is added to its logit."""
    return len(pair) == 2 and is_int(pair[0], 0) and is_number(pair[1], -100, 100)


def tuple_of(holds: Callable[[Any], bool], allowed: str, low: int, high: float) -> Rule:
    """From low to high values, each of which passes the test."""
    return Rule(
        lambda value: (
            isinstance(value, tuple) and low <= len(value) <= high and all(map(holds, value))
        ),
        allowed,
    )


PENALTY = Rule(lambda value: is_number(value, -2, 2), "in [-2, 2]")


def is_short_text(text: object) -> bool:
    """Whether it can be a stop string: neither empty nor too long."""
    return isinstance(text, str) and 0 < len(text) <= SamplingParams.MAX_STOP_CHARS


LOGPROBS = integer(0, SamplingParams.MAX_LOGPROBS).or_none()
RULES: Mapping[str, Rule] = {
    "max_tokens": Rule(lambda value: is_int(value, 1), "an integer of at least 1"),
    "temperature": Rule(lambda value: is_number(value, 0, 1e6), "a number in [0, 1e6]"),
    "top_p": SHARE,
    "top_k": Rule(lambda value: is_int(value, -1), "an integer of at least -1 (0 and -1 keep all)"),
    "min_p": Rule(lambda value: is_number(value, 0, 1), "in [0, 1]"),
    "seed": integer(-(1 << 63), (1 << 64) - 1).or_none(),
    "n": integer(1, SamplingParams.MAX_N),
    "stop": tuple_of(
        is_short_text,
        f"at most {SamplingParams.MAX_STOP} strings of 1 to {SamplingParams.MAX_STOP_CHARS} "
        "characters",
        0,
        SamplingParams.MAX_STOP,
    ),
    "stop_token_ids": tuple_of(is_token_id, "at most 1024 token ids of at least 0", 0, 1024),
    "ignore_eos": BOOL,
    "skip_special_tokens": BOOL,
    "presence_penalty": PENALTY,
    "frequency_penalty": PENALTY,
    "repetition_penalty": Rule(lambda value: is_number(value, 1e-6, 1e6), "in [1e-6, 1e6]"),
    "logit_bias": tuple_of(
        is_bias,
        f"at most {SamplingParams.MAX_BIASES} token ids with a number in [-100, 100] for each",
        0,
        SamplingParams.MAX_BIASES,
    ),
    "allowed_token_ids": tuple_of(
        is_token_id, "token ids of at least 0, at least one of them", 1, math.inf
    ).or_none(),
    "include_stop_str_in_output": BOOL,
    "bad_token_ids": tuple_of(
        lambda word: isinstance(word, tuple) and bool(word) and all(map(is_token_id, word)),
        "tuples of token ids, none of them empty",
        0,
        math.inf,
    ),
    "bad_words": tuple_of(
        is_short_text,
        f"at most {SamplingParams.MAX_BAD_WORDS} texts of 1 to {SamplingParams.MAX_STOP_CHARS} "
        "characters",
        0,
        SamplingParams.MAX_BAD_WORDS,
    ),
    "prompt_logprobs": LOGPROBS,
    "structured": Rule(
        lambda value: isinstance(value, StructuredOutputs | None),
        "StructuredOutputs, a mapping of its fields, or a pydantic model",
    ),
    "kv_transfer_params": Rule(
        lambda value: isinstance(value, Mapping | None) and is_writable(value),
        "a mapping whose texts UTF-8 can write, or None",
    ),
    "output_kind": one_of(OUTPUT_KINDS),
    "logprobs": LOGPROBS,
}
"""What a parameter may be, whatever the other ones are."""


def as_pairs(bias: object) -> object:
    """A mapping, or a list of pairs, as a tuple of pairs in the order of the ids; anything else as
    it is.
    """
    given = list(bias.items()) if isinstance(bias, Mapping) else bias
    if not isinstance(given, list | tuple) or not all(
        isinstance(pair, list | tuple) for pair in given
    ):
        return given
    pairs = [tuple(map(plain, pair)) for pair in given]
    return tuple(sorted(pairs) if all(map(is_bias, pairs)) else pairs)
