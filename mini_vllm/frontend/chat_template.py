"""A conversation becomes text by the checkpoint's chat template, which is a program of a stranger.

It runs in a process of its own (template_worker.py) that has so many seconds of the processor and
so many bytes of memory for each conversation, and is killed when it takes more; the next one starts
it again. What comes out is what transformers' tokenizer.apply_chat_template(tokenize=False) gives.
Called by LLM, and by a server of chats. Source: apply_chat_template in
transformers/tokenization_utils_base.py, version 5.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mini_vllm.errors import (
    ChatTemplateError,
    TokenizerMissingError,
    UnknownParameterError,
    how_to_install,
    plain,
    shown,
)
from mini_vllm.frontend.control_tokens import ControlTokens
from mini_vllm.frontend.prompts import check_text
from mini_vllm.structured.sandbox.child_process import ChildProcess, ProcessPool

Conversation = Sequence[Mapping[str, Any]]

MAX_SECONDS = 2.0
MAX_BYTES = 8 << 20  # of the conversation and the template as JSON, and of the text
MAX_MEMORY_BYTES = 512 << 20
TAG = "CONTINUE_FINAL_MESSAGE_TAG "
NOT_HERE = (
    "tokenize",
    "return_dict",
    "return_assistant_tokens_mask",
    "sanitize_control_tokens",
    "tokenizer_kwargs",
)


class TemplateProcess(ChildProcess):
    """The process, from this side."""

    program = ("-m", f"{__package__}.template_worker")


class ChatTemplateRenderer:
    """Renders conversations with a tokenizer's chat template.

    Any thread may call it. There are as many processes as conversations are rendered at once.

    max_seconds, max_memory_bytes: what one conversation may take. A process starts when it is first
    needed. control: gives control tokens other names in the text.
    """

    def __init__(
        self,
        tokenizer: Any | None,
        *,
        max_seconds: float = MAX_SECONDS,
        max_memory_bytes: int = MAX_MEMORY_BYTES,
        control: ControlTokens | None = None,
    ) -> None:
        self._hide = control.hide if control else str
        self._processes = ProcessPool(lambda: TemplateProcess(max_seconds, max_memory_bytes))
        self.close = self._processes.close  # the next conversation starts one again
        self._tokenizer = tokenizer

    def render(
        self,
        messages: Conversation,
        *,
        chat_template: str | None = None,
        tools: Sequence[Any] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        **variables: Any,
    ) -> str:
        """The text of a conversation. chat_template: another one, or the name of one of several;
        variables: its own.

        Raises ChatTemplateError for messages that are none and a template that fails or takes too
        much, TokenizerMissingError if there is no template.
        """
        for name in NOT_HERE:
            if name in variables:
                raise UnknownParameterError(
                    f"unknown option {name!r} of a chat template: the result is text"
                )
        flags = {
            "add_generation_prompt": add_generation_prompt,
            "continue_final_message": continue_final_message,
        }
        for name, value in flags.items():
            if not isinstance(value, bool):
                raise ChatTemplateError(f"{name} must be True or False, got {shown(value)}")
        given, tools = check_messages(messages), as_schemas(tools)
        template = self._hide(self._find_template(chat_template, tools))
        if continue_final_message:
            if add_generation_prompt:
                raise ChatTemplateError(
                    "continue_final_message must not be given with add_generation_prompt=True"
                )
            if not isinstance(given[-1].get("content"), str):
                raise ChatTemplateError(
                    "continue_final_message needs a final message whose content is a string"
                )
            given[-1]["content"] += TAG
        special = json.dumps(self._tokenizer.special_tokens_map, ensure_ascii=False)  # type: ignore[union-attr]
        known = json.loads(self._hide(special)) | variables
        known |= {
            "messages": given,
            "tools": tools,
            "documents": documents,
            "add_generation_prompt": add_generation_prompt,
        }
        text = self._ask({"template": template, "max_chars": MAX_BYTES, "variables": known})
        check_text("the text of the chat template", text)
        return _cut_at_tag(text) if continue_final_message else text

    def _find_template(self, chat_template: str | None, tools: Sequence[Any] | None) -> str:
        tokenizer = self._tokenizer
        if tokenizer is None or (chat_template is None and not tokenizer.chat_template):
            raise TokenizerMissingError("the checkpoint has no chat template: use generate()")
        if chat_template is not None and not isinstance(chat_template, str):
            raise ChatTemplateError(
                f"chat_template must be None or a string, got {shown(chat_template)}"
            )
        try:
            return str(tokenizer.get_chat_template(chat_template, tools))
        except ValueError as error:
            raise ChatTemplateError(f"chat_template: {str(error)[:200]}") from error

    # --- the process ------------------------------------------------------------------------------

    def _ask(self, question: dict[str, Any]) -> str:
        """What the process answers. Raises ChatTemplateError if it says no, or has to be killed."""
        sent = _to_json(question)
        if len(sent) > MAX_BYTES:
            raise ChatTemplateError(
                f"the conversation has {len(sent)} bytes, the limit is {MAX_BYTES}"
            )
        try:
            with self._processes.one() as process:
                answer = process.ask(sent)
        except (EOFError, TimeoutError) as error:
            raise ChatTemplateError(f"the chat template {error}") from error
        except OSError as error:
            raise ChatTemplateError(
                f"the process for chat templates does not start: {error}"
            ) from error
        if "error" in answer:
            raise ChatTemplateError(f"the chat template {answer['error']}")
        return str(answer["text"])


# --- what goes in, what comes out -----------------------------------------------------------------


def as_conversations(messages: object) -> list[Any]:
    """One conversation or several, as a list of them.

    Raises ChatTemplateError for what is no list.
    """
    if not isinstance(messages, list | tuple):
        raise ChatTemplateError(f"messages must be a list of mappings, got {shown(messages)}")
    return (
        list(messages) if all(isinstance(each, list | tuple) for each in messages) else [messages]
    )


def check_messages(messages: object) -> list[dict[str, Any]]:
    """A copy of a conversation, without what is None.

    Raises ChatTemplateError naming the message and what is wrong.
    """
    if not isinstance(messages, list | tuple) or not messages:
        raise ChatTemplateError(
            f"messages must be a list of at least one mapping, got {shown(messages)}"
        )
    copies = []
    for number, message in enumerate(messages):
        if not isinstance(message, Mapping):
            raise ChatTemplateError(f"messages[{number}] must be a mapping, got {shown(message)}")
        copy = {key: value for key, value in message.items() if value is not None}
        role, content = copy.get("role"), copy.get("content")
        if not isinstance(role, str):
            raise ChatTemplateError(
                f"messages[{number}]: role must be a string, got {shown(message.get('role'))}"
            )
        if content is not None or not copy.get("tool_calls"):
            what = f"messages[{number}]: content"
            copy["content"] = _text_of(what, message.get("content"))
            check_text(what, copy["content"])
        reasoning = next(
            (copy[name] for name in ("reasoning_content", "thinking", "reasoning") if name in copy),
            None,
        )
        if reasoning is not None:  # templates look under either name
            copy = {"thinking": reasoning, **copy, "reasoning_content": reasoning}
        copies.append(copy)
    return copies


def _text_of(what: str, content: Any) -> str:
    """A content as one text: parts are lines, as vLLM joins them for templates that take texts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple) or not all(
        isinstance(part, Mapping) for part in content
    ):
        raise ChatTemplateError(f"{what} must be a string or a list of parts, got {shown(content)}")
    for part in content:
        if part.get("type", "text") != "text" or not isinstance(part.get("text"), str):
            raise ChatTemplateError(
                f"{what} may have parts of text alone, like {{'type': 'text', 'text': 'Hello'}}, "
                f"got {shown(dict(part))}"
            )
    return "\n".join(part["text"] for part in content)


