"""Calls between the tags of Hermes, Qwen2.5 and Qwen3, and what all parsers of calls have.

    <tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>

Source: hermes_tool_parser.py in vllm/tool_parsers.
"""

import json
import re
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

CALL = "<tool_call>"  # the first character of a tag stands nowhere else in it
END_CALL = "</tool_call>"
SPACE = frozenset(" \t\r\n")
MAX_HEAD = 256  # characters between a tag and the arguments behind it


class AssistantDelta(NamedTuple):
    """What is new of a message: text, reasoning, and at most one part of each call. Or all of it.

    A call is in OpenAI's shape. Its first part has id and name; the arguments of all parts, joined,
    are JSON.
    """

    content: str
    reasoning: str = ""
    tool_calls: Sequence[Mapping[str, Any]] = ()

    def as_json(self, *, is_text: bool) -> dict[str, Any]:
        """As a part of a stream in OpenAI's shape. is_text: the content is there even if it is
        empty.
        """
        content = {"content": self.content} if self.content or is_text else {}
        reasoning = {"reasoning_content": self.reasoning} if self.reasoning else {}
        return content | reasoning | ({"tool_calls": self.tool_calls} if self.tool_calls else {})

    def as_message(self) -> dict[str, Any]:
        """As a whole message, which a conversation can go on with."""
        calls = [
            {name: call[name] for name in ("id", "type", "function")} for call in self.tool_calls
        ]
        found = self._replace(tool_calls=calls).as_json(is_text=not (self.reasoning or calls))
        return {"role": "assistant", "content": None} | found


def hold(tag: str, text: str) -> tuple[str, str]:
    """What is no beginning of a tag, and what may be one at the end of the text, whose last
    character is new.
    """
    held = text if tag.startswith(text) else text[-1] if text[-1] == tag[0] else ""
    return text[: len(text) - len(held)], held


class StrayTag:
    """Takes a tag that is no content out of it, once, and the space behind it: feed() each piece.

    The empty tag is never there.
    """

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self._held = ""  # the tag, or perhaps its beginning

    def feed(self, text: str) -> str:
        """What of a piece is content."""
        found = []
        for character in text:
            if self._held != self._tag:
                character, self._held = hold(self._tag, self._held + character)
            elif self._tag and character not in SPACE:
                self._held = self._tag = ""
            elif self._tag:
                continue
            found.append(character)
        return "".join(found)

    def finish(self) -> str:
        """What was held back."""
        return self._held if self._held != self._tag else ""


