"""What comes out of a message does not depend on where it was cut, and costs the same for each
character.
"""

import json
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mini_vllm.frontend.assistant_parser import (
    AssistantDelta,
    AssistantForm,
    AssistantParser,
    find_form,
)

HERMES = AssistantForm("hermes", thinks=True)
LLAMA = AssistantForm("llama3_json", thinks=True, names={"f", "g"})
FORCED = AssistantForm("json")
F = '{"name": "f", "arguments": {"a": 1}}'
G = '{"name": "g", "arguments": {}}'
FOUND = ("f", '{"a": 1}')
END_IN_CALL = '{"name": "g", "arguments": {"x": "</think>"}}'
NO_CALL = '{"name": "f", "arguments": {"a": 1}'


def tag(text: str) -> str:
    return f"<tool_call>{text}</tool_call>"


def read(form: AssistantForm, pieces: list[str]) -> tuple[str, str, list[tuple[str | None, str]]]:
    """Content, reasoning, and the calls by name. Checks that a call's first part alone has its id
    and its name.
    """
    parser = AssistantParser(form)
    deltas = [*map(parser.feed, pieces), parser.finish()]
    calls: list[tuple[str | None, str]] = []
    ids = set()
    for part in (part for delta in deltas for part in delta.tool_calls):
        index, called = part["index"], part["function"]
        assert ("id" in part) == ("type" in part) == ("name" in called) == (index == len(calls))
        ids.add(part.get("id"))
        if "id" in part:
            calls.append((called["name"], ""))
        calls[index] = calls[index][0], calls[index][1] + called["arguments"]
    assert len(ids - {None}) == len(calls) == parser.num_calls
    return (
        "".join(delta.content for delta in deltas),
        "".join(delta.reasoning for delta in deltas),
        calls,
    )


