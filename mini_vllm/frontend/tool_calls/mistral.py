"""Calls behind Mistral's tag, which is a special token.

    [TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}, "id": "123456789"}]      v3 of the tokenizer
    [TOOL_CALLS]f[ARGS]{"a": 1}[TOOL_CALLS]g[CALL_ID]123456789[ARGS]{}          v11 and later

Source: mistral_tool_parser.py in vllm/tool_parsers; mistral-common's tokenizers.
"""

import re
from typing import Any

from mini_vllm.frontend.tool_calls.hermes import NamedArguments
from mini_vllm.frontend.tool_calls.json_calls import JsonCallParser

TOOL_CALLS = "[TOOL_CALLS]"
HEAD = re.compile(r"([\w.-]+)(?:\[CALL_ID\]\w*)?(?:\[ARGS\])?\s*")
MAX_HEAD = 256  # characters between the tag and the arguments


class MistralParser(JsonCallParser):
    """Parses both forms: a list of calls, or a name and its arguments behind each tag."""

    begins = ""

    def __init__(self, form: Any) -> None:
        super().__init__(form)
        self._begin, self._state = TOOL_CALLS, self._text
        self._head = ""

    def _wait(self, character: str) -> None:
        if character.isalnum() or character in "_.-":
            self._head = ""
            self._enter(self._read_head, character)
        else:
            super()._wait(character)

    def _read_head(self, character: str) -> None:
        """In the name of a call, and what stands between it and the arguments."""
        found = HEAD.fullmatch(self._head) if character == "{" else None
        if found is not None:
            self._object = NamedArguments(found[1])
            self._enter(self._read, character)
        elif character in "{<" or len(self._head) == MAX_HEAD:
            self._refuse(character)
        else:
            self._head += character
            self._raw.append(character)
            if self._head.endswith(TOOL_CALLS):  # it was no call, and the next one may begin
                self._raw = [*"".join(self._raw).removesuffix(TOOL_CALLS)]
                self._refuse(TOOL_CALLS)

    def _is_known(self, name: str) -> bool:
        return True

    def _accept(self) -> None:
        super()._accept()
        if isinstance(self._object, NamedArguments):
            self._enter(self._text)
