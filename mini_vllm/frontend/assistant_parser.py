"""What an assistant has written becomes reasoning, content and tool calls, as it comes.

The text comes in pieces of any length, and what comes out does not depend on where it was cut. A
character is looked at once, and once more if it looked like a part of a tag or a call and is text.
Two forms of calls are known:

    hermes       <tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>, among text (Hermes,
                 Qwen)
    llama3_json  {"name": "f", "parameters": {"a": 1}} where the text begins, or behind
                 <|python_tag|>; several by ";"

A call is given out when it is whole: a malformed one is text, and what was given out as a call
cannot become text again. Where a grammar has forced the form, a list of calls in JSON, nothing is
malformed, and arguments are given out as they come. Source: the parsers of the same names in
vllm/tool_parsers and vllm/reasoning.
"""

import json
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

THINK, END_THINK = "<think>", "</think>"  # the first character of a tag stands nowhere else in it
CALL = "<tool_call>"
END_CALL = "</tool_call>"
PYTHON_TAG = "<|python_tag|>"
SPACE = frozenset(" \t\r\n")
BETWEEN_CALLS = SPACE | frozenset("[],;")  # in JSON
MAX_SPACE = 32  # characters of a text that may stand before <think>, and with it


class AssistantForm(NamedTuple):
    """How an assistant writes. calls: "none", "hermes", "llama3_json", or "json", which a grammar
    has forced.
    """

    calls: str = "none"
    thinks: bool = False
    is_thinking: bool = False  # the prompt has opened the reasoning
    names: Collection[str] = ()  # of the tools: other JSON is no call where no tag says so
    is_parallel: bool = True  # False: what comes behind a call is no call


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


def find_form(
    tokenizer: Any | None, tool_call_parser: str = "auto", reasoning_parser: str = "auto"
) -> AssistantForm:
    """How a model writes: as the options say, or as its chat template or its vocabulary shows."""
    shown = (
        ""
        if tokenizer is None
        else f"{tokenizer.chat_template} {' '.join(tokenizer.get_added_vocab())}"
    )
    if tool_call_parser == "auto":
        is_llama = PYTHON_TAG in shown or ('"parameters"' in shown and "ipython" in shown)
        tool_call_parser = "hermes" if CALL in shown else "llama3_json" if is_llama else "none"
    thinks = reasoning_parser == "think" or (reasoning_parser == "auto" and THINK in shown)
    return AssistantForm(tool_call_parser, thinks)


class AssistantParser:
    """Parses one message: feed() each piece of its text, and finish() with the last one.

    It takes out the reasoning, with which a message begins; the parser of the form gets what is
    behind it.
    """

    def __init__(self, form: AssistantForm) -> None:
        # takes a character of the reasoning; None: it is over
        self._state: Callable[[str], None] | None
        self._state = self._reason if form.is_thinking else self._open if form.thinks else None
        self._held = ""  # perhaps the beginning of a tag
        self._is_behind_tag = False  # where space is no text
        self._reasoning: list[str] = []  # what is new
        self._parser: HermesParser | PlainText
        if form.calls == "none":
            self._parser = PlainText()
        else:
            self._parser = HermesParser() if form.calls == "hermes" else JsonCallParser(form)
            self._parser.is_parallel = form.is_parallel
        self.is_text = form.calls == "none" and self._state is None  # all of it
        self.num_calls = 0

    def feed(self, text: str) -> AssistantDelta:
        """What a piece of the text brings."""
        return self._with_reasoning(self._parser.feed(self._behind_reasoning(text)))

    def finish(self, text: str = "") -> AssistantDelta:
        """What the last piece brings, and what was held back."""
        text = self._behind_reasoning(text)
        if self._state == self._reason:
            self._reasoning.append(self._held)
        return self._with_reasoning(
            self._parser.finish(self._held if self._state == self._open else text)
        )

    def _with_reasoning(self, delta: AssistantDelta) -> AssistantDelta:
        self.num_calls += sum("id" in part for part in delta.tool_calls)
        new, self._reasoning = "".join(self._reasoning), []
        return delta._replace(reasoning=new)

    def _behind_reasoning(self, text: str) -> str:
        """What of a piece is no reasoning, and not held back."""
        rest = iter(text)
        while self._state is not None and (character := next(rest, "")):
            self._state(character)
        if self._state is not None:
            return ""
        found, self._held = self._held + "".join(rest), ""
        if self._is_behind_tag:
            found = found.lstrip("".join(SPACE))
            self._is_behind_tag = not found
        return found

    def _open(self, character: str) -> None:
        """Where a message begins, with <think> or without."""
        self._held += character
        begun = self._held.lstrip()
        if begun == THINK:
            self._held, self._state = "", self._reason
        elif not THINK.startswith(begun) or len(self._held) > MAX_SPACE:
            self._state = None

    def _reason(self, character: str) -> None:
        text, self._held = hold(END_THINK, self._held + character)
        self._reasoning.append(text)
        if self._held == END_THINK:
            self._held, self._state, self._is_behind_tag = "", None, True


