"""What one request may ask for in all, so that no request holds up the other ones.

Each field has its own limit (protocol.py). Here are the limits of what comes of many of them: of
the values of a body at all depths, and of products such as prompts times n. Each keeps the work on
a request below a quarter of a second of the processor, most of it outside the event loop.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from mini_vllm.serving.openai.protocol import MAX_PROMPTS, ApiError, CompletionRequest

# A body of so many bytes breaks no limit of its structure: an object has 3 bytes with its comma.
SMALL_BODY_BYTES = 3 << 14
MAX_OBJECTS = 1 << 14
MAX_KEYS = 1 << 15
MAX_VALUES = 1 << 18
MAX_CHOICES = 1024  # prompts times n
MAX_LISTED = 1 << 18  # token ids and characters of bad words, of all choices
MAX_LOGPROBS = 1 << 17  # tokens times their logprobs, of all choices
MAX_REPEATED_BYTES = 1 << 19  # prompts times what is sent along with each of them


def check_structure(body: bytes, max_values: int = MAX_VALUES) -> None:
    """Raises ApiError for JSON with too many objects, keys or values, at whatever depth.

    It runs before the body is parsed, and costs a few milliseconds for 8 MiB. What stands between
    quotes is taken out, and then commas, colons and brackets are counted.
    """
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    _check("the body", plain.count(b'"') // 2, "strings", max_values + MAX_KEYS)
    plain = b"".join(plain.split(b'"')[::2])
    num_objects = plain.count(b"{")
    _check("the body", num_objects, "objects", MAX_OBJECTS)
    _check("the body", plain.count(b":"), "keys", MAX_KEYS)
    num_values = plain.count(b",") + num_objects + plain.count(b"[")
    _check("the body", num_values, "values", max_values)


def check_prompts(asked: CompletionRequest) -> None:
    """Raises ApiError for too many choices, or too much that goes along with each prompt."""
    num_prompts, n = len(asked.prompts), asked.n or 1
    _check("prompt", num_prompts, "prompts", MAX_PROMPTS, "prompt")
    _check(f"{num_prompts} prompts with n {n}", num_prompts * n, "choices", MAX_CHOICES, "prompt")
    if num_prompts > 1:
        rest = asked.model_dump_json(exclude={"prompt"}, exclude_none=True, by_alias=True)
        _check(
            f"{num_prompts} prompts with other fields of {len(rest):,} characters",
            num_prompts * len(rest),
            "characters",
            MAX_REPEATED_BYTES,
            "prompt",
        )


def check_products(
    options: Mapping[str, Any], num_prompt_tokens: Sequence[int], max_tokens: int
) -> None:
    """Raises ApiError for longer lists, or more logprobs, than one request may hold. options: of
    SamplingParams.
    """
    n = options.get("n", 1)
    lists = [options.get("allowed_token_ids", ()), *options.get("bad_words", ())]
    num_listed, num_choices = sum(map(len, lists)), n * len(num_prompt_tokens)
    _check(
        f"{num_listed:,} allowed token ids and characters of bad words, {num_choices} choices",
        num_listed * num_choices,
        "in all",
        MAX_LISTED,
        "n",
    )
    num_tokens = {
        "logprobs": len(num_prompt_tokens) * max_tokens,
        "prompt_logprobs": sum(num_prompt_tokens),
    }
    if not (asked := [name for name in num_tokens if name in options]):
        return
    num_each = max(options[name] for name in asked) + 1
    total = sum(num_tokens[name] for name in asked)
    _check(
        f"{total:,} tokens with n {n} and {num_each} logprobs for each",
        total * n * num_each,
        "logprobs",
        MAX_LOGPROBS,
        asked[0],
    )


def max_tokens_with_logprobs(options: Mapping[str, Any]) -> int:
    """What a chat may write that does not say how much."""
    num_each = options.get("n", 1) * ((options.get("logprobs") or 0) + 1)
    return MAX_LOGPROBS // num_each if "logprobs" in options else sys.maxsize


def _check(what: str, value: int, unit: str, limit: int, param: str | None = None) -> None:
    if value > limit:
        raise ApiError(400, f"{what}: {value:,} {unit}, at most {limit:,} are allowed", param)
