"""Fields of OpenAI's API, of vLLM and of routers that this server does not have.

Clients send many of them with values that ask for nothing. Such a value is taken. A value that
would change the answer is refused, with the reason. A field that nobody here knows is left out,
and the log names it once. A strict server refuses all of them. Source: OpenAI's API reference;
ChatCompletionRequest in vllm/entrypoints/openai/chat_completion/protocol.py, whose unknown fields
are left out (vllm PR #10463); the bodies of vllm-router 0.1.17.
"""

import logging
from collections.abc import Iterator, Mapping, Set
from typing import Any

from mini_vllm.errors import shown

logger = logging.getLogger("mini_vllm")

Reasons = tuple[tuple[Any, ...], str]  # neutral values of a field, and why another one is refused

# Whatever their values are, no answer is another one. The log does not name them.
WITHOUT_EFFECT = frozenset(
    "guided_decoding_backend metadata prediction prompt_cache_key prompt_cache_retention "
    "safety_identifier service_tier store stream_reasoning".split()
)
# By field: the values that change nothing, beside null, and why another one is refused.
NEUTRAL: Mapping[str, Reasons] = {
    "audio": ((), "this server writes text alone"),
    "best_of": ((1,), "every choice is returned: use n"),
    "chat_template": ((), "the checkpoint's own template is used"),
    "documents": (([],), "they have no place in a conversation: put them into a message"),
    "function_call": (("none",), "use tool_choice"),
    "guided_whitespace_pattern": ((), "the grammar says which white space may stand"),
    "functions": (([],), "use tools"),
    "include_reasoning": ((True,), "reasoning is returned in reasoning_content"),
    "kv_transfer_params": ((), "this server passes no KV blocks on"),
    "length_penalty": ((1,), "there is no beam search here"),
    "logits_processors": (([],), "this server runs no code of a client"),
    "mm_processor_kwargs": ((), "this server reads text alone"),
    "modalities": ((["text"],), "this server writes text alone"),
    "no_stop_trim": ((False,), "use include_stop_str_in_output"),
    "prompt_embeds": ((), "give a text or token ids"),
    "prompt_logprobs": ((), "use echo with logprobs in a completion"),
    "return_hidden_states": ((False,), "they are not returned"),
    "return_token_ids": ((False,), "they are not returned"),
    "return_tokens_as_token_ids": ((False,), "tokens are returned as texts"),
    "separate_reasoning": ((True,), "reasoning is returned in reasoning_content"),
    "spaces_between_special_tokens": ((True,), "the tokenizer decides"),
    "suffix": (("",), "this server writes at the end of a text alone"),
    "thinking_token_budget": ((), "use max_tokens"),
    "truncate_prompt_tokens": ((-1,), "no prompt is cut"),
    "use_beam_search": ((False,), "there is no beam search here"),
    "web_search_options": ((), "this server searches nothing"),
}
# Of a message of the assistant that comes back.
NEUTRAL_IN_MESSAGES = {
    "audio": NEUTRAL["audio"],
    "function_call": ((), "use tool_calls"),
}
MAX_NAMES_TOLD = 100

_told: set[str] = set()

FIELDS_OF_A_TOOL = ("type", "function")
FIELDS_OF_A_FUNCTION = ("name", "description", "parameters", "strict", "return")


def without_foreign(
    body: Mapping[str, Any], known: Set[str], neutral: Mapping[str, Reasons]
) -> dict[str, Any]:
    """A body without what changes nothing in it. The log names the fields of it that are not known.

    Raises ValueError with a field and a reason if one asks for what is not here.
    """
    for name, why in find_refused(body, neutral):
        raise ValueError(name, why)
    tell_left_out(body.keys() - known - WITHOUT_EFFECT - neutral.keys())
    found = {name: value for name, value in body.items() if name not in neutral}
    if isinstance(tools := found.get("tools"), list):
        found["tools"] = [known_of_a_tool(tool) for tool in tools]
    return found


def known_of_a_tool(tool: Any) -> Any:
    """What a chat template may see of a tool: the cache_control of another server is not in it."""
    if not isinstance(tool, dict):
        return tool
    known = FIELDS_OF_A_TOOL if "function" in tool else ("type", *FIELDS_OF_A_FUNCTION)
    found = {name: tool[name] for name in known if name in tool}
    if isinstance(function := found.get("function"), dict):
        found["function"] = {n: function[n] for n in FIELDS_OF_A_FUNCTION if n in function}
    return found


def find_refused(
    body: Mapping[str, Any], neutral: Mapping[str, Reasons]
) -> Iterator[tuple[str, str]]:
    """The fields of a body that ask for what is not here, and why it is not."""
    for name in neutral:
        if (why := why_not(neutral, name, body)) and not is_neutral_best_of(name, body):
            yield name, why
    messages = body.get("messages")
    for number, message in enumerate(messages if isinstance(messages, list) else ()):
        for name in NEUTRAL_IN_MESSAGES if isinstance(message, dict) else ():
            if why := why_not(NEUTRAL_IN_MESSAGES, name, message):
                yield f"messages[{number}].{name}", why


def why_not(table: Mapping[str, Reasons], name: str, given: Mapping[str, Any]) -> str | None:
    """Why the value of a field is refused; None if it asks for nothing."""
    values, why = table[name]
    value = given.get(name)
    taken = value is None or any(
        value == each and isinstance(value, bool) == isinstance(each, bool) for each in values
    )
    return None if taken else why


def is_neutral_best_of(name: str, body: Mapping[str, Any]) -> bool:
    """As many candidates as choices: each of them is returned."""
    return name == "best_of" and type(body[name]) is int and body[name] == body.get("n")


def tell_left_out(names: Set[str]) -> None:
    """Say in the log, once for each name, that a field is left out."""
    for name in sorted(names - _told)[: MAX_NAMES_TOLD - len(_told)]:
        _told.add(name)
        logger.warning("the field %s of a request has no effect here", shown(name))
