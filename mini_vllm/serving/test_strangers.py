"""What one client sends costs the other ones nothing: work and memory are bounded, and tenants take
turns.

Work is counted in seconds of the processor, which a busy machine does not change.
"""

import asyncio
import http.client
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import sha256
from typing import Any

import orjson
import pytest

from mini_vllm import SamplingParams
from mini_vllm.errors import GrammarError
from mini_vllm.frontend.output_processor import OutputProcessor
from mini_vllm.request import Request
from mini_vllm.serving.admission.bounds import (
    MAX_KEYS,
    MAX_LOGPROBS,
    MAX_OBJECTS,
    MAX_VALUES,
    check_structure,
)
from mini_vllm.serving.admission.tenants import Admission, QueueFullError
from mini_vllm.serving.conftest import LiveServer
from mini_vllm.serving.openai.answers import ROWS_AT_ONCE, in_columns
from mini_vllm.serving.openai.protocol import ApiError
from mini_vllm.step import SampledToken, TokenDelta
from mini_vllm.structured.compiler import GrammarCompiler

CHAT, TEXT, TOKENIZE = "/v1/chat/completions", "/v1/completions", "/tokenize"
QUESTION = {"role": "user", "content": "What is a KV block?"}
PART = {"type": "text", "text": ""}
CALL = {"id": "a", "type": "function", "function": {"name": "a", "arguments": "{}"}}
WORK = 0.6  # seconds of the processor that a body may take, where the slow ones took ten


def chat(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"messages": [*messages, QUESTION], "max_tokens": 2, **fields}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def many(number: int) -> dict[str, int]:
    return {f"k{i}": 1 for i in range(number)}


def tools(number: int, properties: int) -> list[Any]:
    schema = {
        "type": "object",
        "properties": {f"k{i}": {"type": "string"} for i in range(properties)},
    }
    return [
        {"type": "function", "function": {"name": f"f{i}", "parameters": schema}}
        for i in range(number)
    ]


# By name: the path, the body, and what the refusal says.
BODIES: dict[str, tuple[str, Callable[[], Any], str]] = {
    "parts": (CHAT, lambda: chat(user([PART] * 230_000)), "strings, at most"),
    "parts of nothing": (CHAT, lambda: chat(user([{}] * 2_000_000)), "objects, at most"),
    "parts of null": (CHAT, lambda: chat(user([None] * 1_600_000)), "values, at most"),
    "unknown keys": (CHAT, lambda: chat(**many(500_000)), "strings, at most"),
    "keys in a message": (CHAT, lambda: chat(QUESTION | many(60_000)), "keys, at most"),
    "messages": (TOKENIZE, lambda: chat(*[QUESTION] * 20_000), "objects, at most"),
    "calls": (
        CHAT,
        lambda: chat({"role": "assistant", "tool_calls": [CALL] * 20_000}),
        "objects, at most",
    ),
    "tools": (CHAT, lambda: chat(tools=tools(1000, 50)), "objects, at most"),
    "variables": (CHAT, lambda: chat(chat_template_kwargs=many(60_000)), "keys, at most"),
    "prompts of tokens": (TEXT, lambda: {"prompt": [[1] * 2000] * 900}, "values, at most"),
    "prompts of lists": (TEXT, lambda: {"prompt": [[[]] * 2_000_000]}, "values, at most"),
    "prompts of texts": (TEXT, lambda: {"prompt": [["a"] * 2000] * 100}, "valid integer"),
    "prompts": (TEXT, lambda: {"prompt": ["a"] * 200_000}, "at most 1,024"),
    "biases": (
        TEXT,
        lambda: {"prompt": "a", "logit_bias": {f"k{i}": "a" for i in range(30_000)}},
        "at most 1024 token ids",
    ),
    "a schema as text": (
        TEXT,
        lambda: {"prompt": "a", "guided_json": "[" * 4_000_000},
        "at most 131072 characters",
    ),
    "choices": (TEXT, lambda: {"prompt": "a", "guided_choice": ["a"] * 100_000}, "at most 1024"),
    "arguments as text": (
        CHAT,
        lambda: chat(called("[" + "[]," * 2_000_000 + "1]")),
        "at most",
    ),
    "a salt": (TEXT, lambda: {"prompt": "a", "cache_salt": "a" * 100_000}, "at most 1024"),
    # what is just below the limits
    "fewer parts": (CHAT, lambda: chat(user([PART] * 16_000)), "context length"),
    "fewer bad parts": (CHAT, lambda: chat(user([PART | {"text": 1}] * 16_000)), "valid string"),
    "fewer messages": (CHAT, lambda: chat(*[QUESTION] * 16_000), "context length"),
    "fewer keys": (CHAT, lambda: chat(max_tokens="a", **many(32_000)), "max_tokens"),
    "fewer tools": (CHAT, lambda: chat(tools=tools(100, 100)), "context length"),
    # products of fields
    "biases for each prompt": (
        TEXT,
        lambda: {"prompt": ["a"] * 500, "logit_bias": {str(i): 1 for i in range(1024)}},
        "500 prompts with other fields of",
    ),
    "a schema for each prompt": (
        TEXT,
        lambda: {"prompt": ["a"] * 500, "guided_json": {"description": "x" * 100_000}},
        "500 prompts with other fields of",
    ),
    "choices of each prompt": (
        TEXT,
        lambda: {"prompt": ["a"] * 60, "n": 128},
        "60 prompts with n 128: 7,680 choices, at most 1,024 are allowed",
    ),
    "logprobs of each choice": (
        TEXT,
        lambda: {"prompt": ["a"] * 60, "n": 16, "logprobs": 20, "max_tokens": 16, "echo": True},
        "1,020 tokens with n 16 and 21 logprobs for each: 342,720 logprobs, at most 131,072",
    ),
    "logprobs of a chat": (
        CHAT,
        lambda: chat(n=128, max_tokens=1500, logprobs=True, top_logprobs=20),
        "1,500 tokens with n 128 and 21 logprobs for each: 4,032,000 logprobs, at most 131,072",
    ),
}


