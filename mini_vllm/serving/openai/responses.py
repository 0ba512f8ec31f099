"""The Responses API: a request becomes a chat, and what the chat brings becomes items.

Nothing is kept between two requests: the input is the whole conversation. An answer that is not
streamed is what the events of a streamed one end with. Source: OpenAI's API reference;
vllm/entrypoints/openai/responses/serving.py and
vllm/entrypoints/openai/responses/streaming_events.py.
"""

import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import orjson
from pydantic import Field

from mini_vllm.serving.openai.answers import ChatAnswer, Json
from mini_vllm.serving.openai.foreign_fields import NEUTRAL
from mini_vllm.serving.openai.protocol import (
    WHOLE,
    ApiError,
    ChatCompletionRequest,
    GenerateRequest,
    Many,
    Strict,
    TextPart,
    parse,
    text_of,
)

KEEPS_NOTHING = (
    "this server keeps no responses: send the whole conversation as input (store: false)"
)
NO_LOGPROBS = "log-probabilities are in /v1/chat/completions"
# By the words of a chat: those of a response. What becomes of an item may be a part of a message.
WORDS = {
    r"^messages(\[\d+\])?": "input",
    r"^max_(completion_)?tokens": "max_output_tokens",
    r"^response_format(\.json_schema)?": "text.format",
    r"\.function\.": ".",
}


# --- what is asked --------------------------------------------------------------------------------


class Item(Strict):
    """What a conversation is made of. The items of a response may be sent back as they are."""

    type: Literal[
        "message", "function_call", "function_call_output", "reasoning", "item_reference"
    ] = "message"
    id: str | None = None
    status: str | None = None
    role: str | None = None
    content: str | Many[TextPart] = ""
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: str | Many[TextPart] = ""
    summary: Many[TextPart] | None = None
    encrypted_content: None = None

    def as_message(self) -> Json:
        """In a chat."""
        if self.type == "item_reference":
            raise ApiError(400, KEEPS_NOTHING, "input")
        if self.type == "message":
            return {"role": self.role, "content": text_of(self.content)}
        if self.type == "function_call_output":
            return {
                "role": "tool",
                "tool_call_id": self.call_id,
                "content": text_of(self.output),
            }
        if self.type == "reasoning":
            return {
                "role": "assistant",
                "reasoning_content": text_of(self.content or self.summary or ""),
            }
        function = {"name": self.name, "arguments": self.arguments}
        return {"role": "assistant", "tool_calls": [{"id": self.call_id, "function": function}]}


class Echoed(Strict):
    """What is asked and stands in the response again."""

    instructions: str | None = None
    """What stands before the input, as the system."""
    max_output_tokens: Annotated[int, Field(ge=1), WHOLE] | None = None
    """It is absent: what fits."""
    metadata: Json | None = None
    parallel_tool_calls: bool | None = True
    reasoning: Json | None = None
    """It has no effect."""
    text: Json = Field({"format": {"type": "text"}})
    """format: text, json_object, or json_schema with name and schema."""
    tool_choice: str | Json | None = "auto"
    """none, auto, required, or {"type": "function", "name": ...}."""
    tools: Many[Json] | None = None


