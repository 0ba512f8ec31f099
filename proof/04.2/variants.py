# === generator
"""One generator takes characters, and the place where it stands is the state. An empty one ends the message."""

import json
from collections.abc import Generator
from typing import Any
from uuid import uuid4

from mini_vllm.frontend.assistant_parser import CALL, END_CALL, SPACE, AssistantDelta

IN_JSON = frozenset(' \t\r\n{}[]:,"+-.0123456789truefalsnE')


class HermesParser:
    def __init__(self) -> None:
        self.content: list[str] = []
        self.calls: list[Any] = []
        self.space: list[str] = []
        self.num_calls, self.is_behind_call = 0, False
        self.reader = self.read_message()
        next(self.reader)

    def feed(self, text: str) -> AssistantDelta:
        self.content, self.calls = [], []
        for character in text:
            self.reader.send(character)
        return AssistantDelta("".join(self.content), tool_calls=self.calls)

    def finish(self, text: str = "") -> AssistantDelta:
        first = self.feed(text)
        self.reader.send("")
        self.content += [] if self.is_behind_call else self.space
        return first._replace(content="".join(self.content))

    def say(self, text: str) -> None:
        for character in text:
            if character in SPACE:
                self.space.append(character)
            else:
                self.content += [character] if self.is_behind_call else [*self.space, character]
                self.space, self.is_behind_call = [], False

    def read_message(self) -> Generator[None, str, None]:
        character = yield
        while True:
            seen, character = yield from self.read_word(CALL, character)
            if seen == CALL:
                character = yield from self.read_call()
            elif seen:
                self.say(seen)
            else:
                self.say(character)
                character = yield

    def read_word(self, word: str, character: str) -> Generator[None, str, tuple[str, str]]:
        """As much of a word as comes, and the character that is not its next one."""
        for length in range(len(word)):
            if character != word[length]:
                return word[:length], character
            if length < len(word) - 1:
                character = yield
        return word, character

    def read_call(self) -> Generator[None, str, str]:
        """Behind the tag; the character that is to be looked at next."""
        raw = [CALL]
        character = yield from self.read_space(raw, (yield))
        start = len(raw)
        if character := (yield from self.read_object(raw, character)) or "":
            self.say("".join(raw))
            return "" if character == "end" else character
        if (function := function_of("".join(raw[start:]))) is None:
            self.say("".join(raw))
            return (yield)
        character = yield from self.read_space(raw, (yield))
        seen, character = yield from self.read_word(END_CALL, character)
        if seen != END_CALL and character:
            self.say("".join(raw))
            if seen == "<":  # perhaps of the next opening tag
                seen, character = yield from self.read_word(CALL[1:], character)
                if seen == CALL[1:]:
                    return (yield from self.read_call())
                seen = "<" + seen
            self.say(seen)
            return character
        self.calls.append({"index": self.num_calls, "id": uuid4().hex, "type": "function", "function": function})
        self.num_calls, self.space, self.is_behind_call = self.num_calls + 1, [], True
        return (yield) if character else ""

    def read_space(self, raw: list[str], character: str) -> Generator[None, str, str]:
        while character in SPACE:
            raw.append(character)
            character = yield
        return character

    def read_object(self, raw: list[str], character: str) -> Generator[None, str, str | None]:
        """Nothing when it is whole; the character that is none of it, or "end"."""
        depth, is_string, is_escaped = 0, False, False
        while True:
            if is_string:
                fits = character >= " "
                is_string, is_escaped = is_escaped or character != '"', character == "\\" and not is_escaped
            else:
                fits = character in IN_JSON if depth else character == "{"
                is_string = character == '"'
                depth += (character in ("{", "[")) - (character in ("}", "]"))
            if not fits:
                return character or "end"
            raw.append(character)
            if depth == 0:
                return None
            character = yield


def function_of(text: str) -> dict[str, str] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    name, arguments = found.get("name"), found.get("arguments")
    if not (name and isinstance(name, str) and isinstance(arguments, dict | None)):
        return None
    return {"name": name, "arguments": json.dumps(arguments or {}, separators=(",", ":"))}


# === text_in_pieces
"""Text is searched for tags piece by piece, with find() and strip(); only calls are read by their characters."""

