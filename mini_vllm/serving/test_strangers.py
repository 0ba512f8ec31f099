"""What one client sends costs the other ones nothing: work and memory are bounded, and tenants take
turns.

Work is counted in seconds of the processor, which a busy machine does not change.
"""

import asyncio
import http.client
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from hashlib import sha256
from itertools import pairwise
from typing import Any

import orjson
import pytest

from mini_vllm import SamplingParams
from mini_vllm.errors import EngineDeadError, GrammarError
from mini_vllm.frontend.output_processor import CompletionOutput, OutputProcessor, RequestOutput
from mini_vllm.request import Request
from mini_vllm.serving.admission.bounds import (
    MAX_KEYS,
    MAX_LOGPROBS,
    MAX_OBJECTS,
    MAX_VALUES,
    check_structure,
)
from mini_vllm.serving.admission.tenants import Admission, QueueFullError
from mini_vllm.serving.async_engine import DELTAS_AT_ONCE
from mini_vllm.serving.conftest import LiveServer
from mini_vllm.serving.messages import StepDone
from mini_vllm.serving.openai.answers import ROWS_AT_ONCE, CompletionAnswer, in_columns
from mini_vllm.serving.openai.protocol import ApiError, CompletionRequest, parse
from mini_vllm.step import Logprob, SampledToken, TokenDelta
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
    "token ids of each choice": (
        TEXT,
        lambda: {"prompt": "a", "n": 128, "allowed_token_ids": [5, 6] * 2000},
        "4,000 allowed token ids and characters of bad words, 128 choices: 512,000 in all, at most",
    ),
    "words of each choice": (
        CHAT,
        lambda: chat(n=128, bad_words=[(f"{i} " * 400)[:1000] for i in range(128)]),
        "126,000 allowed token ids and characters of bad words, 128 choices: 16,128,000 in all",
    ),
    "a name": (TEXT, lambda: {"prompt": "a", "logit_bias": {"k" * 8_000_000: 1}}, "logit_bias.kkk"),
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


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if i % 3 else ()) for i, name in enumerate(BODIES)],
)
def test_a_body_costs_a_bounded_time_of_the_processor(live: LiveServer, name: str) -> None:
    path, make, text = BODIES[name]
    body = make()
    before = time.process_time()
    status, answer = post(live, path, body)
    spent = time.process_time() - before
    assert (status, text in answer["error"]["message"]) == (400, True), answer
    assert len(str(answer)) < 1000
    assert spent < WORK, "seconds of the processor"


@pytest.mark.parametrize(
    ("path", "field"),
    [
        (TEXT, "guided_json"),
        (TEXT, "logit_bias"),
        (CHAT, "chat_template_kwargs"),
        (CHAT, "tools"),
        (CHAT, "response_format"),
        ("/v1/responses", "metadata"),
        ("/v1/responses", "text"),
        (TOKENIZE, "prompt"),
    ],
)
def test_a_body_may_be_nested_as_deeply_as_an_answer(
    live: LiveServer, path: str, field: str
) -> None:
    other = {TEXT: '"prompt": ["a", "b"]', CHAT: '"messages": [{"role": "user", "content": "a"}]'}
    start = "{" + other.get(path, '"input": "a"') + ', "max_tokens": 1, "' + field + '": {"a": '
    for levels in (9, 200, *range(240, 262), 500, 1000, 5000):
        for begin, end in (("[", "]"), ('{"a": ', "}")):
            body = start + begin * levels + "1" + end * levels + "}}"
            status, answer = post(live, path, orjson.Fragment(body))
            assert status in (200, 400), (levels, answer)
            if levels > 255:
                assert "the body is no JSON of at most 250 levels" in answer["error"]["message"]