def called(arguments: str) -> dict[str, Any]:
    call = CALL | {"function": {"name": "a", "arguments": arguments}}
    return {"role": "assistant", "tool_calls": [call]}


def post(server: LiveServer, path: str, body: Any, key: str = "none") -> tuple[int, Any]:
    """The status and the JSON of an answer."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
        connection.request("POST", path, orjson.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, orjson.loads(answer.read())


@pytest.mark.parametrize("name", BODIES)
def test_a_body_costs_a_bounded_time_of_the_processor(live: LiveServer, name: str) -> None:
    path, make, text = BODIES[name]
    body = make()
    before = time.process_time()
    status, answer = post(live, path, body)
    spent = time.process_time() - before
    assert (status, text in answer["error"]["message"]) == (400, True), answer
    assert spent < WORK, "seconds of the processor"


def test_words_are_read_once_for_all_prompts(live: LiveServer) -> None:
    """By the threads that read, and not by the event loop, which would read them for each."""
    words = [f"w{i}" for i in range(128)]
    tokenize, texts = live.engine.input_processor.tokenize, []

    def counted(prompt: Any, **options: Any) -> Any:
        if isinstance(prompt, str) and prompt.strip().startswith("w"):
            texts.append((prompt, threading.current_thread() is live._thread))
        return tokenize(prompt, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live.engine.input_processor, "tokenize", counted)
        body = {"prompt": ["a"] * 100, "max_tokens": 1, "bad_words": words}
        assert post(live, TEXT, body)[0] == 200
    spaced = [f" {word}" for word in words]
    assert sorted(texts) == sorted((text, False) for text in [*words, *spaced])


def test_what_is_within_quotes_is_no_structure() -> None:
    for text in ("a,{[:" * 400_000, "\\" * 1_000_000, '"' * 1_000_000, '\\",{' * 400_000):
        check_structure(orjson.dumps({"prompt": text}))


@pytest.mark.parametrize(
    ("values", "limit"),
    [
        ([{}] * MAX_OBJECTS, "objects"),
        ([dict.fromkeys(map(str, range(MAX_KEYS)), 1)], "keys"),
        ([1] * (MAX_VALUES - 1), "values"),
        ([[]] * (MAX_VALUES // 2), "values"),
    ],
)
def test_a_limit_is_where_it_is_said_to_be(values: list[Any], limit: str) -> None:
    check_structure(orjson.dumps(values))
    more = [*values, *values] if isinstance(values[0], list) else [*values, {"a": [1, 2]}]
    with pytest.raises(ApiError, match=f"{limit}, at most"):
        check_structure(orjson.dumps(more))


# --- logprobs -------------------------------------------------------------------------------------


def test_rows_are_turned_into_text_while_other_clients_are_served() -> None:
    num_rows, made, seen = 10 * ROWS_AT_ONCE, [], []

    def rows() -> Iterator[tuple[int, str]]:
        for number in range(num_rows):
            made.append(number)
            yield number, str(number)

    async def other_client(done: asyncio.Event) -> None:
        while not done.is_set():
            seen.append(len(made))
            await asyncio.sleep(0)

    async def run() -> Any:
        done = asyncio.Event()
        task = asyncio.create_task(other_client(done))
        found = await in_columns(rows(), ["numbers", "texts"])
        done.set()
        await task
        return orjson.loads(orjson.dumps(found))

    found = asyncio.run(run())
    assert found == {"numbers": [*range(num_rows)], "texts": [*map(str, range(num_rows))]}
    assert max(new - old for old, new in zip([0, *seen], seen, strict=False)) <= 2 * ROWS_AT_ONCE


def test_a_stream_keeps_no_logprobs_that_were_told() -> None:
    class Logprobs(dict[int, Any]):
        """One that says whether anything holds it."""

    processor, told = OutputProcessor(None), []
    params = SamplingParams(max_tokens=100, logprobs=1, output_kind="delta")
    processor.add_request("a", None, [Request("a", [1], params)], told.append)
    held = []
    for token_id in range(5):
        logprobs = Logprobs()
        held.append(weakref.ref(logprobs))
        processor.process([TokenDelta("a", [SampledToken(token_id, logprobs)], None, 0)])
        assert len(told.pop().outputs[0].logprobs) == 1
        del logprobs
    assert [each() for each in held] == [None] * 5


def test_a_chat_that_does_not_say_how_long_it_is_holds_no_more_logprobs(live: LiveServer) -> None:
    body = chat(logprobs=True, top_logprobs=20, n=128, stop=["a", "e", "i", "o"])
    del body["max_tokens"]
    status, answer = post(live, CHAT, body)
    assert status == 200
    num_tokens = answer["usage"]["completion_tokens"]
    assert 128 <= num_tokens <= MAX_LOGPROBS // 21


def test_the_logprobs_of_all_requests_in_flight_are_bounded(live: LiveServer) -> None:
    body = {"prompt": "a", "logprobs": 20, "max_tokens": 2}
    live.in_loop(
        lambda: live.engine.admission._logprobs.update({"there": ("/127.0.0.1", (1 << 20) - 41)})
    )
    status, answer = post(live, TEXT, body)
    assert (status, answer["error"]["code"]) == (429, "queue_full")
    assert "may hold 1,048,535 logprobs and 42 more do not fit" in answer["error"]["message"]
    assert post(live, TEXT, body | {"max_tokens": 1})[0] == 200
    live.in_loop(live.engine.admission._logprobs.clear)
    assert post(live, TEXT, body)[0] == 200
    assert live.in_loop(lambda: live.engine.admission._logprobs) == {}


# --- memory ---------------------------------------------------------------------------------------


def test_bodies_that_wait_to_be_read_are_bounded_in_bytes() -> None:
    """Those of a client leave room for another one's, and those of all are bounded, too."""

    async def run() -> None:
        admission, may_go_on = Admission(100, time.monotonic), threading.Event()

        def read(client: str) -> asyncio.Task[Any]:
            return asyncio.create_task(admission.read(client, may_go_on.wait, 20 << 20))

        waiting = [read("/alice") for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(QueueFullError, match="62,914,560 bytes wait to be read and 20,971,520"):
            await read("/alice")
        waiting += [read("/bob") for _ in range(3)] + [read("/carol")]
        await asyncio.sleep(0)
        with pytest.raises(QueueFullError, match="134,217,728 of all clients"):
            await read("/dave")
        waiting.pop().cancel()
        may_go_on.set()
        assert await asyncio.gather(*waiting) == [True] * 6
        assert await read("/alice")
        admission.close()

    asyncio.run(run())


def test_a_request_says_whose_turn_it_takes(
    live: LiveServer, serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tenant's, or its client's address; what the client calls its user is not kept."""
    seen: list[str] = []

    def compile(source: Any, wanted: Any, client: str = "") -> Any:
        seen.append(client)
        raise GrammarError("no")

    monkeypatch.setattr(GrammarCompiler, "compile", compile)
    body = {"prompt": "a", "guided_regex": "a", "user": "u" * 100_000}
    assert post(live, TEXT, body)[0] == 400
    server: LiveServer = serve(CONFIG, {}, OPTIONS | {"api_keys": ("the-operator",)})
    for key in (KEYS["alice"], "the-operator"):
        assert post(server, TEXT, body, key)[0] == 400
    assert seen == ["/127.0.0.1", "alice", ""]


# --- tenants --------------------------------------------------------------------------------------

KEYS = {"alice": "key-of-alice", "bob": "key-of-bob"}
OPTIONS = {"tenants": {name: sha256(key.encode()).hexdigest() for name, key in KEYS.items()}}
CONFIG = {"num_kv_blocks": 200, "scheduler": "tenants", "hash_function": "sha256"}


def test_a_tenants_conversations_are_read_while_another_tenants_take_long(serve: Any) -> None:
    """Also those that wait are bounded, and leave nothing."""
    server: LiveServer = serve(CONFIG, {"max_queue": 30}, OPTIONS)
    processor, may_go_on = server.engine.input_processor, threading.Event()
    render, num_begun = processor.apply_chat_template, []

    def slow_for_alice(messages: Any, **options: Any) -> Any:
        if messages[0]["content"] == "slow":
            num_begun.append(1)
            assert may_go_on.wait(60)
        return render(messages, **options)

    processor.apply_chat_template = slow_for_alice
    found: list[int] = []

    def ask() -> None:
        found.append(post(server, CHAT, chat(user("slow")), KEYS["alice"])[0])

    clients = [threading.Thread(target=ask) for _ in range(34)]
    for client in clients:
        client.start()
    server.until(lambda: found == [429, 429], "the queue of alice is full")
    assert len(num_begun) == 2
    for _ in range(3):
        assert post(server, CHAT, chat(), KEYS["bob"])[0] == 200
        assert post(server, TOKENIZE, {"prompt": "a"}, KEYS["bob"])[0] == 200
        assert post(server, CHAT, chat(user(["a"] * 40_000)), KEYS["bob"])[0] == 400
    may_go_on.set()
    for client in clients:
        client.join(60)
    # 32 have been read; the queue for a first token is as long, and may be full once more
    assert len(found) == 34
    assert 30 <= found.count(200) <= 32
    assert set(found) == {200, 429}
    server.assert_idle()
