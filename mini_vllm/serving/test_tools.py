"""Tools from OpenAI's own client against a live server: calls that are forced or parsed, results,
and refusals.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import openai
import pydantic
import pytest
from jsonschema import Draft202012Validator

from mini_vllm import LLM, SamplingParams
from mini_vllm.errors import InvalidParameterError
from mini_vllm.frontend.assistant_parser import AssistantForm
from mini_vllm.frontend.tools import ToolUse
from mini_vllm.serving.conftest import LiveServer
from mini_vllm.serving.openai.protocol import ChatCompletionRequest
from mini_vllm.serving.test_openapi import validator

pytest.importorskip("xgrammar")
pytest.importorskip("llguidance")

QUESTION: Any = [{"role": "user", "content": "What is a KV block?"}]


def a_tool(name: str, parameters: Any = None) -> Any:
    return {
        "type": "function",
        "function": {"name": name} | ({} if parameters is None else {"parameters": parameters}),
    }


POINT = {
    "properties": {"x": {"enum": [1, 2]}, "y": {"type": "boolean"}},
    "required": ["x", "y"],
    "type": "object",
}
LINE = {
    "type": "object",
    "properties": {"from": {"$ref": "#/$defs/P"}},
    "required": ["from"],
    "$defs": {"P": POINT},
}
TOOLS = [a_tool("draw", LINE), a_tool("wipe"), a_tool("plot", POINT)]
SCHEMAS: dict[str, Any] = {
    "draw": LINE,
    "wipe": {"type": "object", "maxProperties": 0},
    "plot": POINT,
}


@pytest.fixture(scope="module")
def client(live: LiveServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{live.url}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def terse(live: LiveServer) -> dict[str, int]:
    """The bundled model writes JSON with much space; without it its calls are short."""
    reader = live.engine.input_processor.text_reader
    assert reader is not None
    texts = [
        reader.token_bytes(token_id)
        for token_id in range(live.engine.input_processor.limits.vocab_size)
    ]
    return {str(token_id): -100 for token_id, text in enumerate(texts) if text and not text.strip()}


def ask(client: openai.OpenAI, **options: Any) -> Any:
    given = {
        "model": "tiny",
        "messages": QUESTION,
        "tools": TOOLS,
        "temperature": 0,
        "max_tokens": 200,
    }
    return client.chat.completions.create(**(given | options))


def scripted(text: str) -> dict[str, Any]:
    """What lets the model say this, and nothing else."""
    return {
        "structured_outputs": {"regex": re.escape(text).replace("\\ ", " ").replace("\\\n", "\n")}
    }


def call_of(name: str, arguments: str) -> str:
    return f'<tool_call>{{"name": "{name}", "arguments": {arguments}}}</tool_call>'


def streamed(client: openai.OpenAI, **options: Any) -> tuple[str, list[dict[str, str]], str | None]:
    """Content, calls and finish reason, joined as a client does it; checks what each chunk says."""
    content, calls, reason = "", [], None
    for chunk in ask(client, **options, stream=True):
        validator("ChatCompletionChunk").validate(chunk.model_dump(exclude_unset=True))
        (choice,) = chunk.choices
        assert reason is None
        content += choice.delta.content or ""
        for part in choice.delta.tool_calls or ():
            assert (
                (part.id is None)
                == (part.type is None)
                == (part.function.name is None)
                == (part.index < len(calls))
            )
            if part.id is not None:
                calls.append({"name": part.function.name, "arguments": ""})
            calls[part.index]["arguments"] += part.function.arguments
        reason = choice.finish_reason
    return content, calls, reason


def whole(client: openai.OpenAI, **options: Any) -> tuple[str, list[dict[str, str]], str | None]:
    """The same of an answer in a piece."""
    answer = ask(client, **options)
    validator("ChatCompletion").validate(answer.model_dump(exclude_unset=True))
    (choice,) = answer.choices
    calls = choice.message.tool_calls or []
    assert len({call.id for call in calls}) == len(calls)
    assert (choice.message.content is None) <= bool(calls)
    content = choice.message.content or ""
    return (
        content,
        [{"name": call.function.name, "arguments": call.function.arguments} for call in calls],
        choice.finish_reason,
    )


def named(name: str) -> Any:
    return {"type": "function", "function": {"name": name}}


@pytest.mark.parametrize(
    "choice",
    [
        named("draw"),
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in (named("wipe"), named("plot"), "required")
        ),
    ],
    ids=str,
)
def test_a_forced_call_is_valid_streamed_and_whole(
    client: openai.OpenAI, terse: dict[str, int], choice: Any
) -> None:
    options = {
        "tool_choice": choice,
        "parallel_tool_calls": False,
        "logit_bias": terse,
        "temperature": 1,
        "seed": 3,
    }
    content, calls, reason = whole(client, **options)
    # of a named function OpenAI says that the text has stopped
    expected = "tool_calls" if choice == "required" else "stop"
    assert (content, len(calls), reason) == ("", 1, expected)
    assert choice == "required" or calls[0]["name"] == choice["function"]["name"]
    Draft202012Validator(SCHEMAS[calls[0]["name"]]).validate(json.loads(calls[0]["arguments"]))
    assert streamed(client, **options) == (content, calls, reason)
    both = options | {"response_format": {"type": "json_object"}}  # which vLLM leaves out, too
    assert whole(client, **both) == (content, calls, reason)


@pytest.mark.slow
def test_a_forced_call_closes_where_a_small_model_would_go_on(client: openai.OpenAI) -> None:
    place = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
    options = {"tools": [a_tool("weather", place)], "tool_choice": "required", "max_tokens": 90}
    content, calls, reason = whole(client, **options)
    assert (content, reason) == ("", "tool_calls")
    assert [{*json.loads(call["arguments"])} for call in calls] == [{"place"}] * len(calls)
    assert streamed(client, **options) == (content, calls, reason)


def test_a_response_format_closes_unless_the_client_sets_a_limit() -> None:
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
    for options, closes in (({}, True), ({"max_tokens": 9}, False)):
        for wanted in (form, {"type": "json_object"}):
            body = {"model": "tiny", "messages": QUESTION, "response_format": wanted, **options}
            asked = ChatCompletionRequest.model_validate(body)
            assert asked.sampling_options()["structured"].closes is closes


def test_what_looks_like_a_reference_is_kept_in_a_value(
    client: openai.OpenAI, terse: dict[str, int]
) -> None:
    value = {"const": {"$ref": "#/x"}}
    tools = [
        a_tool(
            "f",
            {
                "type": "object",
                "properties": {"a": value},
                "required": ["a"],
                "additionalProperties": False,
            },
        )
    ]
    _, calls, _ = whole(client, tools=tools, tool_choice=named("f"), logit_bias=terse)
    assert json.loads(calls[0]["arguments"]) == {"a": {"$ref": "#/x"}}


@pytest.mark.slow
def test_several_calls_may_be_required_and_a_cut_one_is_no_content(
    client: openai.OpenAI, terse: dict[str, int]
) -> None:
    biases = terse | {"60": -100}
    found = [
        whole(
            client,
            tool_choice="required",
            tools=TOOLS[1:2],
            logit_bias=biases,
            temperature=1,
            seed=seed,
        )
        for seed in range(4)
    ]
    assert {len(calls) for _, calls, _ in found} > {1}
    for content, calls, reason in found:
        assert (content, reason) in {("", "tool_calls"), ("", "length")}
        assert {call["arguments"] for call in calls[:-1]} <= {"{}"}
    content, calls, reason = whole(
        client, tool_choice=named("draw"), logit_bias=terse, max_tokens=25
    )
    assert (content, len(calls), reason) == ("", 1, "length")
    assert streamed(client, tool_choice=named("draw"), logit_bias=terse, max_tokens=25) == (
        content,
        calls,
        reason,
    )


@pytest.mark.slow
@pytest.mark.parametrize("choice", ["required", named("draw")], ids=str)
def test_half_a_call_is_no_reason_to_call(
    client: openai.OpenAI, terse: dict[str, int], choice: Any
) -> None:
    options = {"tool_choice": choice, "tools": TOOLS[:1], "logit_bias": terse, "stop": '"x"'}
    content, calls, reason = whole(client, **options)
    assert (content, len(calls), reason) == ("", 1, "stop")
    with pytest.raises(json.JSONDecodeError):
        json.loads(calls[0]["arguments"])
    assert streamed(client, **options) == (content, calls, reason)


@pytest.mark.slow
def test_logprobs_are_of_the_text_that_was_written(client: openai.OpenAI) -> None:
    """Whatever became of it: content, calls, or a part that a stop string has cut."""
    said = "Sure. " + call_of("plot", '{"x": 1, "y": true}')
    for options in ({}, {"tools": None}, {"stop": "plot"}, {"tools": None, "stop": "plot"}):
        given = options | {"extra_body": scripted(said), "logprobs": True, "top_logprobs": 2}
        choice = ask(client, **given).choices[0]
        parts = [chunk.choices[0] for chunk in ask(client, **given, stream=True)]
        entries = [each for part in parts if part.logprobs for each in part.logprobs.content]
        for rows in (choice.logprobs.content, entries):
            written = b"".join(bytes(each.bytes) for each in rows).decode()
            assert said.startswith(written)
            assert written == said or written.partition("plot")[1]
            assert all(len(each.top_logprobs) == 2 for each in rows)


SAID = [
    ("Sure. " + call_of("plot", '{"x": 1, "y": true}'), "Sure.", [("plot", '{"x": 1, "y": true}')]),
    (call_of("wipe", "{}") + "\n" + call_of("wipe", "null"), "", [("wipe", "{}")] * 2),
    ('<tool_call>{"name": "wipe"}</tool_call>', "", [("wipe", "{}")]),
    ('<tool_call>{"name": "wipe", </tool_call> ', '<tool_call>{"name": "wipe", </tool_call> ', []),
    ('<tool_call>{"name": "plot", "arguments": {"x": 1}</tool_call>', None, []),
    ("No <tool> at all <tool_cal", None, []),
]


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [SAID[0], *(pytest.param(*each, marks=pytest.mark.nightly) for each in SAID[1:])],
)
def test_auto_parses_what_was_said(
    client: openai.OpenAI, text: str, content: str | None, calls: list[tuple[str, str]]
) -> None:
    expected = [{"name": name, "arguments": arguments} for name, arguments in calls]
    found = text if content is None else content, expected, "tool_calls" if calls else "stop"
    if calls[1:]:
        one = whole(client, extra_body=scripted(text), parallel_tool_calls=False)[:2]
        assert one == ("", expected[:1])
    for choice in ({}, {"tool_choice": "auto"}):
        assert whole(client, extra_body=scripted(text), **choice) == found
    assert streamed(client, extra_body=scripted(text)) == found
    assert whole(client, extra_body=scripted(text), tool_choice="none") == (text, [], "stop")
    assert whole(client, extra_body=scripted(text), tools=None) == (text, [], "stop")
    chunks = ask(client, extra_body=scripted(text), tools=None, stream=True)
    assert "".join(chunk.choices[0].delta.content for chunk in chunks) == text, (
        "content is always a text"
    )


@pytest.mark.slow
def test_each_of_several_choices_has_its_own_calls(client: openai.OpenAI) -> None:
    body = scripted(call_of("wipe", "{}"))
    answer = ask(client, n=2, extra_body=body)
    assert [choice.message.tool_calls[0].function.name for choice in answer.choices] == ["wipe"] * 2
    parts: dict[int, list[Any]] = {0: [], 1: []}
    for chunk in ask(client, n=2, extra_body=body, stream=True):
        parts[chunk.choices[0].index] += chunk.choices[0].delta.tool_calls or ()
    assert [[part.function.arguments for part in each] for each in parts.values()] == [
        ["{}"],
        ["{}"],
    ]


@pytest.mark.nightly
def test_results_go_back_to_the_model(live: LiveServer, client: openai.OpenAI) -> None:
    """As programs write it: the message with the call, the result of the call, and the next
    answer.
    """
    text = call_of("plot", '{"x": 1, "y": true}')
    message = ask(client, extra_body=scripted(text)).choices[0].message
    result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "drawn"}
    as_dict = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{**message.tool_calls[0].model_dump(), "index": 0}],
    }
    for said in (message, as_dict):
        answer = ask(client, messages=[*QUESTION, said, result])
        assert answer.choices[0].message.content
    reader = live.engine.input_processor
    prompt = reader.apply_chat_template([*QUESTION, as_dict, result], tools=TOOLS)
    assert answer.usage.prompt_tokens == len(prompt)
    shown = reader.detokenize(prompt)
    turns = (
        f"<|im_start|>assistant\n{text}<|im_end|>\n"
        "<|im_start|>tool\n<tool_response>drawn</tool_response><|im_end|>\n"
    )
    assert turns in shown
    assert all(json.dumps(tool) in shown for tool in TOOLS)


class Plot(pydantic.BaseModel):
    """Draws a point."""

    x: int = pydantic.Field(ge=0, le=9)
    y: bool


def test_openais_parse_gives_the_arguments(client: openai.OpenAI, terse: dict[str, int]) -> None:
    answer = client.chat.completions.parse(
        model="tiny",
        messages=QUESTION,
        tools=[openai.pydantic_function_tool(Plot)],
        tool_choice="required",
        parallel_tool_calls=False,
        logit_bias=terse,
        max_tokens=100,
    )
    calls = answer.choices[0].message.tool_calls
    assert calls is not None
    assert isinstance(calls[0].function.parsed_arguments, Plot)


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"tools": []}, "tools", "a list of 1 to 128"),
    ({"tools": [{"type": "function"}]}, "tools[0].function", "must be an object"),
    (
        {"tools": [a_tool("a"), {"type": "function", "function": {}}]},
        "tools[1].function.name",
        "must be a text",
    ),
    ({"tools": [a_tool("")]}, "tools[0].function.name", "1 to 64 characters"),
    ({"tools": [{**a_tool("a"), "type": "code"}]}, "tools[0].type", "'function'"),
    ({"tools": [a_tool("a"), a_tool("a")]}, "tools[1].function.name", "no function before it has"),
    ({"tools": [a_tool("a", {"type": "string"})]}, "tools[0].function.parameters", "type"),
    (
        {"tools": [a_tool("a", {"properties": {"x": {"type": "text"}}})]},
        "tools[0].function.parameters",
        "type",
    ),
    ({"tools": [a_tool("a", {"properties": [1]})]}, "tools[0].function.parameters", "properties"),
    ({"tools": [a_tool("a", 5)]}, "tools[0].function.parameters", "must be an object"),
    ({"tool_choice": "any"}, "tool_choice", "'required'"),
    ({"tool_choice": named("paint")}, "tool_choice.function.name", "['draw', 'wipe', 'plot']"),
    ({"tool_choice": {"type": "function"}}, "tool_choice.function", "must be an object"),
    ({"tool_choice": 5}, "tool_choice", ""),
    ({"tools": None, "tool_choice": "required"}, "tool_choice", "not the last without tools"),
    ({"tools": [{"type": "custom", "custom": {"name": "a"}}]}, "tools[0].type", "got 'custom'"),
    ({"parallel_tool_calls": 1}, "parallel_tool_calls", "boolean"),
    (
        {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto"}}},
        "tool_choice.type",
        "'function', got 'allowed_tools'",
    ),
    ({"tool_choice": "required", "tools": [a_tool("a", {"not": {}})]}, "tools", "not"),
    *(
        ({"tool_choice": choice, "tools": [a_tool("a", {"$ref": "#"})]}, "tools", "needs itself")
        for choice in ("required", named("a"))
    ),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0]", "tool_call_id"),
    (
        {"messages": [{"role": "user", "content": "x", "tool_call_id": "y"}]},
        "messages[0]",
        "tool_call_id",
    ),
    (
        {"messages": [{"role": "assistant", "tool_calls": [{"id": "a"}]}]},
        "messages[0].tool_calls[0].function",
        "missing",
    ),
]


@pytest.mark.parametrize(("options", "param", "text"), BAD)
def test_what_cannot_be_is_refused_by_its_place(
    client: openai.OpenAI, options: dict[str, Any], param: str, text: str
) -> None:
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as refusal:
            list(ask(client, extra_body=options, stream=stream))
        assert (refusal.value.param, text in refusal.value.message) == (param, True), refusal.value


def test_a_template_without_tools_says_so(
    live: LiveServer, client: openai.OpenAI, monkeypatch: Any
) -> None:
    monkeypatch.setattr(
        live.engine.input_processor.tokenizer, "chat_template", "{{ messages[0].content }}"
    )
    result = {"role": "tool", "tool_call_id": "a", "content": "x"}
    for options, param in (
        ({}, "tools"),
        ({"tools": None, "messages": [*QUESTION, result]}, "messages"),
    ):
        with pytest.raises(
            openai.BadRequestError, match="the chat template of tiny has no tools"
        ) as refusal:
            ask(client, **options)
        assert refusal.value.param == param


def test_reasoning_is_no_content(live: LiveServer, client: openai.OpenAI, monkeypatch: Any) -> None:
    monkeypatch.setattr(
        live.engine.input_processor, "assistant_form", AssistantForm("none", thinks=True)
    )
    text = "<think>\nWell.</think>\n\n" + call_of("wipe", "{}")
    message = ask(client, extra_body=scripted(text)).choices[0].message
    assert (message.reasoning_content, message.content) == ("\nWell.", call_of("wipe", "{}"))
    assert message.tool_calls is None
    deltas = [
        chunk.choices[0].delta for chunk in ask(client, extra_body=scripted(text), stream=True)
    ]
    assert "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas) == "\nWell."
    assert "".join(delta.content or "" for delta in deltas) == call_of("wipe", "{}")
    assert (
        ask(client, messages=[*QUESTION, message, *QUESTION], max_tokens=5)
        .choices[0]
        .message.content
    )


def test_a_prompt_may_have_opened_the_reasoning(live: LiveServer) -> None:
    reader = live.engine.input_processor
    before, reader.assistant_form = reader.assistant_form, AssistantForm("hermes", thinks=True)
    for text, params, is_thinking in (
        ("x<think>\n", SamplingParams(), True),
        ("x<think>\n\n</think>\n", SamplingParams(), False),
        ("x<think>", SamplingParams(structured={"json_object": True}), False),
    ):
        assert reader.form_of(reader.tokenize(text), ToolUse(), params).is_thinking is is_thinking
    reader.assistant_form = before


# --- offline --------------------------------------------------------------------------------------


def wipe(twice: bool) -> None:
    """
    Wipes the board.

    Args:
        twice: Whether to do it again.
    """


@pytest.mark.nightly
def test_a_chat_offline_has_tools_too() -> None:
    llm = LLM("tiny", device="cpu", num_kv_blocks=200)
    text = call_of("wipe", '{"twice": true}')
    said = SamplingParams(max_tokens=100, structured=scripted(text)["structured_outputs"])
    (output,) = llm.chat(QUESTION, said, tools=[wipe])
    message = output.outputs[0].message
    assert message is not None
    assert (message["content"], output.outputs[0].text) == (None, text)
    (call,) = message["tool_calls"]
    assert call["function"] == {"name": "wipe", "arguments": '{"twice": true}'}
    result = {"role": "tool", "tool_call_id": call["id"], "content": "done"}
    plain = SamplingParams(max_tokens=60, temperature=0)
    (answer,) = llm.chat([*QUESTION, message, result], plain, tools=[wipe])
    assert answer.outputs[0].message == {"role": "assistant", "content": answer.outputs[0].text}
    forced = SamplingParams(max_tokens=500, temperature=0)
    (output,) = llm.chat(
        QUESTION, forced, tools=TOOLS[1:2], tool_choice="required", parallel_tool_calls=False
    )
    assert [
        call["function"]["name"] for call in (output.outputs[0].message or {})["tool_calls"]
    ] == ["wipe"]
    assert json.loads(output.outputs[0].text) == [{"name": "wipe", "arguments": {}}]
    with pytest.raises(
        InvalidParameterError,
        match=r"tools\[1\].function.name must be .* no function before it has",
    ):
        llm.chat(QUESTION, said, tools=[TOOLS[0], TOOLS[0]])