@pytest.mark.parametrize("path", [TEXT, CHAT, "/v1/responses", TOKENIZE])
@pytest.mark.parametrize("body", [None, [], 1, "a", True])
def test_a_body_that_is_no_object_is_refused_in_plain_words(
    live: LiveServer, path: str, body: Any
) -> None:
    status, answer = post(live, path, body)
    assert status == 400
    message = answer["error"]["message"]
    assert message.startswith("the body: Input should be a valid object, got "), message
    assert "Request" not in message, "no name of a class"


@pytest.mark.parametrize("name", ["self", "messages", "args", "kwargs", "template", "cls", "not"])
def test_a_variable_of_the_template_may_have_any_name(live: LiveServer, name: str) -> None:
    status, answer = post(live, CHAT, chat(chat_template_kwargs={name: 1}))
    assert status == 200 or f"chat_template_kwargs.{name} is no" in answer["error"]["message"]


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


async def turns_of(work: Awaitable[Any], made: list[Any]) -> int:
    """How much of it is made at most between two turns of another client."""
    seen, done = [0], asyncio.Event()

    async def other_client() -> None:
        while not done.is_set():
            seen.append(len(made))
            await asyncio.sleep(0)

    task = asyncio.create_task(other_client())
    await asyncio.sleep(0)
    await work
    done.set()
    await task
    return max(new - old for old, new in pairwise([*seen, len(made)]))


def test_rows_are_turned_into_text_while_other_clients_are_served() -> None:
    num_rows, made = 10 * ROWS_AT_ONCE, []

    def rows() -> Iterator[tuple[int, str]]:
        for number in range(num_rows):
            made.append(number)
            yield number, str(number)

    async def work() -> None:
        found = orjson.loads(orjson.dumps(await in_columns(rows(), ["numbers", "texts"])))
        assert found == {"numbers": [*range(num_rows)], "texts": [*map(str, range(num_rows))]}

    assert asyncio.run(turns_of(work(), made)) <= 2 * ROWS_AT_ONCE


LOGPROBS = {token_id: Logprob(-1.0, token_id + 1) for token_id in range(3)}


def some_choices(number: int, num_tokens: int, **options: Any) -> RequestOutput:
    """An output with something new of each choice."""
    rows = [LOGPROBS] * num_tokens
    choices = [
        CompletionOutput(index, "a", [1] * num_tokens, "stop", rows) for index in range(number)
    ]
    return RequestOutput("a", [1], 0, True, choices)


@pytest.mark.parametrize("is_stream", [True, False])
@pytest.mark.parametrize(
    ("num_choices", "num_tokens", "most"),
    # of one token, as in a step; of few, as a reader gets that was slow
    [(1024, 1, ROWS_AT_ONCE), (100, 7, 2 * 7)],
)
def test_choices_are_turned_into_text_while_other_clients_are_served(
    is_stream: bool, num_choices: int, num_tokens: int, most: int
) -> None:
    """most: tokens."""
    made: list[int] = []

    class Noting(CompletionAnswer):
        def _text(self, token_id: int, text: str | None = None) -> str:
            made.append(token_id)
            return super()._text(token_id, text)

    asked = parse(CompletionRequest, {"prompt": [1], "logprobs": 2})
    answer = Noting("a", 0, "tiny", asked, None)
    output = some_choices(num_choices, num_tokens)

    async def work() -> None:
        if is_stream:
            chunks = [each async for each in answer.chunks(0, output)]
        else:
            chunks = (await answer.whole([(0, output)]))["choices"]
        assert len(chunks) == num_choices

    num_texts = 1 + 2  # of a token: itself, and the likeliest ones
    assert asyncio.run(turns_of(work(), made)) <= most * num_texts
    assert len(made) == num_choices * num_tokens * num_texts