def hold(tag: str, text: str) -> tuple[str, str]:
    """What is no beginning of a tag, and what may be one at the end of the text, whose last
    character is new.
    """
    held = text if tag.startswith(text) else text[-1] if text[-1] == tag[0] else ""
    return text[: len(text) - len(held)], held


class PlainText:
    """Where no call is looked for."""

    def feed(self, text: str) -> AssistantDelta:
        return AssistantDelta(text)

    finish = feed


class HermesParser:
    """Parses text with calls among it: feed() each piece, and finish() with the last one.

    A call is <tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>. It is given out when it
    is whole, in OpenAI's shape; one that is malformed is text. Source: hermes_tool_parser.py in
    vllm/tool_parsers.
    """

    is_parallel = True  # False where the request wants one call: what comes after it is text

    def __init__(self) -> None:
        self._state: Callable[[str], None] = self._text  # takes a character
        self._begin = CALL
        self._held = ""  # perhaps the beginning of a tag
        self._space: list[str] = []  # which is no text if a call follows
        self._raw: list[str] = []  # of a call, from its tag on: text, if the call is malformed
        self._is_behind_call = False  # where space is no text
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
        self._content += [character] if self._is_behind_call else [*self._space, character]
        self._space, self._is_behind_call = [], False

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
        return (self.is_parallel or not self._num_calls) and self._object.as_call()[0] != ""

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
        self._give(*self._object.as_call())
        self._enter(self._text)

    def _give(self, name: str, arguments: str) -> None:
        """Give out a call, or its first part."""
        head = {"index": self._num_calls, "id": f"call_{secrets.token_hex(12)}", "type": "function"}
        self._calls.append(head | {"function": {"name": name, "arguments": arguments}})
        self._num_calls += 1
        self._space, self._raw, self._is_behind_call = [], [], True


class JsonCallParser(HermesParser):
    """Parses calls that no end tag closes: llama3_json, and json, which a grammar has forced."""

    def __init__(self, form: AssistantForm) -> None:
        super().__init__()
        self._begin, self._state = PYTHON_TAG, self._wait
        self._names, self._is_forced = form.names, form.calls == "json"
        self._arguments: list[str] = []  # of the call that is being read: what is new
        self._is_given = False  # that call, in part

    def feed(self, text: str) -> AssistantDelta:
        self._go_on(text)
        self._give_arguments()
        return super().feed("")

    def finish(self, text: str = "") -> AssistantDelta:
        self._go_on(text)
        if self._is_forced or (self._num_calls and self._state == self._wait):
            return self.feed("")
        return super().finish()

    def _wait(self, character: str) -> None:
        if character in BETWEEN_CALLS:
            self._raw.append(character)
        else:
            super()._wait(character)

    def _read(self, character: str) -> None:
        was_deep = self._object.depth > 1
        super()._read(character)
        if self._state == self._close:
            if self._is_forced or self._object.as_call()[0] in self._names:
                self._accept()
            else:
                self._refuse("")
        elif self._state == self._read and self._is_forced and (was_deep or self._object.depth > 1):
            if not self._is_given:
                self._is_given = True
                self._give(self._object.as_call()[0], "")
            self._arguments.append(character)
            self._raw = []

    def _is_call(self) -> bool:
        # Python reads less than JSON has: 1e999, 5,000 digits
        return self._is_given or super()._is_call()

    def _accept(self) -> None:
        if self._is_given:
            self._give_arguments()
        else:
            self._give(*self._object.as_call())
        self._is_given, self._raw = False, []
        self._enter(self._wait)

    def _give_arguments(self) -> None:
        """Give out what is new of a call whose first part is out."""
        if self._arguments:
            if not self._calls:
                self._calls.append({"index": self._num_calls - 1, "function": {"arguments": ""}})
            self._calls[-1]["function"]["arguments"] += "".join(self._arguments)
            self._arguments = []


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

    def as_call(self) -> tuple[str, str]:
        """Name and arguments, which are {} if they are absent or null; two empty texts if it is no
        call.

        Where the arguments have begun it is a call, too.
        """
        with suppress(ValueError, RecursionError):
            found = json.loads("".join(self._text) + "}" * self.depth)
            name, given = found.get("name"), found.get("arguments", found.get("parameters"))
            arguments = json.dumps(
                {} if given is None else given, ensure_ascii=False, allow_nan=False
            )
            if isinstance(name, str) and isinstance(given, dict | None):
                (name + arguments).encode()  # half of a character cannot be sent
                return name, arguments
        return "", ""
