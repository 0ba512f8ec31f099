"""The tools of a chat: what of them is refused, and the form that a text has when a tool must be
called.

Called by LLM.chat() and by a server of chats. Source: OpenAI's API reference; the tool_choice of
vllm/entrypoints/openai/chat_completion/serving.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import UnionType
from typing import Any, NoReturn, get_args

from mini_vllm.errors import InvalidParameterError, Params, shown
from mini_vllm.params import SamplingParams, StructuredOutputs
from mini_vllm.structured.schema import calls_schema, wrong_in

MAX_TOOLS, MAX_NAME = 128, 64  # tools, and characters of a name
MAX_CALLS = 16  # of an answer that has to call
CHOICES = ("none", "auto", "required")


@dataclass(frozen=True, slots=True)
class ToolUse(Params):
    """What tools there are and which of them has to be called, in OpenAI's shapes.

    Raises InvalidParameterError, whose message begins with the place of what is wrong:
    tools[1].function.name.
    """

    tools: Sequence[Mapping[str, Any]] | None = None
    tool_choice: str | Mapping[str, Any] | None = None
    """ "none", "auto" (None), "required", or {"type": "function", "function": {"name": ...}}."""
    parallel_tool_calls: bool | None = None
    """False: at most one call; None is True."""

    def __post_init__(self) -> None:
        tools, choice = self.tools, self.tool_choice
        is_list = isinstance(tools, list | tuple) and 0 < len(tools) <= MAX_TOOLS
        self.require("tools", tools is None or is_list, f"None or a list of 1 to {MAX_TOOLS} tools")
        for number, tool in enumerate(tools or ()):
            check_tool(f"tools[{number}]", tool)
        for number, name in enumerate(self.names):
            if not 0 < len(name) <= MAX_NAME or name in self.names[:number]:
                limit = f"a text of 1 to {MAX_NAME} characters that no function before it has"
                refuse(f"tools[{number}].function.name", limit, name)
        if not isinstance(choice, str | None):
            check_function("tool_choice", choice)
            check_fields("tool_choice.function", choice["function"], name=str)
            if (name := choice["function"]["name"]) not in self.names:
                refuse(
                    "tool_choice.function.name",
                    f"a function of tools, which are {self.names}",
                    name,
                )
        known = choice in CHOICES[: None if tools else 2] or isinstance(choice, Mapping)
        self.require(
            "tool_choice", choice is None or known, f"one of {CHOICES}, not the last without tools"
        )
        is_flag = isinstance(self.parallel_tool_calls, bool | None)
        self.require("parallel_tool_calls", is_flag, "a bool")

    @property
    def names(self) -> list[str]:
        """Of the functions."""
        return [tool["function"]["name"] for tool in self.tools or ()]

    @property
    def parameters(self) -> dict[str, Any]:
        """Of the functions, by name: JSON schemas."""
        return {
            tool["function"]["name"]: tool["function"].get("parameters")
            for tool in self.tools or ()
        }

    def forced_schema(self) -> dict[str, Any] | None:
        """What a text that has to call is: a list of calls, as JSON. None: any text will do."""
        if self.tool_choice in (None, "none", "auto"):
            return None
        wanted = (
            self.names
            if isinstance(self.tool_choice, str | None)
            else [self.tool_choice["function"]["name"]]
        )
        functions = [
            tool["function"] for tool in self.tools or () if tool["function"]["name"] in wanted
        ]
        is_one = self.parallel_tool_calls is False or self.tool_choice != "required"
        return calls_schema(functions, 1 if is_one else MAX_CALLS)

    def constrain(self, params: SamplingParams) -> SamplingParams:
        """The same for a text that has to call, whatever other form was asked for. Source:
        ToolParser.adjust_request in vllm/tool_parsers/abstract_tool_parser.py.
        """
        schema = self.forced_schema()
        if schema is None:
            return params
        return replace(params, structured=StructuredOutputs(json=schema, closes=True))


def check_tool(path: str, tool: Any) -> None:
    """Raises InvalidParameterError for what is no tool of OpenAI's API."""
    check_function(path, tool)
    fields: dict[str, Any] = {
        "description": str | None,
        "strict": bool | None,
        "return": Mapping | None,
    }
    check_fields(
        f"{path}.function", tool["function"], name=str, parameters=Mapping | None, **fields
    )
    parameters = tool["function"].get("parameters") or {}
    wrong = "type" if parameters.get("type", "object") != "object" else wrong_in(parameters)
    if wrong is not None:
        refuse(
            f"{path}.function.parameters",
            f"a JSON schema of an object; what is wrong is {wrong}",
            parameters,
        )


def check_function(path: str, given: Any) -> None:
    """Raises InvalidParameterError unless it has a function."""
    # before its fields are looked at: one of another type has other ones
    kind = given.get("type") if isinstance(given, Mapping) else None
    if kind not in (None, "function"):
        refuse(f"{path}.type", "'function'", kind)
    check_fields(path, given, type=str | None, function=Mapping)


WORDS: dict[Any, str] = {str: "a text", bool: "true or false", Mapping: "an object"}


def check_fields(path: str, given: Any, **kinds: type | UnionType) -> None:
    """Raises InvalidParameterError unless it is a mapping of these fields, and each is of its
    kind.
    """
    if not isinstance(given, Mapping):
        refuse(path, "an object", given)
    if unknown := next((name for name in given if name not in kinds), None):
        refuse(
            f"{path}.{unknown}", f"absent: the fields here are {', '.join(kinds)}", given[unknown]
        )
    for name, kind in kinds.items():
        if not isinstance(given.get(name), kind):
            (word, *_) = get_args(kind) or [kind]
            refuse(f"{path}.{name}", WORDS[word], given.get(name))


def refuse(path: str, limit: str, got: Any) -> NoReturn:
    """Raises InvalidParameterError."""
    raise InvalidParameterError(f"ToolUse: {path} must be {limit}, got {shown(got)}")
