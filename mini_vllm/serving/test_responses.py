"""/v1/responses from OpenAI's own client: text, calls and reasoning, streamed and whole, and what
is refused.
"""

import gc
import json
import re
import threading
from collections.abc import Iterator
from typing import Any

import openai
import pytest

pytest.importorskip("torch")
pytest.importorskip("xgrammar")
pytest.importorskip("llguidance")

from mini_vllm.frontend.assistant_parser import AssistantForm
from mini_vllm.serving.admission.tenants import MAX_BODY_BYTES
from mini_vllm.serving.conftest import LiveServer
from mini_vllm.serving.openai.protocol import GenerateRequest
from mini_vllm.serving.test_openapi import validator

QUESTION = "What is a KV block?"
POINT = {
    "type": "object",
    "properties": {"x": {"enum": [1, 2]}},
    "required": ["x"],
    "additionalProperties": False,
}
TOOL: Any = {"type": "function", "name": "plot", "parameters": POINT, "strict": True}
CALL = '<tool_call>{"name": "plot", "arguments": {"x": 2}}</tool_call>'
OF_CALL = ["output_item.added", "delta", "done", "output_item.done"]
OF_TEXT = [
    *("output_item.added", "content_part.added", "delta"),
    *("done", "content_part.done", "output_item.done"),
]


def test_a_stream_lets_go_of_its_input_and_its_echo_is_counted(serve: Any) -> None:
    server: LiveServer = serve()
    held = server.engine.admission._num_body_bytes
    seen: list[Any] = []
    execute, may_go_on = server.core.executor.execute, threading.Event()

    def pause_after_the_first(step: Any) -> Any:
        assert step.new_rows or may_go_on.wait(60)
        return execute(step)

    server.core.executor.execute = pause_after_the_first

    def requests() -> list[GenerateRequest]:
        return [each for each in gc.get_objects() if isinstance(each, GenerateRequest)]

    before = {id(each): each for each in requests()}  # of other tests

    def look() -> None:
        asked = [each for each in requests() if id(each) not in before]
        seen.append([(getattr(each, "input", ""), getattr(each, "messages", [])) for each in asked])
        seen.append(dict(held))

    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        given: Any = {"model": "tiny", "input": QUESTION, "metadata": {"a": "b" * 100_000}}
        for _ in client.responses.create(**given, max_output_tokens=4, stream=True):
            if not seen:
                server.in_loop(look)
                may_go_on.set()
        asked, counted = seen
        assert asked == [("", [])], "the chat that it became"
        assert 100_000 < counted["/127.0.0.1"] < 200_000
        server.in_loop(lambda: held.update({"/127.0.0.1": MAX_BODY_BYTES - 50_000}))
        with pytest.raises(openai.RateLimitError, match="more do not fit"):
            client.responses.create(**given)
        assert client.responses.create(**given | {"metadata": {}, "max_output_tokens": 1}).id
        server.in_loop(held.clear)
    server.assert_idle()


