"""What a caller may give as prompts, sampling_params and request ids: taken rightly, or refused by
name.

A prompt is text, or token ids: a sequence of integers of any library (a bool is none), or what
gives one by tolist(), such as an array of numpy or a tensor of torch. Several prompts are a
sequence of these; a matrix of integers is one prompt for each row. Sets, mappings, bytes and
iterators are refused: they have no order, no length, or another meaning. Text that cannot fit is
refused before it is tokenised, where the tokenizer allows to tell.
"""

import json
from collections.abc import Sequence
from operator import index
from typing import Any

from mini_vllm.errors import (
    InvalidParameterError,
    InvalidPromptError,
    PromptTooLongError,
    TokenIdOutOfRangeError,
    shown,
)
from mini_vllm.params import SamplingParams

Prompt = str | Sequence[int]


# --- what was given -------------------------------------------------------------------------------


def as_batch(prompts: object) -> list[Prompt]:
    """One prompt or several, as a list of prompts. Raises InvalidPromptError for anything else."""
    given = _as_sequence("prompts", prompts)
    if isinstance(given, str) or (len(given) and _as_index(given[0]) is not None):
        return [given]
    return [as_prompt(each) for each in given]


def as_prompt(prompt: object) -> Prompt:
    """One prompt.

    Raises InvalidPromptError for anything else; check_token_ids looks at the ids themselves.
    """
    given: Prompt = _as_sequence("prompt", prompt)
    return given


def one_each(sampling_params: object, num_prompts: int) -> list[SamplingParams]:
    """The parameters of each prompt.

    Raises InvalidParameterError unless they are one for all, or one for each.
    """
    if isinstance(sampling_params, SamplingParams):
        return [sampling_params] * num_prompts
    if not isinstance(sampling_params, list | tuple):
        raise InvalidParameterError(
            "sampling_params must be a SamplingParams, or a list of them, got "
            f"{shown(sampling_params)}"
        )
    if len(sampling_params) != num_prompts:
        raise InvalidParameterError(
            f"{num_prompts} prompts need as many sampling_params, got {len(sampling_params)}"
        )
    for each in sampling_params:
        check_params("sampling_params", each, SamplingParams)
    return list(sampling_params)


def check_params(name: str, params: object, kind: type) -> None:
    """Raise InvalidParameterError unless params is a `kind`."""
    if not isinstance(params, kind):
        raise InvalidParameterError(f"{name} must be a {kind.__name__}, got {shown(params)}")


def check_request_id(request_id: object) -> None:
    """Raise InvalidParameterError unless request_id is a string that is not empty."""
    if not isinstance(request_id, str) or not request_id:
        raise InvalidParameterError(
            f"request_id must be a string that is not empty, got {shown(request_id)}"
        )


def check_token_ids(
    request_id: str, name: str, token_ids: Sequence[object], vocab_size: int
) -> list[int]:
    """The ids as Python's integers. Raises TokenIdOutOfRangeError for what is no token id."""
    checked = []
    for given in token_ids:
        token_id = given if type(given) is int else _as_index(given)
        if token_id is None or not 0 <= token_id < vocab_size:
            raise TokenIdOutOfRangeError(
                f"request {shown(request_id)}: {name} has token id {shown(given)}, allowed are [0, "
                f"{vocab_size})"
            )
        checked.append(token_id)
    return checked


def check_text(name: str, text: str) -> None:
    """Raise InvalidPromptError for a lone surrogate: half of a UTF-16 character, which no text in
    UTF-8 can have.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        found = f"{shown(text[error.start])} at index {error.start}"
        raise InvalidPromptError(
            f"{name} must be text that UTF-8 can encode, it has a lone surrogate {found}"
        ) from error


def _as_sequence(name: str, value: object) -> Any:
    """A text or another sequence, also one that an array or a tensor stands for."""
    given = value
    if not isinstance(value, Sequence) and not isinstance(value, type):
        try:
            given = value.tolist()  # type: ignore[attr-defined]
        except Exception:  # it has none, or cannot: then it is no sequence
            given = None
    if not isinstance(given, Sequence) or isinstance(given, bytes | bytearray | memoryview):
        raise InvalidPromptError(
            f"{name} must be text, a list of token ids, or a list of these, got {shown(value)}"
        )
    return given


def _as_index(value: object) -> int | None:
    """An integer of any library as Python's own; None for anything else, a bool among it."""
    if isinstance(value, bool) or "bool" in str(getattr(value, "dtype", "")):
        return None
    try:
        return index(value)  # type: ignore[arg-type]
    except Exception:  # a strange class may raise anything here
        return None