class HermesParser:
    """Parses text with calls among it: feed() each piece, and finish() with the last one.

    A call is <tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>. It is given out when it
    is whole, in OpenAI's shape; one that is malformed is text. Source: hermes_tool_parser.py in
    vllm/tool_parsers.
    """

    keeps_space = False  # True: space beside a call is kept where text stands on both sides

    def __init__(self) -> None:
        self._state: Callable[[str], None] = self._text  # takes a character
        self._begin, self._end, self._before_end = CALL, END_CALL, SPACE
        self._held = ""  # perhaps the beginning of a tag
        self._space: list[str] = []  # which is no text if a call follows
        self._raw: list[str] = []  # of a call, from its tag on: text, if the call is malformed
        self._is_behind_call = False  # where space is no text
        self._has_text = False
        self._object = JsonObject()
        self._num_calls = 0
        self._content: list[str] = []  # this and the next: what is new
        self._calls: list[dict[str, Any]] = []

    def feed(self, text: str) -> AssistantDelta:
        """What a piece of the text brings."""
        self._go_on(text)
        delta = AssistantDelta("".join(self._content), tool_calls=self._calls)
        self._content, self._calls = [], []
        return delta

    def finish(self, text: str = "") -> AssistantDelta:
        """What the last piece brings, and what was held back."""
        self._go_on(text)
        if self._state == self._close:  # only its end tag is missing
            self._accept()
        for each in (*self._raw, *self._held):
            self._say(each)
        self._content += [] if self._is_behind_call else self._space
        return self.feed("")

    def _go_on(self, text: str) -> None:
        for character in text:
            self._state(character)

    def _enter(self, state: Callable[[str], None], text: str = "") -> None:
        self._held, self._state = "", state
        self._go_on(text)

    def _say(self, character: str) -> None:
        """It is text."""
        if character in SPACE:
            self._space.append(character)
            return
        is_kept = not self._is_behind_call or (self.keeps_space and self._has_text)
        self._content += [*self._space, character] if is_kept else [character]
        self._space, self._is_behind_call, self._has_text = [], False, True

    def _text(self, character: str) -> None:
        """Text, in which a tag may come."""
        text, self._held = hold(self._begin, self._held + character)
        for each in text:
            self._say(each)
        if self._held == self._begin:
            self._raw = [self._begin]
            self._enter(self._wait)

    def _wait(self, character: str) -> None:
        """Where a call may begin."""
        if character in SPACE:
            self._raw.append(character)
        elif character == "{":
            self._object = JsonObject()
            self._enter(self._read, character)
        else:
            self._refuse(character)

    def _take(self, character: str, space: Collection[str], *tags: str) -> str:
        """The tag that is whole with this character, or "". Space may stand before a tag."""
        held = self._held + character
        if character in space and not self._held:
            self._raw.append(character)
        elif any(tag.startswith(held) for tag in tags):
            self._held = held
            return held if held in tags else ""
        else:
            self._refuse(character)
        return ""

    def _read(self, character: str) -> None:
        """In the object that is a call, perhaps."""
        if not self._object.take(character):
            self._refuse(character)
            return
        self._raw.append(character)
        if self._object.depth == 0:
            self._state = self._close
            if not self._is_call():
                self._refuse("")

    def _is_call(self) -> bool:
        """Whether the object, which is whole, is one."""
        return self._object.as_call()[0] != ""

    def _close(self, character: str) -> None:
        """Between a whole call and its end tag."""
        if self._take(character, self._before_end, self._end):
            self._accept()

    def _refuse(self, character: str) -> None:
        """It was no call. What may have been an end tag may be the beginning of the next one."""
        for each in self._raw:
            self._say(each)
        self._raw = []
        self._enter(self._text, self._held + character)

    def _accept(self) -> None:
        """The call is whole."""
        self._give(*self._object.as_call())
        self._enter(self._text)

    def _give(self, name: str, arguments: str) -> None:
        """Give out a call, or its first part."""
        head = {"index": self._num_calls, "id": f"call_{secrets.token_hex(12)}", "type": "function"}
        self._calls.append(head | {"function": {"name": name, "arguments": arguments}})
        self._num_calls += 1
        if not (self.keeps_space and self._has_text):
            self._space = []
        self._raw, self._is_behind_call = [], True


def sendable(name: str, arguments: Any) -> tuple[str, str]:
    """A call with its arguments as JSON. Raises ValueError for half of a character, and for a
    number that JSON has not.
    """
    text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
    (name + text).encode()
    return name, text


class JsonObject:
    """An object of JSON that comes by its characters, the first of which is {. depth: 0 when it is
    whole.
    """

    OUTSIDE_STRINGS = SPACE | frozenset('{}[]:,"+-.0123456789eEtrufalsn')

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
            can_be = character in self.OUTSIDE_STRINGS
        self._text.append(character)
        return can_be

    def written(self) -> str:
        """The object so far, with what it lacks of its end."""
        return "".join(self._text) + "}" * self.depth

    def as_call(self) -> tuple[str, str]:
        """Name and arguments, which are {} if they are absent or null; two empty texts if it is no
        call.

        Where the arguments have begun it is a call, too.
        """
        with suppress(ValueError, RecursionError):
            found = json.loads(self.written())
            name, given = found.get("name"), found.get("arguments", found.get("parameters"))
            if isinstance(name, str) and isinstance(given, dict | None):
                return sendable(name, given or {})
        return "", ""


class NamedArguments(JsonObject):
    """The arguments of a call, whose name stands before them."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def written(self) -> str:
        return f'{{"name": {json.dumps(self._name)}, "arguments": {super().written()}}}'


class NamedCallParser(HermesParser):
    """Parses calls whose name stands before an object that has their arguments alone."""

    head = re.compile("")  # what stands before the arguments of a call; its one group is the name
    ends_head = "{"  # characters that a head does not have

    def _read_head(self, character: str) -> None:
        """In the name of a call, and what stands between it and the arguments.

        Where the tag comes again it was no call, and the next one may begin.
        """
        head = self._held
        if character == "{" and (found := self.head.fullmatch(head)):
            self._raw += head
            self._object = NamedArguments(found[found.lastindex or 0])
            self._enter(self._read, character)
        elif character in self.ends_head or len(head) == MAX_HEAD:
            self._refuse(character)
        else:
            self._held += character
            if self._held.endswith(self._begin):
                self._refuse("")