@pytest.fixture(scope="module")
def client(live: LiveServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{live.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def scripted(text: str) -> dict[str, Any]:
    """What lets the model say this, and nothing else."""
    return {"extra_body": {"structured_outputs": {"regex": re.escape(text).replace("\\ ", " ")}}}


def plain(items: Any) -> list[dict[str, Any]]:
    """Items without names that are drawn for each answer."""
    found = [item.model_dump(exclude_unset=True, exclude={"id", "call_id"}) for item in items]
    assert len({item.id for item in items}) == len(found)
    return found


def ask(client: openai.OpenAI, **options: Any) -> tuple[Any, list[Any]]:
    """The response and the events of a stream with the same response."""
    given: dict[str, Any] = {"model": "tiny", "input": QUESTION, "temperature": 0} | options
    whole = client.responses.create(**given)
    events = list(client.responses.create(**given, stream=True))
    assert [event.sequence_number for event in events] == [*range(len(events))]
    assert [event.type for event in events[:2]] == ["response.created", "response.in_progress"]
    last: Any = events[-1]
    assert last.type == f"response.{last.response.status}" == f"response.{whole.status}"
    for response in (whole, *(event.response for event in (*events[:2], last))):
        validator("ModelResponse").validate(response.model_dump(exclude_unset=True))
    assert plain(last.response.output) == plain(whole.output)
    assert last.response.output_text == whole.output_text
    # what the client has put together of the events between them
    for number, item in enumerate(last.response.output):
        mine = [event for event in events if getattr(event, "output_index", None) == number]
        assert (mine[0].item.status, mine[-1].item) == ("in_progress", item)
        text = "".join(event.delta for event in mine if event.type.endswith(".delta"))
        if item.type == "function_call":
            assert text == item.arguments
        else:
            assert text == item.content[0].text
        kinds = dict.fromkeys(
            re.sub(r"response\.(\w+_text|function\w+)\.", "", e.type) for e in mine
        )
        wanted = OF_CALL if item.type == "function_call" else OF_TEXT
        assert [*kinds] == [f"response.{each}" if "_" in each else each for each in wanted]
    return whole, events


def test_a_text_is_the_chat_s_whole_and_streamed(client: openai.OpenAI) -> None:
    response, events = ask(client, instructions="Answer.", max_output_tokens=300)
    messages: Any = [
        {"role": "system", "content": "Answer."},
        {"role": "user", "content": QUESTION},
    ]
    chat = client.chat.completions.create(model="tiny", messages=messages, temperature=0)
    assert response.output_text == chat.choices[0].message.content
    assert (response.status, response.incomplete_details) == ("completed", None)
    (item,) = response.output
    assert (item.type, item.role, item.status) == ("message", "assistant", "completed")
    assert chat.usage is not None
    usage = response.usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (
        chat.usage.prompt_tokens,
        chat.usage.completion_tokens,
        chat.usage.total_tokens,
    )
    assert usage.output_tokens_details.reasoning_tokens == 0
    assert events[-1].response.usage.input_tokens_details.cached_tokens > 0
    assert (response.instructions, response.max_output_tokens, response.temperature) == (
        "Answer.",
        300,
        0,
    )


def test_the_client_s_own_stream_and_parser_read_it(client: openai.OpenAI) -> None:
    with client.responses.stream(model="tiny", input=QUESTION, temperature=0) as stream:
        text = "".join(each.delta for each in stream if each.type == "response.output_text.delta")
        assert stream.get_final_response().output_text == text != ""


@pytest.mark.parametrize(
    "given",
    [
        [{"role": "user", "content": QUESTION}],
        [
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": QUESTION}],
            }
        ],
    ],
)
def test_every_form_of_an_input_is_the_same_prompt(client: openai.OpenAI, given: Any) -> None:
    asked: Any = {"model": "tiny", "temperature": 0, "max_output_tokens": 6}
    wanted = client.responses.create(input=QUESTION, **asked)
    assert client.responses.create(input=given, **asked).output_text == wanted.output_text


def test_an_answer_that_is_cut_is_incomplete(client: openai.OpenAI) -> None:
    response, _ = ask(client, max_output_tokens=4)
    assert response.status == response.output[0].status == "incomplete"
    assert response.incomplete_details.reason == "max_output_tokens"
    assert response.usage.output_tokens == 4


@pytest.mark.parametrize("choice", ["auto", "required", {"type": "function", "name": "plot"}])
def test_calls_are_items_and_go_back_with_what_they_brought(
    client: openai.OpenAI, choice: Any
) -> None:
    options: Any = {"tools": [TOOL], "tool_choice": choice, "parallel_tool_calls": False}
    options["max_output_tokens"] = 120
    more = scripted(f"So.{CALL}") if choice == "auto" else {}
    response, _ = ask(client, **options, **more)
    *before, call = response.output
    assert [item.type for item in before] == (["message"] if choice == "auto" else [])
    assert (call.type, call.name, call.status) == ("function_call", "plot", "completed")
    assert json.loads(call.arguments)["x"] in (1, 2)
    result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "done"}
    given: Any = [{"role": "user", "content": QUESTION}, *response.output, result]
    answer, _ = ask(client, input=given, tools=[TOOL], max_output_tokens=4)
    assert answer.output_text


