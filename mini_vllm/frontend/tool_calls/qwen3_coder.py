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
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from mini_vllm.frontend.tool_calls.hermes import SPACE, HermesParser, JsonObject, hold, sendable
from mini_vllm.structured.subschemas import JSON_TYPES

FUNCTION, END_FUNCTION = "<function=", "</function>"
PARAMETER = re.compile(r"(?s)<parameter=([^<>]*)>\n?(.*?)\n?(?:</parameter>|(?=<parameter=))")


class Qwen3CoderParser(HermesParser):
    """Parses calls of functions. A pair of tags may hold several, and each tag may be missing.

    parameters: the JSON schema of each function, which says whether a value is text.
    """

    def __init__(self, form: Any) -> None:
        super().__init__()
        self._parameters = form.parameters

    def _text(self, character: str) -> None:
        text = self._held + character
        if len(text) < 2 or not FUNCTION.startswith(text):
            super()._text(character)
        elif text == FUNCTION:
            self._enter(self._wait, text)
        else:
            self._held = text

    def _refuse(self, character: str) -> None:
        if self._state != self._close or not self._is_call():
            super()._refuse(character)
            return
        text = self._held + character  # only the last tag is missing
        self._accept()
        self._go_on(text)

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
        schema = (self._parameters.get(name) or {}).get("properties") or {}
        found = PARAMETER.findall(body)
        arguments = {key: value_of(value, schema.get(key)) for key, value in found}
        with suppress(ValueError, RecursionError):
            if name and "<" not in name and not PARAMETER.sub("", body).strip():
                return sendable(name, arguments)
        return "", ""


def value_of(text: str, schema: Any) -> Any:
    """A value as its schema has it: what the text is as JSON, or the text where it is none, or
    where the schema allows texts and no value of that kind.
    """
    kinds = kinds_of(schema)
    with suppress(ValueError, RecursionError):
        value = json.loads(text.lower() if text in ("True", "False") else text)
        json.dumps(value, allow_nan=False)  # NaN and 1e999 are text
        if "string" not in kinds or JSON_TYPES[type(value)] in kinds - {"string"}:
            return value
    return text


def kinds_of(schema: Any) -> set[str]:
    """The types that a schema names, also those of its alternatives."""
    if not isinstance(schema, Mapping):
        return set()
    given = schema.get("type") or ()
    kinds = {given} if isinstance(given, str) else {*given}
    if "number" in kinds:
        kinds.add("integer")
    return kinds.union(*map(kinds_of, schema.get("anyOf") or schema.get("oneOf") or ()))