def _to_json(question: dict[str, Any]) -> bytes:
    def default(value: Any) -> Any:
        if isinstance(value, Mapping):
            return dict(value)
        number = plain(value)
        if number is value:
            raise TypeError(f"{shown(value)} is no JSON")
        return number

    try:
        return json.dumps(question, ensure_ascii=False, default=default).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ChatTemplateError(
            f"messages, tools and variables must be JSON: {str(error)[:200]}"
        ) from error


def as_schemas(tools: Any) -> list[Any] | None:
    """Tools as a template knows them.

    Raises ChatTemplateError for what is no list of JSON schemas and functions.
    """
    if tools is None:
        return None
    if not isinstance(tools, list | tuple):
        raise ChatTemplateError(f"tools must be None or a list, got {shown(tools)}")
    return [_as_schema(tool) for tool in tools]


def _as_schema(tool: Any) -> Any:
    if isinstance(tool, Mapping):
        return dict(tool)
    if not callable(tool):
        raise ChatTemplateError(f"tools must hold JSON schemas or functions, got {shown(tool)}")
    try:
        from transformers.utils.chat_template_utils import get_json_schema

        return get_json_schema(tool)
    except ModuleNotFoundError as error:
        raise ChatTemplateError(
            f"tools: a function needs transformers. {how_to_install('engine')}"
        ) from error
    except Exception as error:  # a docstring or a type hint that it cannot read
        raise ChatTemplateError(f"tools: {shown(tool)}: {str(error)[:200]}") from error


def _cut_at_tag(text: str) -> str:
    start = text.rfind(TAG.strip())
    if start < 0:
        raise ChatTemplateError(
            "the chat template leaves the final message out, so that it cannot be continued"
        )
    is_whole = text[start : start + len(TAG)] == TAG
    return text[:start] if is_whole else text[:start].rstrip()
