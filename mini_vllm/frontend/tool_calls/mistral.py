"""Calls behind Mistral's tag, which is a special token.

    [TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}, "id": "123456789"}]      v3 of the tokenizer
    [TOOL_CALLS]f[ARGS]{"a": 1}[TOOL_CALLS]g[CALL_ID]123456789[ARGS]{}          v11 and later

Source: mistral_tool_parser.py in vllm/tool_parsers; mistral-common's tokenizers.
"""

import re
from typing import Any

from mini_vllm.frontend.tool_calls.hermes import NamedArguments, NamedCallParser
from mini_vllm.frontend.tool_calls.json_calls import JsonCallParser

TOOL_CALLS = "[TOOL_CALLS]"


class MistralParser(NamedCallParser, JsonCallParser):
    """Parses both forms: a list of calls, or a name and its arguments behind each tag."""

    begins = ""
    head = re.compile(r"([\w.-]+)(?:\[CALL_ID\]\w*)?(?:\[ARGS\])?\s*")
    ends_head = "{<"

    def __init__(self, form: Any) -> None:
        super().__init__(form)
        self._begin, self._state = TOOL_CALLS, self._text

    def _wait(self, character: str) -> None:
        if character.isalnum() or character in "_.-":
            self._enter(self._read_head, character)
        else:
            super()._wait(character)

    def _is_known(self, name: str) -> bool:
        return True

    def _accept(self) -> None:
        super()._accept()
        if isinstance(self._object, NamedArguments):
            self._enter(self._text)
