"""How models write calls of tools: one parser for each form, one class for each.

All are fed like HermesParser, which they begin with. The text is looked at once, and what was held
back once more; what comes out does not depend on where it was cut.
"""

from collections.abc import Callable, Mapping
from typing import Any

from mini_vllm.frontend.tool_calls import deepseek, hermes, json_calls, mistral
from mini_vllm.frontend.tool_calls.deepseek import DeepSeekParser
from mini_vllm.frontend.tool_calls.hermes import HermesParser
from mini_vllm.frontend.tool_calls.json_calls import JsonCallParser
from mini_vllm.frontend.tool_calls.mistral import MistralParser
from mini_vllm.frontend.tool_calls.pythonic import PythonicParser
from mini_vllm.frontend.tool_calls.qwen3_coder import Qwen3CoderParser

PARSERS: Mapping[str, Callable[[Any], HermesParser]] = {
    "hermes": lambda form: HermesParser(),
    "qwen3_coder": Qwen3CoderParser,
    "mistral": MistralParser,
    "deepseek_v3": DeepSeekParser,
    "pythonic": PythonicParser,
    "llama3_json": JsonCallParser,
    "xlam": JsonCallParser,
    "json": JsonCallParser,  # which a grammar has forced
}
TAGS: Mapping[str, str] = {
    "hermes": hermes.CALL,
    "qwen3_coder": hermes.CALL,
    "mistral": mistral.TOOL_CALLS,
    "deepseek_v3": deepseek.CALLS,
    "llama3_json": json_calls.PYTHON_TAG,
}
"""What stands before the calls of a form, where something does."""