def test_items_of_an_assistant_are_one_message_of_the_chat(
    client: openai.OpenAI, monkeypatch: pytest.MonkeyPatch, live: LiveServer
) -> None:
    """So a template shows calls of one turn as one turn."""
    seen: list[Any] = []
    reader = live.engine.input_processor
    render = reader.apply_chat_template

    def note(messages: Any, **options: Any) -> Any:
        seen.extend(messages)
        return render(messages, **options)

    monkeypatch.setattr(reader, "apply_chat_template", note)
    calls: Any = [
        {"type": "function_call", "call_id": name, "name": "plot", "arguments": '{"x": 1}'}
        for name in ("a", "b")
    ]
    thought: Any = {"type": "reasoning", "id": "rs_1", "summary": []}
    text = [{"type": "output_text", "text": "So.", "annotations": []}]
    said: Any = {"type": "message", "id": "m", "status": "completed", "role": "assistant"}
    brought: Any = [
        {"type": "function_call_output", "call_id": name, "output": "done"} for name in ("a", "b")
    ]
    thought["content"] = [{"type": "reasoning_text", "text": "Hm."}]
    given = [thought, said | {"content": text}, *calls, *brought, {"role": "user", "content": "?"}]
    client.responses.create(model="tiny", input=given, max_output_tokens=1, instructions="I")
    assert [message["role"] for message in seen] == ["system", "assistant", "tool", "tool", "user"]
    turn = seen[1]
    assert (turn["reasoning_content"], turn["content"]) == ("Hm.", "So.")
    assert [call["id"] for call in turn["tool_calls"]] == ["a", "b"]
    assert not [each for each in seen if each["role"] != "assistant" and "tool_calls" in each]
    assert [message["tool_call_id"] for message in seen[2:4]] == ["a", "b"]


