"""Chats from OpenAI's own client against a live server: answers, streams, refusals, and clients
that leave.
"""

import json
import socket
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import openai
import pytest

from mini_vllm import LLM, SamplingParams
from mini_vllm.serving.conftest import LiveServer

QUESTION = [{"role": "user", "content": "What is a KV block?"}]


@pytest.fixture(scope="module")
def client(live: LiveServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{live.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def ask(client: openai.OpenAI, **options: Any) -> Any:
    return client.chat.completions.create(
        **{"model": "tiny", "messages": QUESTION, "temperature": 0, **options}
    )


def test_an_answer_is_that_of_the_engine(client: openai.OpenAI) -> None:
    llm = LLM("tiny", device="cpu", num_kv_blocks=200)
    (wanted,) = llm.chat(QUESTION, SamplingParams(temperature=0, max_tokens=500))
    answer = ask(client)
    (choice,) = answer.choices
    assert (choice.message.content, choice.message.role) == (wanted.outputs[0].text, "assistant")
    assert (choice.finish_reason, choice.index) == ("stop", 0)
    assert answer.usage.prompt_tokens == len(wanted.prompt_token_ids)
    assert answer.usage.completion_tokens == len(wanted.outputs[0].token_ids)
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert (answer.object, answer.model) == ("chat.completion", "tiny")


@pytest.mark.parametrize("n", [1, 3])
def test_a_stream_joins_to_the_answer(client: openai.OpenAI, n: int) -> None:
    options = {"n": n, "temperature": 1, "seed": 7, "max_tokens": 20}
    whole = ask(client, **options)
    texts, reasons, roles = [""] * n, [None] * n, [""] * n
    *chunks, last = ask(client, **options, stream=True, stream_options={"include_usage": True})
    for chunk in chunks:
        (choice,) = chunk.choices
        assert reasons[choice.index] is None, "nothing follows a finish reason"
        texts[choice.index] += choice.delta.content
        reasons[choice.index] = choice.finish_reason
        assert (choice.delta.role == "assistant") == (roles[choice.index] == "")
        assert not (choice.delta.role and choice.delta.content), "the role comes alone"
        roles[choice.index] += choice.delta.role or ""
        assert (chunk.id, chunk.created, chunk.model) == (
            chunks[0].id,
            chunks[0].created,
            whole.model,
        )
        assert chunk.usage is None
    assert texts == [choice.message.content for choice in whole.choices]
    assert reasons == [choice.finish_reason for choice in whole.choices]
    assert roles == ["assistant"] * n
    assert (last.choices, last.usage.completion_tokens) == ([], whole.usage.completion_tokens)
    assert last.usage.prompt_tokens == whole.usage.prompt_tokens


def test_every_chunk_tells_the_usage_so_far(client: openai.OpenAI) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    *chunks, last = ask(client, max_tokens=20, logprobs=True, stream=True, stream_options=options)
    first, *rest = (chunk.choices[0] for chunk in chunks)
    assert (first.delta.role, first.delta.content, first.logprobs) == ("assistant", "", None)
    num_tokens = [0, *accumulate(len(choice.logprobs.content) for choice in rest)]
    assert [chunk.usage.completion_tokens for chunk in chunks] == num_tokens
    assert chunks[-1].usage == last.usage
    assert last.usage.completion_tokens == 20
    assert {chunk.usage.prompt_tokens for chunk in chunks} == {last.usage.prompt_tokens}
    alone = ask(client, max_tokens=2, stream=True, stream_options={"continuous_usage_stats": True})
    assert [chunk for chunk in alone if chunk.usage is not None] == [], (
        "include_usage was not asked for"
    )


def test_a_stream_on_the_wire(live: LiveServer) -> None:
    body = json.dumps({"messages": QUESTION, "stream": True, "max_tokens": 3}).encode()
    with socket.create_connection(("127.0.0.1", live.port)) as connection:
        connection.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body) + body
        )
        answer = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    head, _, chunks = answer.partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 200")
    assert "content-type: text/event-stream" in head
    events = [line for line in chunks.split("\r\n") if line.startswith("data: ")]
    assert "usage" not in chunks
    assert [event.strip() for event in events].count("data: [DONE]") == 1
    assert events[-1].strip() == "data: [DONE]"


