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
MARKS = re.compile(r"""(?s)(\\.)|(["'])""")
# a quotation mark ends a text where a value may end: before another value or argument, or a bracket
END = r"""(?=\s*(?:[])}:]|,\s*(?:["'[{(\d-]|[\w.-]+\s*=|(?i:true|false|null|none)\b)|\Z))"""
# texts; functions, and arguments, perhaps with a text that has no quotation marks; words of JSON;
# the end of a call; zeros before a number
PARTS = re.compile(
    rf"""(?s)(["'])((?:\\.|(?!\1{END}).)*+)\1?"""
    r"""|(?<![\w.-])([\w.-]++)(?:\s*\(|\s*=\s*)"""
    r"""(?:(?<!\()(?!(?i:true|false|null|none)\s*[,)])([^\W\d][^"'()\[\]{},=]*+)(?=[,)]))?"""
    r"""|\b(true|false|null)\b|\)|(?<![\w.])0+(?=\d)"""
)


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
    """A list of calls behind its first bracket. It is none where no tool of that name is called.

    A quotation mark within a text may have no backslash; behind one that ends a text, or before one
    that begins it, is what belongs to a list.
    """

    def __init__(self, names: Collection[str]) -> None:
        self.depth, self._head, self._quote = 1, "", ""
        self._last = "x"  # character that is no space
        self._begun = [f"{name}(" for name in names]

    def take(self, character: str) -> bool:
        if self._head not in self._begun:  # up to the first (
            self._head = (self._head + character).lstrip()
            self._begun = [each for each in self._begun if each.startswith(self._head)]
        if not self._quote and self._last in "=([{,:" and character in "\"'":
            self._quote, character = character, " "
        elif self._last == self._quote and character in ",)]}:":
            self._quote = ""
        if not self._quote:
            self.depth += (character in "([{") - (character in ")]}")
        if self._last == "\\" or not character.isspace():
            self._last = "x" if self._last == "\\" else character
        return bool(self._begun) and self.depth <= MAX_DEPTH


def calls_in(text: str, names: Collection[str]) -> list[tuple[str, str]]:
    """Names and arguments, as JSON; [] if it is no list of calls of these names.

    Texts may lack their quotation marks, as in templates that write a value as it is.
    """
    # of an escape that Python does not know
    with suppress(*NO_CALLS), warnings.catch_warnings(action="ignore"):
        return [*read_calls(ast.literal_eval(PARTS.sub(as_literal, text)), names)]
    return []


def as_literal(part: re.Match[str]) -> str:
    """A part of a list of calls as one of a list of pairs: f(a=1) becomes (b"f", {"a": 1})."""
    quote, text, name, bare, word = part.groups()
    if quote:  # on one line
        text = MARKS.sub(lambda found: found[1] or rf"\{found[2]}", text)
        return quote + text.translate({10: r"\n", 13: r"\r"}) + quote
    if name and part[0][-1] == "(":
        return f"({name.encode()!r}, {{"
    if name:
        return f"{name!r}: {repr(bare) if bare else ''}"
    return "})" if part[0] == ")" else WORDS.get(word, "")


def read_calls(found: Any, names: Collection[str]) -> Iterator[tuple[str, str]]:
    """The same of pairs. Raises one of NO_CALLS for what is no call of that kind."""
    for function, values in found:
        if (name := function.decode()) not in names or not isinstance(values, dict):
            raise ValueError("no call of a tool by the names of its arguments")
        yield sendable(name, values)
