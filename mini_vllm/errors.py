"""Every way in which mini_vllm says no: the exceptions, and the base of the parameter classes,
which raises some.

A refusal is raised before anything has changed, and its message names the value and the limit. All
derive from MiniVllmError, so a server can turn one `except` clause into a 400; laws of the engine
itself are asserts.
"""

import json
import math
import reprlib
from collections.abc import Callable, Collection, Mapping
from copy import copy
from dataclasses import fields
from difflib import get_close_matches
from numbers import Integral, Rational, Real
from typing import Any, NamedTuple, Self


def shown(value: object, limit: int = 200) -> str:
    """repr(value), cut to `limit` characters: a message stays readable, whatever a caller has
    sent.
    """
    short = reprlib.Repr()
    # more would be cut
    vars(short).update({name: limit for name in vars(short) if name.startswith("max")}, maxlevel=2)
    try:
        text = (
            repr(value[:limit]) if isinstance(value, str | bytes | bytearray) else short.repr(value)
        )
    except Exception:  # an integer of too many digits, or an object whose __repr__ raises
        text = f"<{type(value).__name__} that cannot be shown>"
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def how_to_install(extra: str) -> str:
    """What to do where a package of an extra is not installed."""
    return (
        f"Install the extra '{extra}': pip install -e '.[{extra}]' in the folder of the repository."
    )


class MiniVllmError(Exception):
    """Base class of everything that mini_vllm raises on purpose."""


class InvalidParameterError(MiniVllmError, ValueError):
    """A parameter has a value outside its range."""


class UnknownParameterError(MiniVllmError, TypeError):
    """A parameter of that name does not exist; ignoring it would be worse than refusing it."""


class RequestRefusedError(MiniVllmError, ValueError):
    """A request was not added. The engine goes on with the other requests."""


class EmptyPromptError(RequestRefusedError):
    """A prompt without a single token: there is nothing to predict from."""


class InvalidPromptError(RequestRefusedError):
    """A prompt that is neither text nor token ids, or a text that has no encoding."""


class ChatTemplateError(RequestRefusedError):
    """Messages that are no conversation, or a chat template that fails, or asks for too much time
    or memory.
    """


class PromptTooLongError(RequestRefusedError):
    """A prompt that exceeds max_model_len or the whole KV cache, so that it could never be
    computed.
    """


class GroupTooLargeError(RequestRefusedError):
    """A request whose choices have to run together and never could."""


class TokenIdOutOfRangeError(RequestRefusedError):
    """A token id that the model's vocabulary does not have."""


class DuplicateRequestError(RequestRefusedError):
    """A request id that is still in flight."""


class TokenizerMissingError(RequestRefusedError):
    """Text in, or a stop string, for a checkpoint that has no tokenizer: only token ids work."""


class CheckpointError(MiniVllmError):
    """A model cannot be loaded."""


class CheckpointNotFoundError(CheckpointError):
    """Neither a local folder nor a cached hub name."""


class CorruptCheckpointError(CheckpointError):
    """A file of the checkpoint is missing, truncated or malformed."""


class UnsupportedCheckpointError(CheckpointError):
    """Weights that run code when they are read (.bin, .pt), that are to be added to other weights
    (adapters), or that another program stores in a form of its own (.gguf).
    """


class UnsupportedModelError(CheckpointError):
    """An architecture, or an option of one, that mini_vllm does not implement."""


class WeightsMismatchError(CheckpointError):
    """The checkpoint's tensors are not exactly the model's parameters."""


class WeightsTooLargeError(CheckpointError):
    """The weights take more memory than the device has free."""


class KVCacheTooSmallError(MiniVllmError, ValueError):
    """The memory budget does not hold the smallest useful KV cache."""


class KVCacheTooLargeError(MiniVllmError, ValueError):
    """Blocks that are asked for by number take more memory than the machine has free."""


class InvalidLogitsError(MiniVllmError):
    """The model produced logits from which no token can be sampled: NaN, +inf, or -inf everywhere.

    rows: why, by the number of the row.
    """

    def __init__(self, rows: Mapping[int, str]) -> None:
        super().__init__(rows)
        self.rows = rows

    def __str__(self) -> str:
        return "; ".join(f"row {row}: {reason}" for row, reason in self.rows.items())


class RequestFailedError(MiniVllmError, RuntimeError):
    """A request has ended with finish reason "error": its logits were no numbers, or every step
    with it failed.
    """


class GrammarError(RequestRefusedError, RequestFailedError):
    """The form that a request asks for its text cannot be compiled: it is wrong, or takes too long
    or too much.
    """


class EngineDeadError(MiniVllmError, RuntimeError):
    """The engine has stopped at an error, or its request was dropped with it.

    LLMEngine.reset() begins again.
    """


class ExecutorLostError(EngineDeadError):
    """What computed the steps is gone, as a process that was killed. A new engine has to be
    made.
    """