# --- how long a text may be -----------------------------------------------------------------------


class TextBound:
    """How many characters a text may have of which at most max_tokens tokens come; above it, it
    never fits.

    max_chars_per_token is None where nothing can be said: a tokenizer may drop spaces, or make one
    token of a word that it does not know, however long. It is known for BPE over bytes, where no
    character is lost: byte-level (as GPT-2) or with byte fallback (as Llama 2). A token then stands
    for no more characters than it has itself. NFC may compose four characters into one, and no more
    (Unicode Standard Annex 15), but leaves ASCII as it is.
    """

    def __init__(self, tokenizer: Any | None) -> None:
        self.max_chars_per_token: int | None = None
        self._may_compose = False
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is not None and _keeps_every_character(backend):
            self.max_chars_per_token = max(map(len, backend.get_vocab()))
            self._may_compose = backend.normalizer is not None

    def check(self, text: str, max_tokens: int) -> None:
        """Raise PromptTooLongError for a text of which more than max_tokens tokens would come for
        certain.
        """
        if self.max_chars_per_token is None:
            return
        limit = (
            max_tokens
            * self.max_chars_per_token
            * (4 if self._may_compose and not text.isascii() else 1)
        )
        if len(text) > limit:
            raise PromptTooLongError(
                f"This model's maximum context length is {max_tokens} tokens: the prompt has "
                f"{len(text)} characters, at most {limit} fit ({max_tokens} tokens are there)"
            )


def _keeps_every_character(backend: Any) -> bool:
    """Whether each character of a text is in some token of it, and each token has no more than are
    in its name.
    """
    vocab = backend.get_vocab()
    if type(backend.model).__name__ != "BPE" or backend.truncation is not None:
        return False
    if any(token.lstrip or token.rstrip for token in backend.get_added_tokens_decoder().values()):
        return False  # such a token swallows the spaces beside it
    normalizers, pre_tokenizers = _parts(backend.normalizer), _parts(backend.pre_tokenizer)
    if not all(_keeps_length(part) for part in normalizers) or not all(
        _only_cuts(part) for part in pre_tokenizers
    ):
        return False
    if any(part["type"] == "ByteLevel" for part in pre_tokenizers):
        from tokenizers.pre_tokenizers import ByteLevel

        return set(ByteLevel.alphabet()) <= set(vocab)
    return bool(backend.model.byte_fallback) and {f"<0x{byte:02X}>" for byte in range(256)} <= set(
        vocab
    )


def _keeps_length(normalizer: dict[str, Any]) -> bool:
    """Whether it makes no text shorter, or by NFC alone."""
    if normalizer["type"] == "Replace":
        pattern = normalizer["pattern"].get("String")
        return pattern is not None and len(normalizer["content"]) >= len(pattern)
    return str(normalizer["type"]) in ("NFC", "Prepend")


def _only_cuts(pre_tokenizer: dict[str, Any]) -> bool:
    """Whether it cuts a text into pieces and drops nothing."""
    if pre_tokenizer["type"] == "Split":
        return str(pre_tokenizer["behavior"]) != "Removed"
    return str(pre_tokenizer["type"]) in ("ByteLevel", "Metaspace", "Digits")


def _parts(component: Any) -> list[dict[str, Any]]:
    """A normalizer or a pre-tokenizer as its parts, in the form of tokenizer.json; None has
    none.
    """
    if component is None:
        return []
    state = json.loads(component.__getstate__())
    parts: list[dict[str, Any]] = state.get("normalizers") or state.get("pretokenizers") or [state]
    return parts