@pytest.mark.parametrize(
    ("options", "param", "status", "code"),
    [
        ({"temperature": 2.1}, "temperature", 400, None),
        ({"n": True}, "n", 400, None),
        ({"n": 0}, "n", 400, None),
        ({"max_tokens": 1.5}, "max_tokens", 400, None),
        ({"stop": ["a"] * 5}, "stop", 400, None),
        ({"stop": ""}, "stop", 400, None),
        ({"messages": []}, "messages", 400, None),
        ({"messages": [{"role": "judge", "content": "x"}]}, "messages[0].role", 400, None),
        ({"top_logprobs": 2}, "top_logprobs", 400, None),
        ({"stream_options": {"include_usage": True}}, "stream_options", 400, None),
        (
            {"extra_body": {"guided_whitespace_pattern": "a+"}},
            "guided_whitespace_pattern",
            400,
            None,
        ),
        ({"response_format": {"type": "xml"}}, "response_format.type", 400, None),
        ({"tools": []}, "tools", 400, None),
        ({"max_tokens": 5000}, "max_tokens", 400, "context_length_exceeded"),
        (
            {"messages": [{"role": "user", "content": "a " * 5000}]},
            "messages",
            400,
            "context_length_exceeded",
        ),
        ({"model": "gpt-5"}, "model", 404, "model_not_found"),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(
    client: openai.OpenAI, options: dict[str, Any], param: str, status: int, code: str | None
) -> None:
    for stream in (False, True):
        if stream and "stream_options" in options:
            continue
        with pytest.raises(openai.APIStatusError) as refusal:
            ask(client, **options, stream=stream)
        assert refusal.value.status_code == status
        assert isinstance(refusal.value.body, dict)
        assert (refusal.value.body["param"], refusal.value.body["code"]) == (param, code)


def test_a_client_that_leaves_frees_its_blocks(live: LiveServer, client: openai.OpenAI) -> None:
    endless = {"extra_body": {"ignore_eos": True}, "max_tokens": 1900}
    stream = ask(client, stream=True, **endless)
    next(iter(stream))
    assert live.core.has_unfinished_requests()
    stream.close()
    live.assert_idle()
    with pytest.raises(openai.APITimeoutError):
        ask(client.with_options(timeout=0.3), **endless)
    live.assert_idle()
    assert ask(client, max_tokens=5).choices[0].finish_reason == "length"


def test_a_key_is_needed_for_all_but_health(serve: Any) -> None:
    server = serve(server_options={"api_keys": ("secret", "other")})
    for key in ("secret", "other"):
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key=key) as client:
            assert client.models.list().data[0].id == "tiny"
            assert client.models.retrieve("tiny").id == "tiny"
    for key in ("wrong", "secre"):
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key=key)
        with client, pytest.raises(openai.AuthenticationError):
            client.models.list()
    for path, key, status in (
        ("/health", None, 200),
        ("/v1/models", None, 401),
        ("/v1/models", b"Bearer \xe2\x98\x83", 401),
        ("/nowhere", None, 401),
        ("/nowhere", b"Bearer secret", 404),
    ):
        head = b"" if key is None else b"Authorization: " + key + b"\r\n"
        for host in (b"x", b"x?", b"x/health#"):  # it bends no path
            assert (
                status_of(
                    server, b"GET " + path.encode() + b" HTTP/1.1\r\nHost: " + host + b"\r\n" + head
                )
                == status
            )


def status_of(server: LiveServer, head: bytes) -> int:
    """The status of the answer to these lines of a request."""
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head + b"Connection: close\r\n\r\n")
        return int(connection.recv(65536).split()[1])


def test_an_answer_is_the_next_request(client: openai.OpenAI) -> None:
    """As programs write it: the message that came is appended, with the fields that the server gave
    it.
    """
    first = ask(client, max_tokens=5).choices[0].message
    messages: list[Any] = [*QUESTION, first, {"role": "user", "content": "Go on"}]
    assert (
        client.chat.completions.create(model="tiny", messages=messages, max_tokens=5)
        .choices[0]
        .message.content
    )
    whole = {
        "role": "assistant",
        "content": "a",
        "refusal": None,
        "tool_calls": None,
        "audio": None,
    }
    nulls: dict[str, Any] = {
        "tools": None,
        "response_format": None,
        "store": None,
        "reasoning_effort": None,
    }
    messages = [*QUESTION, whole, {"role": "user", "content": "Go on"}]
    assert client.chat.completions.create(
        model="tiny", messages=messages, max_tokens=5, extra_body=nulls
    ).choices
    for field, value in (("modalities", ["audio"]), ("functions", [{}]), ("audio", {})):
        with pytest.raises(openai.BadRequestError) as refusal:
            ask(client, extra_body={field: value})
        assert refusal.value.param == field