def test_reasoning_is_an_item_before_the_text(
    client: openai.OpenAI, live: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = live.engine.input_processor
    monkeypatch.setattr(reader, "assistant_form", AssistantForm("none", thinks=True))
    response, _ = ask(client, **scripted("<think>A KV block.</think>It is."))
    thought, message = response.output
    assert (thought.type, thought.content[0].text) == ("reasoning", "A KV block.")
    assert (message.type, response.output_text) == ("message", "It is.")
    details = response.usage.output_tokens_details
    assert details.reasoning_tokens == len(reader.tokenize("A KV block."))


def test_text_format_is_the_form_of_the_text(client: openai.OpenAI) -> None:
    form: Any = {"type": "json_schema", "name": "point", "schema": POINT, "strict": True}
    response, _ = ask(client, text={"format": form, "verbosity": "low"})
    assert json.loads(response.output_text)["x"] in (1, 2)
    assert response.text.format.type == "json_schema"
    response, _ = ask(client, text={"format": {"type": "json_object"}}, max_output_tokens=3)
    assert response.output_text.lstrip().startswith("{")


TAKEN: dict[str, Any] = {
    "store": True,
    "metadata": {"a": "b"},
    "truncation": "disabled",
    "background": False,
    "service_tier": "auto",
    "include": ["reasoning.encrypted_content"],
    "reasoning": {"effort": "low", "summary": "auto"},
    "prompt_cache_key": "k",
    "safety_identifier": "s",
    "user": "u",
    "tools": [],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "top_logprobs": 0,
    "max_tool_calls": 3,
    "previous_response_id": None,
    "conversation": None,
}


def test_what_changes_nothing_is_taken_and_nothing_is_kept(client: openai.OpenAI) -> None:
    asked: Any = {"model": "tiny", "input": QUESTION, "temperature": 0, "max_output_tokens": 4}
    response = client.responses.create(**asked, **TAKEN)
    assert response.output_text == client.responses.create(**asked).output_text
    assert (response.metadata, response.model_dump()["store"]) == ({"a": "b"}, False)


def item(**fields: Any) -> dict[str, Any]:
    return {"input": [fields]}


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"previous_response_id": "resp_1"}, "previous_response_id", "keeps no responses"),
    ({"conversation": "conv_1"}, "conversation", "keeps no responses"),
    ({"background": True}, "background", "keeps no responses"),
    ({"prompt": {"id": "p"}}, "prompt", "use input"),
    ({"truncation": "auto"}, "truncation", "no prompt is cut"),
    ({"top_logprobs": 2}, "top_logprobs", "/v1/chat/completions"),
    ({"include": ["message.output_text.logprobs"]}, "include", "/v1/chat/completions"),
    ({"max_tokens": 4}, "max_tokens", "use max_output_tokens"),
    ({"n": 2}, "n", "one answer"),
    ({"response_format": {"type": "json_object"}}, "response_format", "use text.format"),
    ({"input": []}, "input", "at least 1"),
    ({"input": 3}, "input", "got 3"),
    ({"max_output_tokens": 0}, "max_output_tokens", "greater than or equal to 1"),
    ({"max_output_tokens": 99999}, "max_output_tokens", "max_output_tokens is 99999"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type", "'function', got 'web_search'"),
    ({"tools": [{"type": "function"}]}, "tools[0].name", "must be a text"),
    ({"tool_choice": "required"}, "tool_choice", "without tools"),
    (
        {"tools": [TOOL], "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []}},
        "tool_choice.type",
        "'function', got 'allowed_tools'",
    ),
    (
        {"tools": [TOOL], "tool_choice": {"type": "function", "name": "no"}},
        "tool_choice.name",
        "got 'no'",
    ),
    ({"text": {"format": {"type": "json_schema"}}}, "text.format", "json_schema"),
    (
        {"text": {"format": {"type": "json_schema", "name": "a", "schema": {"type": "nix"}}}},
        "text.format",
        "no schema",
    ),
    (item(type="item_reference", id="a"), "input", "keeps no responses"),
    (
        item(role="user", content=[{"type": "input_image", "image_url": "x"}]),
        "input[0].content[0]",
        "only parts of text",
    ),
    (item(role="poet", content="a"), "input.role", "got 'poet'"),
    (
        item(type="function_call", call_id="a", arguments="{}"),
        "input.tool_calls[0].name",
        "is missing",
    ),
    (
        item(type="reasoning", summary=[], encrypted_content="x"),
        "input[0].encrypted_content",
        "None",
    ),
]


@pytest.mark.parametrize(("given", "param", "why"), REFUSED, ids=[each[1] for each in REFUSED])
def test_what_is_not_here_is_refused_by_name(
    client: openai.OpenAI, given: dict[str, Any], param: str, why: str
) -> None:
    asked: Any = {"model": "tiny", "input": QUESTION, "extra_body": given}
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as refused:
            client.responses.create(**asked, stream=stream)
        body: Any = refused.value.body
        assert body["param"] == param
        assert why in body["message"]


def test_a_response_cannot_be_asked_for_later(client: openai.OpenAI) -> None:
    name = client.responses.create(model="tiny", input=QUESTION, max_output_tokens=1).id
    with pytest.raises(openai.NotFoundError, match="keeps nothing between two requests"):
        client.responses.retrieve(name)


def test_an_error_after_the_first_event_is_a_response_that_has_failed(
    client: openai.OpenAI, live: LiveServer
) -> None:
    events = client.responses.create(
        model="tiny", input=QUESTION, stream=True, extra_body={"ignore_eos": True, "seed": 1}
    )
    seen: list[Any] = [next(events) for _ in range(4)]

    def fail() -> None:
        for stream in live.engine._streams.values():
            stream.fail(RuntimeError("broken"))

    live.in_loop(fail)
    seen += events
    assert seen[-1].type == "response.failed"
    assert [event.sequence_number for event in seen] == [*range(len(seen))]
    response = seen[-1].response
    assert (response.status, response.error.code) == ("failed", "server_error")
    validator("ModelResponse").validate(response.model_dump(exclude_unset=True))