class EngineBusyError(MiniVllmError, RuntimeError):
    """A second thread calls an engine that is at work. One thread at a time may."""


class ConnectorMissingError(MiniVllmError, RuntimeError):
    """A step has work for the worker side of a KV connector, and this worker has none: its K and V
    would be wrong.
    """


class SchedulerStalledError(MiniVllmError, RuntimeError):
    """Requests are unfinished, but the scheduler schedules nothing: it would never end."""


# --- parameters that refuse what they do not know -------------------------------------------------


def check_prompt_len(
    request_id: str, num_prompt_tokens: int, max_model_len: int, num_slots: int
) -> None:
    """Raises PromptTooLongError for a prompt that could never be computed."""
    limit = min(max_model_len, num_slots)
    if num_prompt_tokens > limit:
        raise PromptTooLongError(
            f"This model's maximum context length is {limit} tokens. Request {shown(request_id)}: "
            f"the prompt has {num_prompt_tokens} tokens, at most {limit} fit "
            f"(max_model_len {max_model_len}, KV cache {num_slots} tokens)"
        )


class Rule(NamedTuple):
    """What a value may be, as a test and in words."""

    holds: Callable[[Any], bool]
    allowed: str

    def or_none(self, name: str = "None") -> "Rule":
        """The same, or nothing: None, which a JSON file calls null."""
        return Rule(lambda value: value is None or self.holds(value), f"{name} or {self.allowed}")


def integer(low: int, high: int) -> Rule:
    """An integer, no bool, in [low, high]."""
    return Rule(lambda value: is_int(value, low, high), f"an integer in [{low}, {high}]")


def one_of(choices: Collection[str | None]) -> Rule:
    """One of the names; None may be among them."""
    return Rule(
        lambda value: isinstance(value, str | None) and value in choices, f"one of {choices}"
    )


BOOL = Rule(lambda value: isinstance(value, bool), "True or False")
SHARE = Rule(lambda value: is_number(value, 0, 1) and value > 0, "in (0, 1]")


class Params:
    """Base of the frozen parameter classes: a keyword that is not a field is refused, never
    ignored.
    """

    __slots__: tuple[str, ...] = ()

    def __new__(cls, /, *args: Any, **kwargs: Any) -> "Params":
        known = [field.name for field in fields(cls)]  # type: ignore[arg-type]
        for name in sorted(kwargs.keys() - known):
            close = get_close_matches(name[:100], known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
            raise UnknownParameterError(f"{cls.__name__}: unknown parameter {shown(name)}; {hint}")
        return super().__new__(cls)

    def normalise(self) -> None:
        """Store numbers of other libraries as Python's own, and lists as tuples."""
        self.store({name: plain(getattr(self, name)) for name in self.__slots__})

    def changed(self, **values: Any) -> Self:
        """The same with other values, which are known to be right.

        It checks none again: with a thousand biases that takes milliseconds, for each of a
        thousand prompts.
        """
        found = copy(self)
        found.store(values)
        return found

    def store(self, values: Mapping[str, Any]) -> None:
        """Set fields, unchecked."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def check(self, rules: Mapping[str, Rule]) -> None:
        """Refuse the first field whose value breaks its rule."""
        for name, rule in rules.items():
            self.require(name, rule.holds(getattr(self, name)), rule.allowed)

    def require(self, name: str, holds: bool, limit: str) -> None:
        """Refuse the value of field `name` unless it holds; `limit` says what is allowed.

        A field that repr() leaves out may have a secret, and is not shown.
        """
        if not holds:
            field = self.__dataclass_fields__[name]  # type: ignore[attr-defined]
            got = shown(getattr(self, name)) if field.repr else "a value that is not shown"
            raise InvalidParameterError(f"{type(self).__name__}: {name} must be {limit}, got {got}")


def plain(value: Any) -> Any:
    """A number (a bool is none) as Python's own int or float: numpy's, or of a subclass.

    A list as a tuple, at every depth; anything else as it is.
    """
    if isinstance(value, list | tuple):
        return tuple(map(plain, value))
    if isinstance(value, Integral):
        return value if isinstance(value, bool) else int(value)
    return float(value) if isinstance(value, Real) and not isinstance(value, Rational) else value


def is_writable(value: object) -> bool:
    """Whether UTF-8 can write all texts in it, at every depth: it may go to a socket, or to a
    hash.
    """
    try:
        json.dumps(value, ensure_ascii=False, default=str).encode()
    except (ValueError, TypeError, RecursionError):
        return False
    return True


def is_int(value: object, low: float, high: float = math.inf) -> bool:
    """Whether value is an integer (a bool is not) in [low, high]."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def is_number(value: object, low: float, high: float) -> bool:
    """Whether value is a finite number (a bool is not) in [low, high]."""
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and low <= value <= high
        and value < math.inf
    )
