"""The process that renders chat templates: python -m mini_vllm.frontend.template_worker SECONDS
BYTES.

chat_template.py starts it. It imports nothing of mini_vllm but child_process.py, so that it starts
in a tenth of a second. The system's own timers kill it, and it ends by itself when stdin does. The
seconds are the processor's, so that a busy machine refuses nothing; by the clock on the wall there
are WALL_TIMES as many. Source: _cached_compile_jinja_template in
transformers/utils/chat_template_utils.py, version 5: what a template may see.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from typing import Any

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from mini_vllm.structured.sandbox.child_process import answer, limit_memory, questions, set_timers


class Generation(jinja2.ext.Extension):
    """{% generation %} ... {% endgeneration %} marks what an assistant has said; here it is text as
    any other.
    """

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_say"), [], [], body).set_lineno(line)

    def _say(self, caller: Callable[[], str]) -> str:
        return caller()


class Dict:
    """dict in a template: a function, without the attributes of a class."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)

    def fromkeys(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args, **kwargs)


class Namespace(jinja2.utils.Namespace):
    """namespace in a template, that takes no name with an underscore in front."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        for name in dict(*args[1:], **kwargs):
            _refuse_underscore(name)
        jinja2.utils.Namespace.__init__(*args, **kwargs)

    def __setitem__(self, name: str, value: Any) -> None:
        _refuse_underscore(name)
        super().__setitem__(name, value)


def _refuse_underscore(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"a namespace cannot store {name!r}")


def raise_exception(message: str) -> None:
    """What a template says no with."""
    raise jinja2.exceptions.TemplateError(message)


def tojson(
    x: Any,
    ensure_ascii: bool = False,
    indent: Any = None,
    separators: Any = None,
    sort_keys: bool = False,
) -> str:
    """The filter; jinja2's own escapes HTML."""
    return json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def strftime_now(format: str) -> str:
    """The time of day."""
    return datetime.now().strftime(format)


@lru_cache(maxsize=4)
def compile_template(template: str) -> jinja2.Template:
    """The template in a sandbox that can change none of its arguments."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals |= {"raise_exception": raise_exception, "strftime_now": strftime_now}
    environment.globals |= {"dict": Dict(), "namespace": Namespace}
    return environment.from_string(template)


def render_calls(template: jinja2.Template, variables: dict[str, Any]) -> str:
    """The text of a template. The arguments of calls are text in OpenAI's messages, and objects
    for a template that writes JSON of them. Another one joins them to other text.
    """
    given = variables["messages"]
    read = [with_arguments(message) for message in given]
    try:
        return template.render(**variables | {"messages": read})
    except Exception:
        if read == given:
            raise
        return template.render(**variables)


def with_arguments(message: dict[str, Any]) -> dict[str, Any]:
    """A message, the arguments of its calls as objects, where they are JSON."""
    calls = message.get("tool_calls")
    return message | {"tool_calls": [*map(as_object, calls)]} if calls else message


def as_object(call: Any) -> Any:
    """A call, its arguments as an object."""
    with suppress(Exception):  # it is no JSON, or no call
        arguments = json.loads(call["function"]["arguments"] or "{}")
        return {**call, "function": {**call["function"], "arguments": arguments}}
    return call


def render(question: dict[str, Any], max_bytes: int) -> dict[str, Any]:
    """The text of a template, or what is wrong with it in the words that follow "the chat
    template".
    """
    try:
        text = render_calls(compile_template(question["template"]), question["variables"])
    except MemoryError:
        return {"error": f"needs more than {max_bytes} bytes of memory"}
    except RecursionError:
        return {"error": "calls itself too deeply"}
    except Exception as error:  # whatever a stranger's program raises
        with suppress(Exception):
            return {"error": f"fails: {type(error).__name__[:50]}: {str(error)[:200]}"}
        return {"error": "fails"}
    if len(text) > question["max_chars"]:
        return {
            "error": f"makes a text of {len(text)} characters, the limit is {question['max_chars']}"
        }
    return {"text": text}


def main() -> None:
    """Answer questions until stdin ends."""
    seconds, max_bytes = float(sys.argv[1]), int(sys.argv[2])
    limit_memory(max_bytes)
    answers = os.fdopen(os.dup(1), "wb")
    for question in questions():
        begun = time.process_time()
        set_timers(seconds)
        found = render(question, max_bytes)
        set_timers(0)
        answer(answers, found, begun)


if __name__ == "__main__":
    main()
