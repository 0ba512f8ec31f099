"""Each form of calls: what is a call and what is text, wherever a text is cut; how it is found."""

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models
from transformers import PreTrainedTokenizerFast

from mini_vllm.config import EngineConfig
from mini_vllm.errors import ChatTemplateError, InvalidParameterError
from mini_vllm.frontend.assistant_parser import AssistantForm, find_form
from mini_vllm.frontend.chat_template import ChatTemplateRenderer
from mini_vllm.frontend.input_processor import InputProcessor, ModelLimits
from mini_vllm.frontend.output_processor import IncrementalDetokenizer, StopStrings
from mini_vllm.frontend.test_assistant_parser import read, steps_of
from mini_vllm.frontend.tokenizer import HFTokenizer
from mini_vllm.frontend.tool_calls import PARSERS, TAGS
from mini_vllm.frontend.tools import ToolUse
from mini_vllm.params import SamplingParams

SCHEMA = {
    "properties": {
        "a": {"type": "integer"},
        "s": {"type": ["string", "null"]},
        "o": {"anyOf": [{"type": "object"}, {"type": "null"}]},
        "u": {"anyOf": [{"type": ["number", "array"]}, {"type": "string"}]},
    }
}
FORMS = {
    calls: AssistantForm(calls, True, names=["f", "g", "get-it.now"], parameters={"f": SCHEMA})
    for calls in PARSERS
}
F, G = ("f", {"a": 1}), ("g", {})
JSON_F = '{"name": "f", "arguments": {"a": 1}}'


def xml(name: str = "f", **values: str) -> str:
    parameters = "".join(
        f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items()
    )
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


def deepseek(*calls: str) -> str:
    inner = "\n".join(f"<｜tool▁call▁begin｜>{call}<｜tool▁call▁end｜>" for call in calls)
    return f"<｜tool▁calls▁begin｜>{inner}<｜tool▁calls▁end｜>"


R1 = 'function<｜tool▁sep｜>f\n```json\n{"a": 1}\n```'
V31 = 'f<｜tool▁sep｜>{"a": 1}'

