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

from mini_vllm.frontend.tool_calls.hermes import SPACE, AssistantDelta, NamedCallParser

CALLS, END_CALLS = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
CALL, END_CALL = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"


class DeepSeekParser(NamedCallParser):
    """Parses both forms."""

    head = re.compile(r"function<｜tool▁sep｜>([\w.-]+)\s*```json\s*|([\w.-]+)<｜tool▁sep｜>\s*")

    def __init__(self, form: Any) -> None:
        super().__init__()
        self._begin, self._end, self._before_end = CALLS, END_CALL, SPACE | {"`"}

    def finish(self, text: str = "") -> AssistantDelta:
        self._go_on(text)
        if self._is_behind_call and self._state == self._wait:
            self._held = ""  # of the last tag
        return super().finish()

    def _wait(self, character: str) -> None:
        """Where a call may begin, or the calls may end."""
        tags = (CALL, END_CALLS) if self._is_behind_call else (CALL,)
        tag = self._take(character, SPACE, *tags)
        if tag == CALL:
            self._raw.append(CALL)
            self._enter(self._read_head)
        elif tag:
            self._raw = []
            self._enter(self._text)

    def _accept(self) -> None:
        super()._accept()
        self._enter(self._wait)
