"""How the assistant of a checkpoint writes: which form its calls have, and whether it thinks first.

The chat template shows the form of calls. It says how a call of an earlier turn is written, and the
model has learnt to write the same. So a trial conversation with a call is rendered, and the form is
the one whose parser reads the call. A template may leave calls out; then tags in it or in the
vocabulary have to do.
"""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from mini_vllm.errors import ChatTemplateError
from mini_vllm.frontend.tokenizer import Tokenizer
from mini_vllm.frontend.tool_calls import PARSERS, TAGS
from mini_vllm.params import SamplingParams

THINK, END_THINK = "<think>", "</think>"
UNKNOWN = "unknown"
TRIED = ("hermes", "qwen3_coder", "mistral", "deepseek_v3", "pythonic", "llama3_json")


class AssistantForm(NamedTuple):
    """How an assistant writes.

    calls: a name of PARSERS, "none", or "unknown": there may be calls, and no parser reads them.
    """

    calls: str = "none"
    thinks: bool = False
    is_thinking: bool = False  # the prompt has opened the reasoning
    names: Collection[str] = ()  # of the tools: other JSON is no call where no tag says so
    is_parallel: bool = True  # False: the calls behind the first one are left out
    parameters: Mapping[str, Any] = {}  # of the tools, by name: JSON schemas
    skip_special_tokens: bool = True  # False: the tag of a call is one

    def constrain(self, params: SamplingParams) -> SamplingParams:
        """The same for a text in which the tags of calls are to be seen."""
        return params if self.skip_special_tokens else replace(params, skip_special_tokens=False)


def find_form(
    tokenizer: Any | None,
    tool_call_parser: str = "auto",
    reasoning_parser: str = "auto",
    render: Callable[..., str] | None = None,
    show: Callable[[str], str] = str,
) -> AssistantForm:
    """How a model writes: as the options say, or as its chat template or its vocabulary shows.

    render: ChatTemplateRenderer.render of the tokenizer; without it only tags are looked for. show:
    makes the text of a conversation of what it gives.
    """
    template = "" if tokenizer is None else str(tokenizer.chat_template or "")
    vocabulary = () if tokenizer is None else tokenizer.get_added_vocab()
    shown = f"{template} {' '.join(vocabulary)}"
    calls = tool_call_parser
    if calls == "auto":
        tried = (
            find_by_trial(lambda *given, **options: show(render(*given, **options)))
            if render is not None and "tool" in template
            else None
        )
        calls = tried or find_by_tags(template, shown)
    thinks = reasoning_parser == "think" or (reasoning_parser == "auto" and THINK in shown)
    return AssistantForm(calls, thinks)


def hides_tag(calls: str, reader: Tokenizer | None) -> bool:
    """Whether a text without special tokens lacks the tag of calls."""
    tag = TAGS.get(calls)
    if tag is None or reader is None:
        return False
    return any(map(reader.is_special, reader.encode(tag, add_special_tokens=False)))


def find_by_tags(template: str, shown: str) -> str:
    """The form of calls whose tags stand in the template, or in it and the vocabulary."""
    if "<arg_key>" in template:  # GLM's, between the tags of Hermes
        return UNKNOWN
    if "<function=" in template and "<parameter=" in template:
        return "qwen3_coder" if TAGS["qwen3_coder"] in shown else UNKNOWN
    for calls in ("hermes", "mistral", "deepseek_v3", "llama3_json"):
        if TAGS[calls] in shown:
            return calls
    if '"parameters"' in template and "ipython" in template:
        return "llama3_json"
    return UNKNOWN if "tool" in template else "none"


TRIAL_NAME, TRIAL_ARGUMENTS = "get_forecast", {"city": "Oslo", "days": 3}
QUESTION, ANSWER = "How will the weather be?", "It will rain."
TRIAL_TOOL = {
    "type": "function",
    "function": {
        "name": TRIAL_NAME,
        "description": "The weather of the next days.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Where."},
                "days": {"type": "integer", "description": "How many."},
            },
            "required": ["city", "days"],
        },
    },
}
TRIAL_CALL = {
    "id": "call12345",
    "type": "function",
    "function": {"name": TRIAL_NAME, "arguments": json.dumps(TRIAL_ARGUMENTS)},
}


def find_by_trial(render: Callable[..., str]) -> str | None:
    """The form in which a template writes a call: a name of PARSERS, or "unknown".

    None if it writes none, or fails.
    """

    def turn(**message: Any) -> str:
        """What a template writes for an answer to the question."""
        messages = [{"role": "user", "content": QUESTION}, {"role": "assistant", **message}]
        text = render(messages, tools=[TRIAL_TOOL], add_generation_prompt=False)
        return text.rpartition(QUESTION)[2]

    try:
        called = turn(content="", tool_calls=[TRIAL_CALL])
        around = turn(content=ANSWER).replace(ANSWER, "")
    except ChatTemplateError:
        return None
    if TRIAL_NAME not in called:
        return None
    parameters = {TRIAL_NAME: TRIAL_TOOL["function"]["parameters"]}  # type: ignore[index]
    for calls in TRIED:
        form = AssistantForm(calls, names=[TRIAL_NAME], parameters=parameters)
        delta = PARSERS[calls](form).finish(called)
        found = [
            (each["function"]["name"], [*json.loads(each["function"]["arguments"])])
            for each in delta.tool_calls
        ]
        is_read = found == [(TRIAL_NAME, [*TRIAL_ARGUMENTS])]
        if is_read and bare(delta.content) == bare(around):
            return calls
    return UNKNOWN


def bare(text: str) -> str:
    """A text without space, and without the tags of reasoning, which may be in one turn alone."""
    return "".join(text.replace(THINK, "").replace(END_THINK, "").split())
