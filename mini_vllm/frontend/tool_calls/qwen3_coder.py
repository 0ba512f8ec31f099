"""Calls as XML between the tags of Hermes: Qwen3-Coder, Qwen3.5.

    <tool_call>
    <function=f>
    <parameter=a>
    1
    </parameter>
    </function>
    </tool_call>

Source: qwen3_engine_tool_parser.py in vllm/tool_parsers.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from mini_vllm.frontend.tool_calls.hermes import SPACE, HermesParser, JsonObject, hold, sendable

FUNCTION, END_FUNCTION = "<function=", "</function>"
PARAMETER, END_PARAMETER = "<parameter=", "</parameter>"


class Qwen3CoderParser(HermesParser):
    """Parses calls of functions.

    parameters: the JSON schema of each function, which says whether a value is text.
    """

    def __init__(self, form: Any) -> None:
        super().__init__()
        self._parameters = form.parameters

    def _wait(self, character: str) -> None:
        if self._take(character, SPACE, FUNCTION):
            self._raw.append(FUNCTION)
            self._object = XmlFunction(self._parameters)
            self._enter(self._read)


class XmlFunction(JsonObject):
    """A function in XML, behind its first tag: its name, >, the parameters and the last tag."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        super().__init__()
        self._parameters = parameters
        self._held = ""

    def take(self, character: str) -> bool:
        self._text.append(character)
        _, self._held = hold(END_FUNCTION, self._held + character)
        self.depth = int(self._held != END_FUNCTION)
        return True

    def as_call(self) -> tuple[str, str]:
        name, _, body = "".join(self._text).removesuffix(END_FUNCTION).partition(">")
        *parts, rest = body.split(END_PARAMETER)
        schema = (self._parameters.get(name) or {}).get("properties") or {}
        arguments = {}
        for part in parts:
            tag, end, value = part.lstrip().partition(">")
            if not end or not tag.startswith(PARAMETER):
                return "", ""
            key, value = tag.removeprefix(PARAMETER), value.removeprefix("\n").removesuffix("\n")
            arguments[key] = value_of(value, schema.get(key))
        with suppress(ValueError, RecursionError):
            if name and not rest.strip() and "<" not in name:
                return sendable(name, arguments)
        return "", ""


def value_of(text: str, schema: Any) -> Any:
    """A value as its schema has it: text, or what the text is as JSON, if it is JSON."""
    kinds = kinds_of(schema)
    if "string" in kinds and not (text == "null" and "null" in kinds):
        return text
    with suppress(ValueError, RecursionError):
        return json.loads(text.lower() if text in ("True", "False") else text)
    return text


def kinds_of(schema: Any) -> set[str]:
    """The types that a schema names, also those of its alternatives."""
    if not isinstance(schema, Mapping):
        return set()
    given = schema.get("type") or ()
    kinds = {given} if isinstance(given, str) else {*given}
    return kinds.union(*map(kinds_of, schema.get("anyOf") or schema.get("oneOf") or ()))
