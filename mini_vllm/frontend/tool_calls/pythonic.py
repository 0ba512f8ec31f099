"""Calls as Python writes them, in a list.

    [f(a=1, b="x"), g()]

Llama 3.2 and 4, ToolACE. Source: pythonic_tool_parser.py in vllm/tool_parsers.
"""

import ast
import re
import warnings
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any

from mini_vllm.frontend.tool_calls.hermes import HermesParser, JsonObject, sendable

MAX_DEPTH = 64  # of brackets
NO_CALLS = (SyntaxError, AttributeError, TypeError, ValueError, RecursionError, MemoryError)
WORDS = {"true": "True", "false": "False", "null": "None"}
# texts; and outside of them names of arguments, words of JSON, zeros before a number
PARTS = re.compile(
    r"""(?s)("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|\b(\w+)(?=\s*=)|\b(true|false|null)\b|(?<![\w.])0+(?=\d)"""
)
BARE_VALUE = re.compile(r"\b(\w+=)([^\W\d][^\"'()\[\]{},=]*)(?=[,)])")


class PythonicParser(HermesParser):
    """Parses lists of calls whose arguments are literals. names: of the tools."""

    def __init__(self, form: Any) -> None:
        super().__init__()
        self._begin, self._names = "[", form.names
        self._found: list[tuple[str, str]] = []

    def _wait(self, character: str) -> None:
        self._object = PythonList(self._names)
        self._enter(self._read, character)

    def _is_call(self) -> bool:
        self._found = calls_in("".join(self._raw), self._names)
        return bool(self._found)

    def _read(self, character: str) -> None:
        super()._read(character)
        if self._state == self._close:
            for name, arguments in self._found:
                self._give(name, arguments)
            self._enter(self._text)


class PythonList(JsonObject):
    """A list of calls behind its first bracket. It is none where no tool of that name is called."""

    def __init__(self, names: Collection[str]) -> None:
        super().__init__()
        self.depth, self._head, self._quote = 1, "", ""
        self._begun = [f"{name}(" for name in names]

    def take(self, character: str) -> bool:
        if self._head not in self._begun:  # up to the first (
            self._head = (self._head + character).lstrip()
            self._begun = [each for each in self._begun if each.startswith(self._head)]
        elif not self._quote and character in "\"'":
            self._quote = character
        elif self._quote == character and not self._is_escaped:
            self._quote = ""
        self._is_escaped = bool(self._quote) and character == "\\" and not self._is_escaped
        if not self._quote:
            self.depth += (character in "([{") - (character in ")]}")
        return bool(self._begun) and self.depth <= MAX_DEPTH


def calls_in(text: str, names: Collection[str]) -> list[tuple[str, str]]:
    """Names and arguments, as JSON; [] if it is no list of calls of these names.

    Texts may lack their quotation marks, as in templates that write a value as it is.
    """
    text = PARTS.sub(as_python, text)
    for each in (text, BARE_VALUE.sub(quoted, text)):
        with suppress(*NO_CALLS):
            with warnings.catch_warnings(action="ignore"):  # of an escape that Python does not know
                found = ast.parse(each, mode="eval").body
            return list(read_calls(found, names))
    return []


def as_python(part: re.Match[str]) -> str:
    """A text on one line, a name that is no keyword (from_), a word of Python, or no zeros."""
    text, name, word = part.groups()
    if text:
        return text.translate({10: r"\n", 13: r"\r"})
    return f"{name}_" if name else WORDS.get(word, "")


def quoted(value: re.Match[str]) -> str:
    """An argument, its value in quotation marks unless it is a word."""
    return value[0] if value[2] in WORDS.values() else f"{value[1]}{value[2]!r}"


def read_calls(found: Any, names: Collection[str]) -> Iterator[tuple[str, str]]:
    """The same of an expression. Raises one of NO_CALLS for what is no call of that kind."""
    for call in found.elts:
        name = ast.unparse(call.func)
        if call.args or name not in names:
            raise ValueError("no call of a tool by the names of its arguments")
        values = {arg.arg[:-1]: ast.literal_eval(arg.value) for arg in call.keywords}
        yield sendable(name, values)
