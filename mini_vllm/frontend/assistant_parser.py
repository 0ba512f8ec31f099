"""What an assistant has written becomes reasoning, content and tool calls, as it comes.

The text comes in pieces of any length, and what comes out does not depend on where it was cut. A character is looked at
once, and once more if it looked like a part of a tag or a call and is text. Two forms of calls are known:

    hermes       <tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>, among text (Hermes, Qwen)
    llama3_json  {"name": "f", "parameters": {"a": 1}} where the text begins, or behind <|python_tag|>; several by ";"

A call is given out when it is whole: a malformed one is text, and what was given out as a call cannot become text
again. Where a grammar has forced the form, a list of calls in JSON, nothing is malformed, and arguments are given out
as they come. Source: the parsers of the same names in vllm/tool_parsers and vllm/reasoning.
"""

import json
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

THINK, END_THINK = "<think>", "</think>"  # the first character of a tag stands nowhere else in it
CALL, END_CALL, PYTHON_TAG = "<tool_call>", "</tool_call>", "<|python_tag|>"
SPACE = frozenset(" \t\r\n")
BETWEEN_CALLS = SPACE | frozenset("[],;")  # in JSON
OUTSIDE_STRINGS = SPACE | frozenset('{}[]:,"+-.0123456789eEtrufalsn')
MAX_SPACE = 32  # characters of a text that may stand before <think>, and with it


class AssistantForm(NamedTuple):
    """How an assistant writes. calls: "none", "hermes", "llama3_json", or "json", which a grammar has forced."""

    calls: str = "none"
    thinks: bool = False
    is_thinking: bool = False  # the prompt has opened the reasoning
    names: Collection[str] = ()  # of the tools: other JSON is no call where no tag says so


class AssistantDelta(NamedTuple):
    """What is new of a message: text, reasoning, and at most one part of each call. Or all of it.

    A call is in OpenAI's shape. Its first part has id and name; the arguments of all parts, joined, are JSON.
    """

    content: str
    reasoning: str = ""
    tool_calls: Sequence[Mapping[str, Any]] = ()

    def as_json(self, *, is_text: bool) -> dict[str, Any]:
        """As a part of a stream in OpenAI's shape. is_text: the content is there even if it is empty."""
        content = {"content": self.content} if self.content or is_text else {}
        reasoning = {"reasoning_content": self.reasoning} if self.reasoning else {}
        return content | reasoning | ({"tool_calls": self.tool_calls} if self.tool_calls else {})

    def as_message(self) -> dict[str, Any]:
        """As a whole message, which a conversation can go on with."""
        calls = [{name: call[name] for name in ("id", "type", "function")} for call in self.tool_calls]
        found = self._replace(tool_calls=calls).as_json(is_text=not (self.reasoning or calls))
        return {"role": "assistant", "content": None} | found


def find_form(tokenizer: Any | None, tool_call_parser: str = "auto", reasoning_parser: str = "auto") -> AssistantForm:
    """How a model writes: as the options say, or as its chat template or its vocabulary shows."""
    shown = "" if tokenizer is None else f"{tokenizer.chat_template} {' '.join(tokenizer.get_added_vocab())}"
    if tool_call_parser == "auto":
        is_llama = PYTHON_TAG in shown or ('"parameters"' in shown and "ipython" in shown)
        tool_call_parser = "hermes" if CALL in shown else "llama3_json" if is_llama else "none"
    thinks = reasoning_parser == "think" or (reasoning_parser == "auto" and THINK in shown)
    return AssistantForm(tool_call_parser, thinks)


