"""Calls as DeepSeek writes them.

    <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f
    ```json
    {"a": 1}
    ```<｜tool▁call▁end｜><｜tool▁calls▁end｜>                                   R1 and V3

    <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": 1}<｜tool▁call▁end｜>...   V3.1

Source: deepseekv3_tool_parser.py and deepseekv31_tool_parser.py in vllm/tool_parsers.
"""

import re
from typing import Any

from mini_vllm.frontend.tool_calls.hermes import SPACE, AssistantDelta, HermesParser, NamedArguments

CALLS, END_CALLS = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
CALL, END_CALL = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"
HEAD = re.compile(r"function<｜tool▁sep｜>([\w.-]+)\s*```json\s*|([\w.-]+)<｜tool▁sep｜>\s*")
MAX_HEAD = 256  # characters between the tag of a call and its arguments


class DeepSeekParser(HermesParser):
    """Parses both forms."""

    def __init__(self, form: Any) -> None:
        super().__init__()
        self._begin, self._end, self._before_end = CALLS, END_CALL, SPACE | {"`"}
        self._head = ""

    def finish(self, text: str = "") -> AssistantDelta:
        self._go_on(text)
        if self._is_behind_call and self._state == self._wait:
            self._held = ""  # of the last tag
        return super().finish()

    def _wait(self, character: str) -> None:
        """Where a call may begin, or the calls may end."""
        ends = self._is_behind_call and END_CALLS.startswith(self._held + character)
        if character in SPACE and not self._held:
            self._raw.append(character)
        elif not ends and not CALL.startswith(self._held + character):
            self._refuse(character)
        else:
            self._held += character
            if self._held == CALL:
                self._raw.append(CALL)
                self._head = ""
                self._enter(self._read_head)
            elif self._held == END_CALLS:
                self._raw = []
                self._enter(self._text)

    def _read_head(self, character: str) -> None:
        """In the name of a call, and what stands between it and the arguments."""
        found = HEAD.fullmatch(self._head) if character == "{" else None
        if found is not None:
            self._object = NamedArguments(found[1] or found[2])
            self._enter(self._read, character)
        elif character == "{" or len(self._head) == MAX_HEAD:
            self._refuse(character)
        else:
            self._head += character
            self._raw.append(character)
            if self._head.endswith(CALLS):  # it was no call, and the next ones may begin
                self._raw = [*"".join(self._raw).removesuffix(CALLS)]
                self._refuse(CALLS)

    def _accept(self) -> None:
        super()._accept()
        self._enter(self._wait)