class ResponsesRequest(GenerateRequest, Echoed):
    """The body of POST /v1/responses."""

    NEUTRAL: ClassVar = {
        **NEUTRAL,
        "background": ((False,), KEEPS_NOTHING),
        "conversation": ((), KEEPS_NOTHING),
        "include": (([], ["reasoning.encrypted_content"]), NO_LOGPROBS),
        "max_completion_tokens": ((), "use max_output_tokens"),
        "max_tokens": ((), "use max_output_tokens"),
        "n": ((1,), "a response has one answer"),
        "previous_response_id": ((), KEEPS_NOTHING),
        "prompt": ((), "there are no templates of prompts here: use input"),
        "response_format": ((), "use text.format"),
        "top_logprobs": ((0,), NO_LOGPROBS),
        "truncation": (("disabled",), "no prompt is cut"),
    }
    input: str | Annotated[Many[Item], Field(min_length=1)]
    chat_template_kwargs: Json | None = None
    """Variables of the chat template, such as enable_thinking."""

    def as_chat(self) -> ChatCompletionRequest:
        """The same as a chat. Raises ApiError."""
        shared = {*GenerateRequest.model_fields, "chat_template_kwargs"}
        body = self.model_dump(include=shared, exclude_none=True, by_alias=True)
        body |= {
            "messages": self._messages(),
            "max_completion_tokens": self.max_output_tokens,
            "response_format": nested(self.text.get("format"), "json_schema"),
        }
        if self.tools or self.tool_choice != "auto":
            body["tool_choice"] = nested(self.tool_choice, "function")
        if self.tools:
            body["tools"] = [nested(tool, "function") for tool in self.tools]
            body["parallel_tool_calls"] = self.parallel_tool_calls
        chat: ChatCompletionRequest = parse(ChatCompletionRequest, body, strict=True)
        return chat

    def _messages(self) -> list[Json]:
        """Items of the assistant that follow each other are one message."""
        given = self.input
        items = [Item(role="user", content=given)] if isinstance(given, str) else given
        found: list[Json] = [{"role": "system", "content": self.instructions}]
        for new in (item.as_message() for item in items):
            last = found[-1]
            is_more = last["role"] == new["role"] == "assistant"
            if is_more and last.keys() & new.keys() <= {"role", "tool_calls"}:
                if "tool_calls" in last:
                    last["tool_calls"] += new.pop("tool_calls", [])
                last |= new
            else:
                found.append(new)
        return found if self.instructions else found[1:]


def nested(given: Any, field: str) -> Any:
    """A thing with a type, whose other fields a chat has one level deeper."""
    if not isinstance(given, dict):
        return given
    rest = {name: value for name, value in given.items() if name != "type"}
    more = {field: rest} if rest or field == "function" else {}
    return {"type": given.get("type")} | more


@contextmanager
def in_words_of_responses() -> Iterator[None]:
    """A refusal of the chat names the field that the client has sent."""
    try:
        yield
    except ApiError as error:
        old = param = error.param or ""
        for word, own in WORDS.items():
            param = re.sub(word, own, param)
        message = error.message.replace(old, param)
        raise replace(error, message=message, param=param or None) from error


# --- what is answered -----------------------------------------------------------------------------


class ModelResponse(Echoed):
    """A response, as far as it is."""

    id: str
    object: Literal["response"] = "response"
    created_at: int
    model: str
    status: Literal["in_progress", "completed", "incomplete", "failed"]
    output: list[Item]
    error: Json | None = None
    incomplete_details: Json | None = None
    usage: Json | None = None
    store: bool = False
    temperature: float
    top_p: float


# By type of an item: how its id begins, how its text is called, and how the item, the place of its
# text and the part with it begin.
KINDS: dict[str, tuple[str, str, Json, Json, Json]] = {
    "reasoning": (
        "rs",
        "reasoning_text",
        {"summary": [], "content": []},
        {"content_index": 0},
        {"type": "reasoning_text", "text": ""},
    ),
    "message": (
        "msg",
        "output_text",
        {"role": "assistant", "content": []},
        {"content_index": 0, "logprobs": []},
        {"type": "output_text", "text": "", "annotations": []},
    ),
    "function_call": ("fc", "function_call_arguments", {"arguments": ""}, {}, {}),
}


