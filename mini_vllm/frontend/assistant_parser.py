"""What an assistant has written becomes reasoning, content and tool calls, as it comes.

The text comes in pieces of any length, and what comes out does not depend on where it was cut. A
character is looked at once, and once more if it looked like a part of a tag or a call and is text.
The forms of calls are those of tool_calls.

A call is given out when it is whole: a malformed one is text, and what was given out as a call
cannot become text again. Where a grammar has forced the form, a list of calls in JSON, nothing is
malformed, and arguments are given out as they come. Source: the parsers of vllm/tool_parsers and
vllm/reasoning.
"""

from collections.abc import Callable

from mini_vllm.frontend.tool_calls import PARSERS, TAGS
from mini_vllm.frontend.tool_calls.form import END_THINK, THINK, AssistantForm, find_form
from mini_vllm.frontend.tool_calls.hermes import (
    CALL,
    END_CALL,
    SPACE,
    AssistantDelta,
    HermesParser,
    JsonObject,
    StrayTag,
    hold,
)
from mini_vllm.frontend.tool_calls.json_calls import JsonCallParser

__all__ = [  # what learners' files import from here, too
    "CALL",
    "END_CALL",
    "SPACE",
    "AssistantDelta",
    "AssistantForm",
    "AssistantParser",
    "HermesParser",
    "JsonObject",
    "find_form",
    "hold",
]
MAX_SPACE = 32  # characters of a text that may stand before <think>, and with it


class AssistantParser:
    """Parses one message: feed() each piece of its text, and finish() with the last one.

    It takes out the reasoning, with which a message begins; the parser of the form gets what is
    behind it.
    """

    def __init__(self, form: AssistantForm) -> None:
        # takes a character of the reasoning; None: it is over
        self._state: Callable[[str], None] | None
        self._state = self._open if form.thinks or form.is_thinking else None
        self._is_thinking = form.is_thinking
        self._held = ""  # perhaps the beginning of a tag
        self._is_behind_tag = False  # where space is no text
        self._reasoning: list[str] = []  # what is new
        self._parser: HermesParser | PlainText
        if form.calls in PARSERS:
            self._parser = PARSERS[form.calls](form)
            self._parser.keeps_space = True
        else:
            self._parser = PlainText()
        # a call ends the reasoning, too
        tag = TAGS.get(form.calls)
        self._ends = [END_THINK] if tag is None else [END_THINK, tag]
        self._stray = StrayTag("")  # the end of a reasoning that a call has ended
        self._is_parallel = form.is_parallel
        # all of it
        self.is_text = isinstance(self._parser, PlainText) and self._state is None
        self.num_calls = 0

    @property
    def is_whole(self) -> bool:
        """Whether no call is given out in part alone."""
        return not (isinstance(self._parser, JsonCallParser) and self._parser.is_given)

    def feed(self, text: str) -> AssistantDelta:
        """What a piece of the text brings."""
        return self._with_reasoning(self._parser.feed(self._behind_reasoning(text)))

    def finish(self, text: str = "") -> AssistantDelta:
        """What the last piece brings, and what was held back."""
        text = self._behind_reasoning(text)
        if self._state is not None:
            text, self._held = self._held, ""
            if self._is_thinking:
                self._reasoning.append(text)
                text = ""
        delta = self._with_reasoning(self._parser.finish(text))
        return delta._replace(content=delta.content + self._stray.finish())

    def _with_reasoning(self, delta: AssistantDelta) -> AssistantDelta:
        parts = [each for each in delta.tool_calls if self._is_parallel or each["index"] == 0]
        self.num_calls += sum("id" in part for part in parts)
        new, self._reasoning = "".join(self._reasoning), []
        content = self._stray.feed(delta.content)
        return delta._replace(content=content, reasoning=new, tool_calls=parts)

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
        """Where a message begins, with <think> or without; also if the prompt ends with it."""
        self._held += character
        begun = self._held.lstrip()
        if begun == THINK:
            self._held, self._state, self._is_thinking = "", self._reason, True
        elif not THINK.startswith(begun) or len(self._held) > MAX_SPACE:
            self._state = self._reason if self._is_thinking else None
            if self._is_thinking:
                text, self._held = self._held, ""
                for each in text:
                    self._reason(each)

    def _reason(self, character: str) -> None:
        text = self._held + character
        text, self._held = min(hold(tag, text) for tag in self._ends)
        self._reasoning.append(text)
        if self._held == END_THINK:
            self._held, self._state, self._is_behind_tag = "", None, True
        elif self._held in self._ends:  # the parser of calls gets the tag
            self._state, self._stray = None, StrayTag(END_THINK)


class PlainText:
    """Where no call is looked for."""

    def feed(self, text: str) -> AssistantDelta:
        return AssistantDelta(text)

    finish = feed