def test_a_step_of_many_choices_is_taken_in_while_other_clients_are_served(
    live: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    monkeypatch.setattr(live.engine.metrics, "took", lambda name, delta: made.append(delta))
    deltas = [TokenDelta(f"no-{i}", [SampledToken(1, LOGPROBS)], None, 0) for i in range(1024)]
    work = live.engine._take_in(StepDone(deltas, None, None, 0, 0, 0.0))
    most = asyncio.run_coroutine_threadsafe(turns_of(work, made), live.loop).result(60)
    assert most <= DELTAS_AT_ONCE
    assert made == deltas


def test_what_came_before_an_engine_died_is_told(serve: Any) -> None:
    """The last tokens first, then the error."""
    server: LiveServer = serve()
    engine, told = server.engine, []

    async def ask() -> None:
        params = SamplingParams(max_tokens=9, output_kind="delta")
        async for output in engine.generate("a", [1, 2], params):
            told.append(output.outputs[0].token_ids)

    async def run() -> None:
        send, engine._client.send = engine._client.send, lambda command: None  # type: ignore
        task = asyncio.create_task(ask())
        await asyncio.sleep(0)
        delta = TokenDelta("a", [SampledToken(5, None)], None, 0, time=1.0, scheduled_time=1.0)
        engine._on_event(StepDone([delta], None, None, 0, 0, 0.0))
        engine._steps.put_nowait(None)
        with pytest.raises(EngineDeadError, match="its process has ended"):
            await task
        engine._client.send = send  # type: ignore

    asyncio.run_coroutine_threadsafe(run(), server.loop).result(60)
    assert told == [[5]]


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


# --- clients without tenants ----------------------------------------------------------------------


def test_a_client_does_not_wait_for_all_requests_of_another_one(serve: Any) -> None:
    """Neither for a place nor in the queue. Keys tell clients of one address apart."""
    server: LiveServer = serve(
        {"num_kv_blocks": 100, "max_num_seqs": 2}, {"max_queue": 12}, {"api_keys": ("one", "two")}
    )
    execute, may_go_on = server.core.executor.execute, threading.Event()
    server.core.executor.execute = lambda step: execute(step) if may_go_on.wait(60) else None
    found: list[str] = []

    def ask(key: str) -> None:
        body = {"prompt": [5], "max_tokens": 10, "ignore_eos": True}
        assert post(server, TEXT, body, key)[0] == 200
        found.append(key)

    clients = []
    for number, key in enumerate(["one"] * 12 + ["two"], 1):
        clients.append(threading.Thread(target=ask, args=(key,)))
        clients[-1].start()
        server.until(lambda number=number: server.engine.num_unfinished == number, "it waits")
    may_go_on.set()
    for client in clients:
        client.join(60)
    assert found.index("two") <= 4, "it had one of the first places that became free"
    assert found.count("one") == 12
    server.assert_idle()


def test_a_client_is_a_key_where_there_are_several(serve: Any) -> None:
    seen: list[str] = []

    def check(num_choices: int, client: str | None) -> None:
        seen.append(str(client))

    for keys in ((), ("one",), ("one", "two")):
        server: LiveServer = serve({"num_kv_blocks": 50}, {}, {"api_keys": keys})
        server.engine.check_queue = check  # type: ignore[method-assign]
        for key in keys or ("none",):
            assert post(server, TEXT, {"prompt": [5], "max_tokens": 1}, key)[0] == 200
    first, *_, one, two = dict.fromkeys(seen)
    assert first == "/127.0.0.1"
    assert len({first, one, two}) == 3
    assert [each[0] for each in (one, two)] == ["/", "/"]
    assert "one" not in one


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


def test_many_clients_have_no_queue_without_a_limit() -> None:
    """Each has its own, and all of them together sixteen."""
    admission = Admission(max_queue=4, clock=lambda: 0.0)
    for number in range(64):
        client = f"/10.0.0.{number}"
        admission.check_queue(client, 1)
        admission.waiting[str(number)] = client, 1
    with pytest.raises(QueueFullError, match="at most 4 of a client may wait, and 16 times"):
        admission.check_queue("/10.0.1.1", 1)
    admission.close()