class AssistantParser:
    """Parses one message: feed() each piece of its text, and finish() with the last one. A state takes a character."""

    def __init__(self, form: AssistantForm) -> None:
        self._form = form
        self._is_hermes, self._is_forced = form.calls == "hermes", form.calls == "json"
        self._begin = CALL if self._is_hermes else PYTHON_TAG
        self.is_text = form.calls == "none" and not (form.thinks or form.is_thinking)  # all of it
        self._first_state = {"none": self._say, "hermes": self._text}.get(form.calls, self._wait)
        self._state: Callable[[str], None]
        self._state = self._reason if form.is_thinking else self._open if form.thinks else self._first_state
        self._held = ""  # perhaps the beginning of a tag
        self._space: list[str] = []  # which is no text if a call follows
        self._raw: list[str] = []  # of a call, from its tag on: text, if the call is malformed
        self._is_behind_tag = False  # where space is no text
        self._is_given = False  # the call that is being read, in part
        self._object = JsonObject()
        self.num_calls = 0
        self._content: list[str] = []  # this and the next two: what is new
        self._reasoning: list[str] = []
        self._calls: dict[int, tuple[dict[str, str], dict[str, str], list[str]]] = {}  # head, function, arguments

    def feed(self, text: str) -> AssistantDelta:
        """What a piece of the text brings."""
        self._go_on(text)
        calls = [
            head | {"index": index, "function": function | {"arguments": "".join(arguments)}}
            for index, (head, function, arguments) in self._calls.items()
        ]
        delta = AssistantDelta("".join(self._content), "".join(self._reasoning), calls)
        self._content, self._reasoning, self._calls = [], [], {}
        return delta

    def finish(self, text: str = "") -> AssistantDelta:
        """What the last piece brings, and what was held back."""
        self._go_on(text)
        if self._state == self._open:
            self._enter(self._first_state, self._held)
        if self._state == self._reason:
            self._reasoning.append(self._held)
        elif self._state == self._close:  # only its end tag is missing
            self._accept()
        elif not self._is_forced and (self._is_hermes or not self.num_calls or self._state != self._wait):
            for each in (*self._raw, *self._held):
                self._say(each)
            self._content += [] if self._is_behind_tag else self._space
        return self.feed("")

    def _go_on(self, text: str) -> None:
        for character in [text] if self.is_text else text:
            self._state(character)

    def _enter(self, state: Callable[[str], None], text: str) -> None:
        self._held, self._state = "", state
        self._go_on(text)

    # --- reasoning ------------------------------------------------------------------------------------------------

    def _open(self, character: str) -> None:
        """Where a message begins, with <think> or without."""
        self._held += character
        begun = self._held.lstrip()
        if begun == THINK:
            self._enter(self._reason, "")
        elif not THINK.startswith(begun) or len(self._held) > MAX_SPACE:
            self._enter(self._first_state, self._held)

    def _reason(self, character: str) -> None:
        self._reasoning.append(self._hold(END_THINK, character))
        if self._held == END_THINK:
            self._is_behind_tag = True
            self._enter(self._first_state, "")

    def _hold(self, tag: str, character: str) -> str:
        """Hold back what may be the beginning of a tag. Returns what is none."""
        text = self._held + character
        self._held = text if tag.startswith(text) else character if character == tag[0] else ""
        return text[: len(text) - len(self._held)]

    # --- text and calls -------------------------------------------------------------------------------------------

    def _say(self, character: str) -> None:
        """It is text."""
        if character in SPACE and not self.is_text:
            self._space.append(character)
            return
        self._content += [character] if self._is_behind_tag else [*self._space, character]
        self._space, self._is_behind_tag = [], False

    def _text(self, character: str) -> None:
        """Text, in which a tag may come."""
        for each in self._hold(self._begin, character):
            self._say(each)
        if self._held == self._begin:
            self._raw = [self._begin]
            self._enter(self._wait, "")

    def _wait(self, character: str) -> None:
        """Where a call may begin."""
        if character in (SPACE if self._is_hermes else BETWEEN_CALLS):
            self._raw.append(character)
        elif character == "{":
            self._object = JsonObject()
            self._enter(self._read, character)
        else:
            self._refuse(character)

    def _read(self, character: str) -> None:
        """In the object that is a call, perhaps."""
        was_deep = self._object.depth > 1
        if not self._object.take(character):
            self._refuse(character)
            return
        self._raw.append(character)
        if self._is_forced and (was_deep or self._object.depth > 1):
            self._give(character)
        if self._object.depth == 0:
            name, _ = self._object.as_call()
            if not name or not (self._is_hermes or self._is_forced or name in self._form.names):
                self._refuse("")
            elif self._is_hermes:
                self._state = self._close
            else:
                self._accept()

    def _close(self, character: str) -> None:
        """Between a whole call and its end tag."""
        if character in SPACE and not self._held:
            self._raw.append(character)
        elif END_CALL.startswith(self._held + character):
            self._held += character
            if self._held == END_CALL:
                self._accept()
        else:
            self._refuse(character)

    def _refuse(self, character: str) -> None:
        """It was no call. What may have been an end tag may be the beginning of the next one."""
        for each in self._raw:
            self._say(each)
        self._raw = []
        self._enter(self._text, self._held + character)

    def _accept(self) -> None:
        """The call is whole."""
        if not self._is_given:
            self._give(self._object.as_call()[1])
        self._raw, self._is_given = [], False
        self._enter(self._text if self._is_hermes else self._wait, "")

    def _give(self, arguments: str) -> None:
        """Give out these arguments; with the first of a call, its id and its name."""
        if not self._is_given:
            head = {"id": f"call_{secrets.token_hex(12)}", "type": "function"}
            self._calls[self.num_calls] = head, {"name": self._object.as_call()[0]}, []
            self.num_calls += 1
            self._is_given = self._is_behind_tag = True
        self._space, self._raw = [], []
        self._calls.setdefault(self.num_calls - 1, ({}, {}, []))[2].append(arguments)


class JsonObject:
    """An object of JSON that comes by its characters, the first of which is {. depth: 0 when it is whole."""

    def __init__(self) -> None:
        self.depth = 0
        self._text: list[str] = []
        self._is_string = self._is_escaped = False

    def take(self, character: str) -> bool:
        """Whether JSON can go on with this character. Brackets of two kinds are not told apart."""
        if self._is_string:
            self._is_string = self._is_escaped or character != '"'
            self._is_escaped = character == "\\" and not self._is_escaped
            can_be = character >= " "
        else:
            self._is_string = character == '"'
            self.depth += (character in "{[") - (character in "}]")
            can_be = character in OUTSIDE_STRINGS
        self._text.append(character)
        return can_be

    def as_call(self) -> tuple[str, str]:
        """Name and arguments, which are {} if they are absent or null; two empty texts if it is no call.

        Where the arguments have begun it is a call, too.
        """
        with suppress(ValueError, RecursionError):
            found = json.loads("".join(self._text) + "}" * self.depth)
            name, given = found.get("name"), found.get("arguments", found.get("parameters"))
            arguments = json.dumps({} if given is None else given, ensure_ascii=False, allow_nan=False)
            arguments.encode()  # half of a character cannot be sent
            if isinstance(name, str) and isinstance(given, dict | None):
                return name, arguments
        return "", ""