CASES: list[tuple[str, str, str, list[tuple[str, Any]]]] = [
    ("mistral", f"[TOOL_CALLS] [{JSON_F[:-1]}, \"id\": \"123456789\"}}]", "", [F]),
    ("mistral", f"[TOOL_CALLS][{JSON_F}, {JSON_F}]", "", [F, F]),
    ("mistral", 'a [TOOL_CALLS]f[ARGS]{"a": 1}[TOOL_CALLS]g[ARGS]{} b', "a  b", [F, G]),
    ("mistral", '[TOOL_CALLS]f[CALL_ID]123456789[ARGS]{"a": 1}', "", [F]),
    ("mistral", '[TOOL_CALLS]f{"a": 1}', "", [F]),
    ("mistral", '[TOOL_CALLS]f[ARGS]{"a": "}[TOOL_CALLS]"}', "", [("f", {"a": "}[TOOL_CALLS]"})]),
    ("mistral", '[TOOL_CALLS]f[ARGS]{"a": }', '[TOOL_CALLS]f[ARGS]{"a": }', []),
    ("mistral", "[TOOL_CALLS]f[ARGS] x", "[TOOL_CALLS]f[ARGS] x", []),
    ("mistral", 'h [TOOL_CALLS] [TOOL_CALLS]f{"a": 1}',
     'h [TOOL_CALLS] [TOOL_CALLS]f{"a": 1}', []),
    ("mistral", '[TOOL_CALLS]h[TOOL_CALLS]f{"a": 1}', "[TOOL_CALLS]h", [F]),
    ("mistral", f"a [{JSON_F}]", f"a [{JSON_F}]", []),
    ("mistral", "[TOOL_CALLS]" + "f" * 300, "[TOOL_CALLS]" + "f" * 300, []),
    ("deepseek_v3", deepseek(R1), "", [F]),
    ("deepseek_v3", f"Yes. {deepseek(R1, R1)}\n", "Yes.", [F, F]),
    ("deepseek_v3", deepseek(V31, "g<｜tool▁sep｜>{}"), "", [F, G]),
    ("deepseek_v3", deepseek(V31)[:-4], "", [F]),
    ("deepseek_v3", deepseek(V31)[:-30], "", [F]),
    ("deepseek_v3", deepseek(V31) + " done", "done", [F]),
    ("deepseek_v3", deepseek("f{}"), deepseek("f{}"), []),
    ("deepseek_v3", deepseek("f" * 300), deepseek("f" * 300), []),
    ("deepseek_v3", deepseek("f" + deepseek(V31)), "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f"
                    "<｜tool▁call▁end｜><｜tool▁calls▁end｜>", [F]),
    ("pythonic", "[f(a=1)]", "", [F]),
    ("pythonic", "Sure: [f(a=1), g()] b", "Sure:  b", [F, G]),
    ("pythonic", "[f(s='x]\\'\"', o={'k': [true, None]})]", "",
     [("f", {"s": "x]'\"", "o": {"k": [True, None]}})]),
    ("pythonic", "[f(s=New York, a=-1.5)]", "", [("f", {"s": "New York", "a": -1.5})]),
    ("pythonic", "[f(from='x = 0', class=[True, null])]", "",
     [("f", {"from": "x = 0", "class": [True, None]})]),
    ("pythonic", "[f(s='a\nb\r', a=007, x=[00, 0.05, 1.05, 1e05])]", "",
     [("f", {"s": "a\nb\r", "a": 7, "x": [0, 0.05, 1.05, 1e5]})]),
    ("pythonic", """[f(s="say "hi" now")] b""", "b", [("f", {"s": 'say "hi" now'})]),
    ("pythonic", """[f(s="a "hi", b", t="" , u='it's'), g()]""", "",
     [("f", {"s": 'a "hi", b', "t": "", "u": "it's"}), G]),
    ("pythonic", """[f(s="a (b] "c)" d", o={"k": ["x", 'y'], "z": ""})]""", "",
     [("f", {"s": 'a (b] "c)" d', "o": {"k": ["x", "y"], "z": ""}})]),
    ("pythonic", r"""[f(s="a \"b\" \\", t="c")]""", "", [("f", {"s": 'a "b" \\', "t": "c"})]),
    ("pythonic", "[get-it.now(max-n=5, ﬁ=-1, b = true)] ", "",
     [("get-it.now", {"max-n": 5, "ﬁ": -1, "b": True})]),
    *(("pythonic", text, text, []) for text in (
        "[h(a=1)]", "[f(1)]", "[f(**{})]", "[f(a=1]", "[f(a=1), h()]", "[f(a=open('x'))]",
        "[f(a=g(b=1))]", "[f(a=(1, 2))]", "[['f', {'a': 1}], f()]", "[f(a=1, g)]", "[f({'a': 1})]",
        "[f(a='b' c)]",
        "[f(a=1) for b in c]", "[1, 2] and [a](b)", "[f(a=1e999)]", "[f(s='\\ud800')]",
        "[f(a=b'x')]", "[f(a=", "[f", "[f(a=" + "(" * 99,
    )),
    ("qwen3_coder", xml(a="1"), "", [F]),
    ("qwen3_coder", f"a {xml(a='1')}\n{xml('g')} b", "a \n b", [F, G]),
    ("qwen3_coder", xml(s="1", o='{"b": null}', x="y"), "",
     [("f", {"s": "1", "o": {"b": None}, "x": "y"})]),
    ("qwen3_coder", xml(s="null", o="null", x="[1]", a="one"), "",
     [("f", {"s": None, "o": None, "x": [1], "a": "one"})]),
    *(("qwen3_coder", xml(u=text), "", [("f", {"u": value})]) for text, value in (
        ("5", 5), ("5.5", 5.5), ('["a"]', ["a"]), ("true", "true"), ("null", "null"), ("5a", "5a"),
        ('"5"', '"5"'), ('{"a": 1}', '{"a": 1}'), ("NaN", "NaN"), ("[1e999]", "[1e999]"),
    )),
    ("qwen3_coder", xml(s="\n if a < b:\n  <br>\n"), "", [("f", {"s": "\n if a < b:\n  <br>\n"})]),
    ("qwen3_coder", xml("g", y="True", z="true", x="NaNa"), "",
     [("g", {"y": True, "z": True, "x": "NaNa"})]),
    ("qwen3_coder", xml(a="1")[: -len("\n</tool_call>")], "", [F]),
    ("qwen3_coder", xml(a="1").replace("</parameter>", ""),
     xml(a="1").replace("</parameter>", ""), []),
    ("qwen3_coder", f"a {xml(a='1')} b".replace("<tool_call>\n", ""), "a  b", [F]),
    ("qwen3_coder", f"a {xml(a='1')} b".replace("</tool_call>", ""), "a b", [F]),
    ("qwen3_coder", xml(a="1").replace("</tool_call>", "") + xml("g")[11:], "", [F, G]),
    ("qwen3_coder", xml(a="1", x="y").replace("</parameter>", "", 1), "",
     [("f", {"a": 1, "x": "y"})]),
    ("qwen3_coder", "a <func <function <<function= b", "a <func <function <<function= b", []),
    ("qwen3_coder", xml("", a="1"), xml("", a="1"), []),
    ("qwen3_coder", "<tool_call>\n<function=f>\n", "<tool_call>\n<function=f>\n", []),
    ("qwen3_coder", f"<tool_call><tool_call>{xml(a='1')}", "<tool_call><tool_call>", [F]),
    ("qwen3_coder", f"<tool_call>{JSON_F}</tool_call>", f"<tool_call>{JSON_F}</tool_call>", []),
    ("xlam", f"[{JSON_F}]", "", [F]),
]  # fmt: skip


