"""Lab 04.2: Tool calls from a stream (45 minutes). What must hold is in contract.md."""

import json
import secrets
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from labkit import todo
from mini_vllm.frontend.tool_calls.hermes import AssistantDelta, CALL, END_CALL, SPACE, sendable


class HermesParser:
    """Parses text with calls among it: feed() each piece, and finish() with the last one.

    A call is <tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>. It is given out when it
    is whole, in OpenAI's shape; one that is malformed is text. Source: hermes_tool_parser.py in
    vllm/tool_parsers.
    """

    keeps_space = False  # True: space beside a call is kept where text stands on both sides

    def __init__(self) -> None:
        todo("04.2")

    def feed(self, text: str) -> AssistantDelta:
        """What a piece of the text brings."""
        todo("04.2")

    def finish(self, text: str = "") -> AssistantDelta:
        """What the last piece brings, and what was held back."""
        todo("04.2")