CASES: list[tuple[AssistantForm, str, str, str, list[tuple[str, str]]]] = [
    (HERMES, "", "", "", []),
    (HERMES, " a \n", " a \n", "", []),
    (HERMES, tag(F), "", "", [("f", '{"a": 1}')]),
    (HERMES, f"\n{tag(' ' + F + ' ')} \n", "", "", [("f", '{"a": 1}')]),
    (HERMES, f"Say: {tag(F)}\n{tag(F)} done ", "Say: \n done ", "", [("f", '{"a": 1}')] * 2),
    (HERMES, tag('{"name": "f"}'), "", "", [("f", "{}")]),
    (HERMES, tag('{"name": "f", "arguments": null}'), "", "", [("f", "{}")]),
    (HERMES, tag('{"arguments": {"b": [{"name": "x"}]}, "name": '
                 '"g"}'), "", "", [("g", '{"b": [{"name": "x"}]}')]),
    (HERMES, tag('{"name":"f","arguments":{"a":"</tool_call>\\"}{"}}'), "", "", [("f", '{"a": '
                                                                                       '"</tool_call>\\"}{"}')]),
    (HERMES, tag('{"name": "f", "arguments": {"a": "é日👍"}}'), "", "", [("f", '{"a": "é日👍"}')]),
    (HERMES, f"<tool_call>{F}", "", "", [("f", '{"a": 1}')]),
    (HERMES, f"<tool_call>{F}</tool_c", "", "", [("f", '{"a": 1}')]),
    (HERMES, f"a <tool_call><tool_call>{F}</tool_call>", "a <tool_call>", "", [("f", '{"a": 1}')]),
    (HERMES, f"<tool_call>{F}<tool_call>{F}</tool_call>", f"<tool_call>{F}", "", [("f", '{"a": '
                                                                                        '1}')]),
    (HERMES, "a <tool_calls> <tool_cal", "a <tool_calls> <tool_cal", "", []),
    (HERMES, "<<tool_call <tool_call>", "<<tool_call <tool_call>", "", []),
    *((HERMES, f"a {tag(bad)} b", f"a {tag(bad)} b", "", []) for bad in (
        *("", "f", NO_CALL, "[]", "{}", "null", f"{F} "
                                                f"{F}", F + "}", '{"name": '
                                                                 '5}', '{"name": '
                                                                       '""}', "{'name': 'f'}"),
        '{"name": "\\ud800"}',
        *('{"name": "f", "arguments": '
          '"{}"}', '{"name": "f", "arguments": [1]}', '{"name": "f", "arguments": {"a":}}'),
        *('{"name": "f", "arguments": {"a": '
          'NaN}}', '{"name": "f",}', '{"name": "f" "arguments": {}}', '{"name: "f"}'),
        *('{"name": "f", "arguments": '
          '{]}', '{"name": "f"]', '{"name": "f", "arguments": ' + "[" * 5000),
    )),
    (HERMES, tag(NO_CALL) + tag(F), tag(NO_CALL), "", [("f", '{"a": 1}')]),
    (HERMES, '<tool_call>{"name": '
             '"a\nb"}</tool_call>', '<tool_call>{"name": "a\nb"}</tool_call>', "", []),
    (HERMES, "\n<think>\nWell, "
             f"</think\n</think>\n\n{tag(F)}", "", "\nWell, </think\n", [("f", '{"a": 1}')]),
    (HERMES, "<think>a</think> b", "b", "a", []),
    (HERMES, f"<think>{tag(F)}", "", "", [("f", '{"a": 1}')]),
    (HERMES, f"<think>a < b\n{tag(F)} c", "c", "a < b\n", [("f", '{"a": 1}')]),
    (HERMES, f"<think>a{tag('f')}", tag("f"), "a", []),
    (HERMES, f"<think>a{tag(F)}\n</think>\n\nb </think>", "b </think>", "a", [("f", '{"a": 1}')]),
    (HERMES, f"<think>a{tag(F)}{tag(F)}</think>", "", "a", [("f", '{"a": 1}')] * 2),
    (HERMES, f"<think>a{tag(F)} b </thi</think>\n{tag(F)} c", "b </thic", "a", [FOUND] * 2),
    (HERMES, f"<think>a{tag('f')} b</think> c", f"{tag('f')} bc", "a", []),
    (HERMES, f"<think>a{tag(F)} b</thin", "b</thin", "a", [("f", '{"a": 1}')]),
    (HERMES, f"<think>a{tag(END_IN_CALL)}</think>c", "c", "a", [("g", '{"x": "</think>"}')]),
    (HERMES, f"{tag(F)}</think>", "</think>", "", [("f", '{"a": 1}')]),
    (HERMES, f"a \n{tag(F)}\n", "a", "", [("f", '{"a": 1}')]),
    (HERMES, f" {tag(F)} b", "b", "", [("f", '{"a": 1}')]),
    (HERMES, "<think>a</thi", "", "a</thi", []),
    (HERMES, " <thin", " <thin", "", []),
    (HERMES, " " * 50 + "<think>", " " * 50 + "<think>", "", []),
    (HERMES, "a <think>b</think>", "a <think>b</think>", "", []),
    (HERMES._replace(is_thinking=True), f"a</think>\n{tag(F)}", "", "a", [("f", '{"a": 1}')]),
    *((HERMES._replace(is_thinking=True), *case, []) for case in (
        ("\n<think>\na</think>b", "b", "\na"), (" </think>b", "b", " "), (" <thin", "", " <thin"),
        ("a<think>b</think>c", "c", "a<think>b"), ("<b </think>c", "c", "<b "),
    )),
    (AssistantForm("none", thinks=True), f"<think>a</think>{tag(F)}", tag(F), "a", []),
    (AssistantForm(), f" <think>a</think> {tag(F)} ", f" <think>a</think> {tag(F)} ", "", []),
    (LLAMA, '{"name": "f", "parameters": {"a": 1}}', "", "", [("f", '{"a": 1}')]),
    (LLAMA, f'<|python_tag|>{F}; {{"name": "g"}}\n', "", "", [("f", '{"a": 1}'), ("g", "{}")]),
    (LLAMA, f"Sure. <|python_tag|>{F}", "Sure.", "", [("f", '{"a": 1}')]),
    (LLAMA, f"[{F}, {F}] Done", "Done", "", [("f", '{"a": 1}')] * 2),
    (LLAMA, '{"name": "Bob", "age": 5}', '{"name": "Bob", "age": 5}', "", []),
    (LLAMA, f" [{NO_CALL}", f" [{NO_CALL}", "", []),
    (LLAMA, "[1, 2]\n", "[1, 2]\n", "", []),
    (LLAMA, f"a {F}", "a", "", [("f", '{"a": 1}')]),
    (LLAMA, f"a {{b}} [c] {F}\nd [1]", "a {b} [c] \nd [1]", "", [("f", '{"a": 1}')]),
    (LLAMA, f"a [{F}, {G}] b", "a  b", "", [("f", '{"a": 1}'), ("g", "{}")]),
    (LLAMA, 'a {"name": "h", "parameters": {}}', 'a {"name": "h", "parameters": {}}', "", []),
    (LLAMA, f"<|pyt{F}", "<|pyt", "", [("f", '{"a": 1}')]),
    (LLAMA, f"<think>a</think>{F}", "", "a", [("f", '{"a": 1}')]),
    (FORCED, f"[{F},\n {F}]", "", "", [("f", '{"a": 1}')] * 2),
    (FORCED, '[{"name": "f", "arguments": {"a": [1, {"b', "", "", [("f", '{"a": [1, {"b')]),
    (FORCED, '[{"name": "f", "arguments": {}  ', "", "", [("f", "{}")]),
    (FORCED, f'[{F}, {{"na', "", "", [("f", '{"a": 1}')]),
    (FORCED, '[{"na', "", "", []),
    *((FORCED, f'[{{"name": "f", "arguments": {given}}}, '
               f'{G}]', "", "", [("f", given), ("g", "{}")]) for given in (
        *('{"a": '
          '1e999}', '{"a": '
                    '"\\ud800"}', '{"a": ' + "1" * 5000 + "}", '{"a": ' * 2000 + "1" + "}" * 2000),
    )),
    (HERMES._replace(is_parallel=False), f"{tag(F)} {tag(F)} a", "a", "", [("f", '{"a": 1}')]),
    (LLAMA._replace(is_parallel=False), f"{F};{F}", "", "", [("f", '{"a": 1}')]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("form", "text", "content", "reasoning", "calls"),
    [pytest.param(*case, marks=pytest.mark.slow if len(case[1]) > 4000 else ()) for case in CASES],
)
def test_a_message_is_the_same_however_it_is_cut(
    form: AssistantForm, text: str, content: str, reasoning: str, calls: list[tuple[str, str]]
) -> None:
    wanted = content, reasoning, calls
    assert read(form, [text]) == wanted
    assert read(form, list(text)) == wanted
    for cut in range(min(len(text), 200)):
        assert read(form, [text[:cut], text[cut:]]) == wanted
    for _, arguments in calls if form is not FORCED else ():
        assert isinstance(json.loads(arguments), dict)


TAGS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<|python_tag|>"]
PARTS = st.sampled_from(
    [*TAGS, F, NO_CALL, '{"name": "g"}', '"arguments":', "null", "name", *'{}[]"\\:,; \n<>/té\0']
)


def bare(text: str) -> str:
    """Without space and the tags of reasoning, which may go."""
    return "".join(text.replace("<think>", "").replace("</think>", "").split())


@settings(max_examples=150, deadline=None)
@given(
    st.lists(PARTS, max_size=12).map("".join), st.data(), st.sampled_from([HERMES, LLAMA, FORCED])
)
def test_no_split_changes_anything(text: str, data: st.DataObject, form: AssistantForm) -> None:
    wanted = read(form, [text])
    assert read(form, list(text)) == wanted
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert read(form, pieces) == wanted
    if form is not FORCED and not wanted[1] and not wanted[2]:
        assert bare(wanted[0]) == bare(text)


def test_nothing_that_may_be_a_tag_or_a_call_is_let_out_early() -> None:
    parser = AssistantParser(HERMES)
    text = f"Yes. <tool_call>\n{F}\n</tool_call>"
    deltas = [parser.feed(character) for character in text]
    assert "".join(delta.content for delta in deltas) == "Yes."
    assert [i for i, delta in enumerate(deltas) if delta.tool_calls] == [len(text) - 1]


def test_where_all_is_text_nothing_is_held_back() -> None:
    parser = AssistantParser(AssistantForm(names=["f"]))
    assert [parser.feed(piece).content for piece in (" ", "<tool_", "")] == [" ", "<tool_", ""]
    assert parser.feed("").as_json(is_text=parser.is_text) == {"content": ""}
    assert parser.finish("\n").content == "\n"


def test_forced_arguments_come_as_they_are_written() -> None:
    parser = AssistantParser(FORCED)
    deltas = [parser.feed(character) for character in f"[{F}]"]
    parts = [part["function"] for delta in deltas for part in delta.tool_calls]
    assert [part["arguments"] for part in parts] == list('{"a": 1}')
    assert [part.get("name") for part in parts] == ["f"] + [None] * 7


def steps_of(form: AssistantForm, pieces: list[str]) -> int:
    """The lines of Python that run for a message."""
    count = 0

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        parser = AssistantParser(form)
        for piece in pieces:
            parser.feed(piece)
        parser.finish()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(
    "unit",
    [
        *(
            "a",
            " ",
            "<tool_call>",
            "<tool_call",
            "<tool_call>{",
            tag(F),
            tag(NO_CALL),
            '<tool_call>{"',
            "<think>",
            "[{",
        ),
        *(
            '<tool_call>{"<tool_call>{',
            F,
            f"<tool_call>{F}<",
            "\\",
            '{"name":"f","arguments":{"a":',
            "<|python_tag|>{",
        ),
    ],
)
@pytest.mark.parametrize(
    "form",
    [
        HERMES._replace(is_thinking=True),
        *(pytest.param(form, marks=pytest.mark.slow) for form in (FORCED, HERMES, LLAMA)),
    ],
)
def test_steps_grow_with_the_text_and_no_faster(unit: str, form: AssistantForm) -> None:
    """Twice the text takes twice as many, in one piece and in many."""
    few, many = unit * (400 // len(unit) + 1), unit * (2 * (400 // len(unit) + 1))
    for cut in (lambda text: [text], list):
        assert steps_of(form, cut(many)) <= 2.1 * steps_of(form, cut(few)) + 100


def test_a_message_goes_back_into_a_conversation() -> None:
    message = AssistantParser(HERMES).finish(f"<think>a</think>{tag(F)}").as_message()
    (call,) = message.pop("tool_calls")
    assert message == {"role": "assistant", "content": None, "reasoning_content": "a"}
    assert call["id"].startswith("call_")
    assert (call["type"], call["function"]) == ("function", {"name": "f", "arguments": '{"a": 1}'})
    assert AssistantDelta("").as_message() == {"role": "assistant", "content": ""}


class FakeTokenizer:
    def __init__(self, template: str | None, vocabulary: tuple[str, ...] = ()) -> None:
        self.chat_template = template
        self.get_added_vocab = lambda: dict.fromkeys(vocabulary, 1)


@pytest.mark.parametrize(
    ("tokenizer", "options", "form"),
    [
        (None, (), ("none", False)),
        (FakeTokenizer("plain"), (), ("none", False)),
        (FakeTokenizer("... <tool_call> ... <think>"), (), ("hermes", True)),
        (FakeTokenizer(None, ("<tool_call>", "<think>")), (), ("hermes", True)),
        (FakeTokenizer("", ("<|python_tag|>",)), (), ("llama3_json", False)),
        (
            FakeTokenizer('Environment: ipython {"name": ..., "parameters": ...}'),
            (),
            ("llama3_json", False),
        ),
        (FakeTokenizer("<tool_call><think>"), ("none", "none"), ("none", False)),
        (FakeTokenizer("plain"), ("llama3_json", "think"), ("llama3_json", True)),
    ],
)
def test_the_form_is_what_the_model_shows(
    tokenizer: Any, options: tuple[str, ...], form: tuple[str, bool]
) -> None:
    assert find_form(tokenizer, *options)[:2] == form
