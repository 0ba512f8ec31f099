"""Hold chat templates that people have against the engine: `python tools/check_templates.py FOLDER ...`.

A folder has *.jinja files, or *.json files with a chat_template somewhere in them. Packages whose source has many:
llama-cpp-python, vllm and xinference (their source packages, unpacked). For each template

- every conversation of a few is rendered here and by transformers, and must be the same text, or an error in both;
- a call of the template's own writing is parsed, or tools are refused by name.

Prints each template with its form of calls, then the figures. Exit status 1 if a text differs or a call is lost.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from transformers.utils.chat_template_utils import render_jinja_template

from mini_vllm.errors import ChatTemplateError
from mini_vllm.frontend.assistant_parser import AssistantParser
from mini_vllm.frontend.chat_template import ChatTemplateRenderer
from mini_vllm.frontend.tool_calls.form import find_form

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
PROPERTIES = {
    "where": {"type": "string", "description": "A place."},
    "hours": {"type": "integer", "description": "How many."},
}
FUNCTION = {
    "name": "tide_table",
    "description": "When the tide is high.",
    "parameters": {"type": "object", "properties": PROPERTIES, "required": ["where"]},
}
TOOLS = [{"type": "function", "function": FUNCTION}]
ARGUMENTS = {"where": "Bergen", "hours": 12}
USER = {"role": "user", "content": "When is the tide high?"}
ANSWER = {"role": "assistant", "content": "At noon."}
CALL = {"id": "id1234567", "type": "function", "function": {"name": "tide_table", "arguments": ARGUMENTS}}
CALLING = {"role": "assistant", "content": "", "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "id1234567", "name": "tide_table", "content": "12:00"}
CONVERSATIONS: list[tuple[list[Any], Any]] = [
    ([USER], None),
    ([{"role": "system", "content": "Be short."}, USER, ANSWER, USER], None),
    ([USER], TOOLS),
    ([USER, CALLING], TOOLS),
    ([USER, CALLING, RESULT], TOOLS),
]


class Given:
    """As much of a tokenizer as a renderer needs."""

    special_tokens_map = SPECIAL

    def __init__(self, template: str) -> None:
        self.chat_template = template

    def get_chat_template(self, name: str | None, tools: Any) -> str:
        return name or self.chat_template

    def get_added_vocab(self) -> dict[str, int]:
        return {}


def templates_of(folder: Path) -> Iterator[tuple[str, str]]:
    """Names and texts of templates."""
    for path in sorted(folder.rglob("*.jinja")):
        yield path.name, path.read_text(encoding="utf-8")
    for path in sorted(folder.rglob("*.json")):
        with suppress(ValueError):  # settings of editors have comments
            yield from ((path.name, text) for text in texts_in(json.loads(path.read_text(encoding="utf-8"))))


def texts_in(found: Any) -> Iterator[str]:
    """The chat templates of a JSON value."""
    for key, value in found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ():
        if key == "chat_template" and isinstance(value, str) and "{" in value:
            yield value
        else:
            yield from texts_in(value)


def differences(template: str, render: Any) -> Iterator[str]:
    """Which conversation is another text here than in transformers. Where transformers fails, anything is right."""
    for number, (messages, tools) in enumerate(CONVERSATIONS):
        options: dict[str, Any] = {"tools": tools, "add_generation_prompt": messages[-1] is not CALLING}
        try:
            (wanted,), _ = render_jinja_template([messages], chat_template=template, **options, **SPECIAL)
        except Exception:
            continue
        try:
            got = render(messages, **options)
        except ChatTemplateError as error:
            got = str(error)
        if got != wanted:
            yield f"conversation {number} differs"


def fate_of_call(template: str, render: Any) -> tuple[str, str]:
    """The form of calls, and what becomes of a call that the template writes."""
    form = find_form(Given(template), render=render)
    with suppress(ChatTemplateError):  # of a template that cannot do without tools
        if render([USER], tools=TOOLS) == render([USER]):
            return form.calls, "refused: the template ignores tools"
    if form.calls == "unknown":
        return form.calls, "refused: no parser reads its calls"
    try:
        written = render([USER, CALLING], tools=TOOLS, add_generation_prompt=False).rpartition(USER["content"])[2]
    except ChatTemplateError:
        return form.calls, "not written"
    if "tide_table" not in written:
        return form.calls, "not written"
    form = form._replace(thinks=False, names=["tide_table"], parameters={"tide_table": FUNCTION["parameters"]})
    calls = AssistantParser(form).finish(written).tool_calls
    names = [(call["function"]["name"], {*json.loads(call["function"]["arguments"])}) for call in calls]
    return form.calls, "parsed" if names == [("tide_table", {*ARGUMENTS})] else "LOST"


def main() -> int:
    """The exit status."""
    fates: Counter[str] = Counter()
    seen: dict[str, str] = {}
    for folder in map(Path, sys.argv[1:]):
        for name, template in templates_of(folder):
            seen.setdefault(template, f"{folder.name}/{name}")
    renderer = ChatTemplateRenderer(Given(""))
    for template, name in seen.items():
        render = partial(renderer.render, chat_template=template)
        found = [*differences(template, render)]
        form, fate = fate_of_call(template, render) if "tool" in template else ("none", "no tools")
        fates.update([fate, *(["DIFFERS"] if found else [])])
        print(f"{name}: {form}, {fate}", *found, sep="; ")
    print(f"\n{len(seen)} templates:", ", ".join(f"{fate} {count}" for fate, count in sorted(fates.items())))
    return 1 if {"LOST", "DIFFERS"} & fates.keys() else 0


if __name__ == "__main__":
    sys.exit(main())