class ResponseAnswer(ChatAnswer):
    """A response."""

    prompt_field = "input"
    end = b""

    def __init__(self, asked: ResponsesRequest, params: Any, *args: Any) -> None:
        super().__init__(*args)
        self._tells_usage, self._tokenizer = False, args[-1]
        self._about = asked.model_dump(include={*Echoed.model_fields}) | {
            "tools": asked.tools or [],
            "id": self.id,
            "object": "response",
            "created_at": self._head["created"],
            "model": self._head["model"],
            "temperature": params.temperature,
            "top_p": params.top_p,
            "store": False,
            "error": None,
            "incomplete_details": None,
            "usage": None,
        }
        self.num_held_bytes = len(orjson.dumps(self._about))
        self._output: list[Json] = []  # items that are done
        self._item: Json = {}  # that is being written
        self._written: list[str] = []  # of it
        self._events: list[Json] = []  # that are new
        self._num_events = 0

    async def whole(self, outputs: Any) -> Any:
        ((prompt, output),) = outputs
        return [each async for each in self.chunks(prompt, output)][-1]["response"]

    async def chunks(self, prompt: int, output: Any) -> AsyncGenerator[Json]:
        (choice,) = self._count(prompt, output)
        for kind in () if self._num_events else ("created", "in_progress"):
            self._tell(kind, "in_progress")
        part = await self._part(prompt, output, choice)
        self._write(part["delta"])
        if reason := part["finish_reason"]:
            self._finish(reason)
        while self._events:
            yield self._events.pop(0)

    def failed(self, refused: ApiError) -> Json:
        self._tell("failed", "failed", error={"code": "server_error", "message": refused.message})
        return self._events.pop()

    def _say(self, kind: str, **fields: Any) -> None:
        begun = {"type": f"response.{kind}", "sequence_number": self._num_events}
        self._events.append(begun | fields)
        self._num_events += 1

    def _tell(self, kind: str, status: str, **more: Any) -> None:
        """How the response is now."""
        now = {"status": status, "output": [*self._output]}
        self._say(kind, response=self._about | now | more)

    def _write(self, delta: Json) -> None:
        for kind, name in (("reasoning", "reasoning_content"), ("message", "content")):
            if text := delta.get(name):
                if self._item.get("type") != kind:
                    self._begin(kind)
                self._add(text)
        for call in delta.get("tool_calls", ()):
            if "id" in call:
                self._begin("function_call", call_id=call["id"], name=call["function"]["name"])
            self._add(call["function"]["arguments"])

    def _begin(self, kind: str, **fields: str) -> None:
        """A new item."""
        self._close("completed")
        prefix, self._name, item, where, self._part_begun = KINDS[kind]
        index = len(self._output)
        name = f"{prefix}_{index}_{self.id}"
        self._item = {"type": kind, "id": name, "status": "in_progress"} | item | fields
        self._say("output_item.added", output_index=index, item=self._item)
        self._where = where | {"item_id": name, "output_index": index}
        if self._part_begun:
            self._say("content_part.added", **self._where, part=self._part_begun)

    def _add(self, text: str) -> None:
        self._written.append(text)
        self._say(f"{self._name}.delta", **self._where, delta=text)

    def _close(self, status: str) -> None:
        """The item is over, if there is one."""
        if not self._item:
            return
        text, done = "".join(self._written), self._item | {"status": status}
        if self._part_begun:
            part = self._part_begun | {"text": text}
            done["content"] = [part]
            self._say(f"{self._name}.done", **self._where, text=text)
            self._say("content_part.done", **self._where, part=part)
        else:
            done["arguments"] = text
            self._say(f"{self._name}.done", **self._where, arguments=text)
        self._say("output_item.done", output_index=len(self._output), item=done)
        self._output.append(done)
        self._item, self._written = {}, []

    def _finish(self, reason: str) -> None:
        if not self._output and not self._item:  # a response says something, if it is ""
            self._begin("message")
        status = "incomplete" if reason in ("length", "abort") else "completed"
        details = {"reason": "max_output_tokens"} if reason == "length" else None
        self._close(status)
        self._tell(status, status, incomplete_details=details, usage=self._usage())

    def _usage(self) -> Any:
        usage = super()._usage()
        num_prompt, details = usage["prompt_tokens"], usage["prompt_tokens_details"]
        num_thoughts = sum(
            len(self._tokenizer.encode(item["content"][0]["text"], add_special_tokens=False))
            for item in self._output
            if item["type"] == "reasoning"
        )
        return {
            "input_tokens": num_prompt,
            "input_tokens_details": {
                **details,
                "cache_write_tokens": num_prompt - details["cached_tokens"],
            },
            "output_tokens": usage["completion_tokens"],
            "output_tokens_details": {"reasoning_tokens": num_thoughts},
            "total_tokens": usage["total_tokens"],
        }