@pytest.mark.parametrize(("calls", "text", "content", "found"), CASES)
def test_calls_of_each_form(
    calls: str, text: str, content: str, found: list[tuple[str, Any]]
) -> None:
    form = FORMS[calls]
    for pieces in ([text], list(text)):
        got, reasoning, parsed = read(form, pieces)
        assert (got, reasoning) == (content, "")
        assert [(name, json.loads(arguments)) for name, arguments in parsed] == found
    one = read(form._replace(is_parallel=False), [text])
    assert one == (content, "", parsed[:1])


PIECES = [
    *("<think>", "</think>", "<tool_call>", "</tool_call>", "[TOOL_CALLS]", "[ARGS]", JSON_F),
    *("<|python_tag|>", deepseek(R1), deepseek(V31), xml(a="1"), "[f(a=1)]", "<function="),
    *("</function>", "<parameter=a>", "</parameter>", "f(", 'f{"a": 1}', "```"),
    *("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"),
    *'[]{}()"\'\\,=; \nfa1<>é',
]  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(sorted(set(FORMS) - {"json"})),
    st.lists(st.sampled_from(PIECES), max_size=10).map("".join),
    st.data(),
)
def test_no_cut_changes_anything_and_no_text_is_lost(
    calls: str, text: str, data: st.DataObject
) -> None:
    wanted = read(FORMS[calls], [text])
    assert read(FORMS[calls], list(text)) == wanted
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert read(FORMS[calls], pieces) == wanted
    if not wanted[2]:
        said = wanted[1] + wanted[0]
        for tag in ("<think>", "</think>"):
            said, text = said.replace(tag, ""), text.replace(tag, "")
        assert "".join(said.split()) == "".join(text.split())