import itertools
import json
from typing import Any

from mini_vllm.frontend.assistant_parser import CALL, END_CALL, AssistantDelta

WHITE = " \t\r\n"
OUTSIDE_STRINGS = frozenset(WHITE + '{}[]:,"+-.0123456789eEtrufalsn')
numbers = itertools.count()


class HermesParser:
    def __init__(self) -> None:
        self.content: list[str] = []
        self.calls: list[Any] = []
        self.num_calls, self.is_behind_call = 0, False
        self.spaces: list[str] = []
        self.part = ""  # of an opening tag
        self.leave()

    def leave(self) -> None:
        """No call is being read."""
        self.raw: list[str] = []
        self.body: list[str] = []
        self.depth, self.is_string, self.is_escaped = 0, False, False
        self.function: dict[str, str] | None = None
        self.closing = ""

    def feed(self, text: str) -> AssistantDelta:
        self.content, self.calls, at = [], [], 0
        while at < len(text):
            at = (self.in_call if self.raw else self.in_tag if self.part else self.in_text)(text, at)
        return AssistantDelta("".join(self.content), tool_calls=self.calls)

    def finish(self, text: str = "") -> AssistantDelta:
        self.feed(text)
        if self.function is not None:
            self.accept()
        self.say("".join(self.raw) + self.part)
        self.content += [] if self.is_behind_call else self.spaces
        return AssistantDelta("".join(self.content), tool_calls=self.calls)

    def say(self, text: str) -> None:
        body = text.strip(WHITE)
        if body and not self.is_behind_call:
            self.content += [*self.spaces, text[: text.index(body)]]
        if body:
            self.content.append(body)
            self.spaces, self.is_behind_call = [text[len(text.rstrip(WHITE)) :]], False
        else:
            self.spaces.append(text)

    def in_text(self, text: str, at: int) -> int:
        found = text.find(CALL, at)
        if found >= 0:
            self.say(text[at:found])
            self.raw = [CALL]
            return found + len(CALL)
        length = max(n for n in range(len(CALL)) if n <= len(text) - at and text.endswith(CALL[:n]))
        self.say(text[at : len(text) - length])
        self.part = CALL[:length]
        return len(text)

    def in_tag(self, text: str, at: int) -> int:
        if CALL.startswith(self.part + text[at]):
            self.part += text[at]
            if self.part == CALL:
                self.part, self.raw = "", [CALL]
            return at + 1
        self.say(self.part)
        self.part = ""
        return at

    def in_call(self, text: str, at: int) -> int:
        character = text[at]
        if character in WHITE and (not self.closing if self.function else not self.body):
            self.raw.append(character)
            return at + 1
        if self.function is not None:
            fits = END_CALL.startswith(self.closing + character)
            self.closing += character if fits else ""
            if self.closing == END_CALL:
                self.accept()
        else:
            fits = self.goes_on(character)
            if fits:
                self.raw.append(character)
                self.body.append(character)
            if fits and self.depth == 0 and not self.find_function():
                self.refuse()
        if not fits:
            self.refuse()
        return at + fits

    def goes_on(self, character: str) -> bool:
        if self.is_string:
            self.is_string = self.is_escaped or character != '"'
            self.is_escaped = character == "\\" and not self.is_escaped
            return character >= " "
        self.is_string = character == '"'
        self.depth += (character in "{[") - (character in "]}")
        return character in OUTSIDE_STRINGS if self.body else character == "{"

    def find_function(self) -> bool:
        try:
            found = json.loads("".join(self.body))
        except ValueError:
            return False
        name, arguments = found.get("name", ""), found.get("arguments") or {}
        if name != "" and isinstance(name, str) and type(found.get("arguments", {})) in (dict, type(None)):
            self.function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
        return self.function is not None

    def accept(self) -> None:
        id_ = f"chatcmpl-tool-{next(numbers)}"
        self.calls.append({"index": self.num_calls, "id": id_, "type": "function", "function": self.function})
        self.num_calls, self.spaces, self.is_behind_call = self.num_calls + 1, [], True
        self.leave()

    def refuse(self) -> None:
        self.part = "<" if self.closing == "<" else ""
        self.say("".join(self.raw) + self.closing.removeprefix(self.part))
        self.leave()