@pytest.mark.parametrize(
    "calls",
    [
        *["deepseek_v3", "qwen3_coder", "xlam"],
        *[pytest.param(name, marks=pytest.mark.slow) for name in ("mistral", "pythonic")],
    ],
)
def test_steps_grow_with_the_text_and_no_faster(calls: str) -> None:
    units = {text for form, text, _, _ in CASES if form == calls and len(text) < 60}
    begun = {text[: len(text) // 2] for text in units}
    for unit in sorted(
        units | begun | {"[f(a=1", "[TOOL_CALLS]f", "<tool_call><function=f><parameter=a>"}
    ):
        few = unit * (300 // len(unit) + 1)
        for cut in (lambda text: [text], list):
            assert (
                steps_of(FORMS[calls], cut(few * 2)) <= 2.1 * steps_of(FORMS[calls], cut(few)) + 300
            ), unit


# --- which form a template has --------------------------------------------------------------------

SHOWN = "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}"
TURNS = SHOWN + (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
    "{% for c in m.tool_calls or [] %}{% set f = c.function %}CALL{% endfor %}<end>{% endfor %}"
)
NAME, JSON = "{{ f.name }}", "{{ f.arguments | tojson }}"
EACH = "{% for k, v in f.arguments | items %}"
WRITTEN = {
    "hermes": f'<tool_call>{{"name": "{NAME}", "arguments": {JSON}}}</tool_call>',
    "mistral": f"[TOOL_CALLS]{NAME}[ARGS]{JSON}",
    "deepseek_v3": deepseek(f"{NAME}<｜tool▁sep｜>{JSON}"),
    "pythonic": f"[{NAME}({EACH}{{{{ k }}}}={{{{ v | tojson }}}}, {{% endfor %}})]",
    "llama3_json": f'{{"name": "{NAME}", "parameters": {JSON}}}',
    "qwen3_coder": f"<tool_call><function={NAME}>{EACH}<parameter={{{{ k }}}}>{{{{ v }}}}"
    "</parameter>{% endfor %}</function></tool_call>",
    "unknown": f"<tool_call>{NAME}{EACH}<k>{{{{ k }}}}</k>{{% endfor %}}</tool_call>",
}


class Named:
    """A tokenizer, all that a renderer asks of one. A template's text is its name."""

    special_tokens_map: dict[str, str] = {}  # noqa: RUF012

    def __init__(self, template: str = "", *vocabulary: str) -> None:
        self.chat_template = template
        self.vocabulary = vocabulary

    def get_chat_template(self, name: str, tools: Any) -> str:
        return name

    def get_added_vocab(self) -> dict[str, int]:
        return dict.fromkeys(self.vocabulary, 1)


@pytest.fixture(scope="module")
def renderer() -> ChatTemplateRenderer:
    return ChatTemplateRenderer(Named())


def found_by(renderer: ChatTemplateRenderer, template: str, *vocabulary: str) -> str:
    render = partial(renderer.render, chat_template=template)
    return find_form(Named(template, *vocabulary), render=render).calls


@pytest.mark.parametrize("calls", WRITTEN)
def test_a_form_is_the_one_that_the_template_writes(
    renderer: ChatTemplateRenderer, calls: str
) -> None:
    """Whatever tags the template and the vocabulary have beside it."""
    template = TURNS.replace("CALL", WRITTEN[calls])
    assert found_by(renderer, template) == calls
    confusing = "{# <tool_call> [TOOL_CALLS] <|python_tag|> #}" + template
    assert found_by(renderer, confusing, "<tool_call>", "<|python_tag|>") == calls


@pytest.mark.parametrize(
    "written",
    [
        f'<tool_calls>[{{"name": "{NAME}", "arguments": {JSON}}}]</tool_calls>',
        f'<tool_call>{{"name": "{NAME}, "arguments": {JSON}}}</tool_call>',
        f'<tool_call>{{"name": "{NAME}", "arguments": {{{{ f.arguments }}}}}}</tool_call>',
        f"{NAME}: {JSON}",
        f'<tool_call>{{"tool": "{NAME}", "arguments": {JSON}}}</tool_call>',
    ],
)
def test_what_no_parser_reads_is_unknown(renderer: ChatTemplateRenderer, written: str) -> None:
    template = TURNS.replace("CALL", written)
    assert found_by(renderer, template, "<tool_call>", "<|python_tag|>") == "unknown"


def test_a_template_that_writes_no_calls_shows_its_form_by_tags(
    renderer: ChatTemplateRenderer,
) -> None:
    silent = TURNS.replace("CALL", "")
    failing = TURNS.replace("CALL", "{{ raise_exception('no') }}")
    for template in (silent, failing):
        assert found_by(renderer, template + "{# <tool_call> #}") == "hermes"
        assert found_by(renderer, template + "{# <arg_key> #}", "<tool_call>") == "unknown"
        assert found_by(renderer, template, "[TOOL_CALLS]") == "mistral"
        assert found_by(renderer, template) == "unknown"
    assert found_by(renderer, "{{ messages[0].content }}") == "none"


def test_arguments_are_text_where_a_template_joins_them_to_text(
    renderer: ChatTemplateRenderer,
) -> None:
    calls = "{% for c in m.tool_calls or [] %}{{ CALL }}{% endfor %}"
    template = "{% for m in messages %}{{ m.content or '' }}" + calls + "{% endfor %}"
    call = {"type": "function", "function": {"name": "f", "arguments": '{"a":  1}'}}
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [call]}]
    for written, text in (
        ("'=' + c.function.arguments", 'x={"a":  1}'),
        ("c.function.arguments | tojson", 'x{"a": 1}'),
        ("c.function.arguments.a", "x1"),
    ):
        shown = renderer.render(messages, chat_template=template.replace("CALL", written))
        assert shown == text
    with pytest.raises(ChatTemplateError, match="no list"):
        renderer.render(messages, chat_template="{{ raise_exception('no list') }}")


# --- what is refused, and what is seen ------------------------------------------------------------

UNKNOWN_TEMPLATE = TURNS.replace("CALL", WRITTEN["unknown"])
BLIND_TEMPLATE = "{# tools #}{% for m in messages %}{{ m.content }}{% endfor %}"
TOOLS: Any = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
USER = [{"role": "user", "content": "x"}]


@pytest.fixture
def reader() -> InputProcessor:
    return InputProcessor(EngineConfig("tiny"), ModelLimits(512, 2048, 2048))


def test_an_unknown_form_is_told_once_and_refused_where_a_call_may_come(
    reader: InputProcessor, caplog: pytest.LogCaptureFixture
) -> None:
    assert reader.tokenizer is not None
    reader.tokenizer.chat_template = UNKNOWN_TEMPLATE
    prompt = reader.apply_chat_template(USER, tools=TOOLS)
    named = {"type": "function", "function": {"name": "f"}}
    for choice in (None, "auto"):
        with pytest.raises(InvalidParameterError, match="no parser reads the calls that the chat"):
            reader.form_of(prompt, ToolUse(TOOLS, choice), SamplingParams())
    uses = [ToolUse(TOOLS, "required"), ToolUse(TOOLS, named), ToolUse(TOOLS, "none"), ToolUse()]
    forms = [reader.form_of(prompt, use, SamplingParams()).calls for use in uses]
    assert forms == ["json", "json", "none", "none"]
    assert sum("no parser reads" in record.message for record in caplog.records) == 1


@pytest.mark.parametrize("option", ["none", "pythonic"])
def test_an_option_goes_before_what_the_template_writes(option: str) -> None:
    reader = InputProcessor(
        EngineConfig("tiny", tool_call_parser=option), ModelLimits(512, 2048, 2048)
    )
    assert reader.tokenizer is not None
    reader.tokenizer.chat_template = UNKNOWN_TEMPLATE
    assert reader.form_of([1], ToolUse(TOOLS), SamplingParams()).calls == option


def test_tools_that_do_not_reach_the_prompt_are_refused(reader: InputProcessor) -> None:
    assert reader.tokenizer is not None
    reader.tokenizer.chat_template = BLIND_TEMPLATE
    assert reader.apply_chat_template(USER)
    with pytest.raises(InvalidParameterError, match="tools cannot be used: the chat template of"):
        reader.apply_chat_template(USER, tools=TOOLS)
    needs = SHOWN.replace("or []", "") + BLIND_TEMPLATE  # it fails without tools
    assert reader.apply_chat_template(USER, tools=TOOLS, chat_template=needs)


def test_a_tag_that_is_a_special_token_is_seen(
    reader: InputProcessor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TAGS, "hermes", "<|im_start|>")  # type: ignore[arg-type]
    assert reader.text_reader is not None
    prompt = reader.tokenize("x")
    form = reader.form_of(prompt, ToolUse(TOOLS), SamplingParams())
    assert not form.constrain(SamplingParams()).skip_special_tokens
    form = reader.form_of(prompt, ToolUse(), SamplingParams())
    assert form.constrain(SamplingParams()).skip_special_tokens
    ids = reader.tokenize("a<|im_start|>b")
    for skips, text in ((True, "ab"), (False, "a<|im_start|>b")):
        stop = StopStrings((), ())
        made = IncrementalDetokenizer(reader.text_reader, stop, skip_special_tokens=skips)
        assert [made.append(token_id) for token_id in ids] == [None] * len(ids)
        assert "".join(made.pieces) == text


def test_what_decode_hides_is_a_special_token() -> None:
    """Also where tokenizer.json alone says so."""
    made = Tokenizer(models.BPE(vocab={"a": 0, "b": 1}, merges=[]))
    made.add_tokens([AddedToken("[X]", special=True), AddedToken("<y>", special=False)])
    reader = HFTokenizer(PreTrainedTokenizerFast(tokenizer_object=made))
    for token_id in range(4):
        text = reader.decode([token_id], skip_special_tokens=True)
        assert reader.is_special(token_id) == (text == "")
