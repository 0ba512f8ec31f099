"""Every field of a chat and of a completion, with every other one: an answer as the protocol has
it, or a refusal that names a field. A stream brings what a whole answer has.

The fields are those of the protocol, so a new one has to have values here.
"""

import asyncio
import json
import random
import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any, NamedTuple

import jsonschema
import pytest
from pydantic import TypeAdapter

pytest.importorskip("torch")

from mini_vllm.serving.conftest import LiveServer
from mini_vllm.serving.openai import protocol

Json = dict[str, Any]
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
REQUESTS: dict[str, Any] = {CHAT: protocol.ChatCompletionRequest, TEXT: protocol.CompletionRequest}
ANSWERS: dict[str, Any] = {
    CHAT: (TypeAdapter(protocol.ChatCompletion), TypeAdapter(protocol.ChatCompletionChunk)),
    TEXT: (TypeAdapter(protocol.Completion), TypeAdapter(protocol.CompletionChunk)),
}
REFUSAL = TypeAdapter(protocol.Error)
ASK: Json = {"role": "user", "content": "What is a KV block?"}
BASE: dict[str, Json] = {
    CHAT: {"messages": [ASK], "max_tokens": 12, "seed": 5},
    TEXT: {"prompt": "A KV block", "max_tokens": 12, "seed": 5},
}
END, A, WORD = 2, 67, 302  # token ids of the bundled model: the end, "a" and " block"
SCHEMA = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}
LOOSE = {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}}
LARK, EBNF = 'start: "yes" | /[0-9]{1,3}/', 'root ::= "yes" | [0-9] [0-9]?'
FORMS: list[Json] = [
    {"json": SCHEMA},
    {"json": LOOSE},
    {"regex": "[a-c]{2,4}"},
    {"regex": ".*"},
    {"choice": ["yes", "no"]},
    {"choice": [" KV", " KV block is"]},
    {"grammar": LARK},
    {"grammar": EBNF},
    {"json_object": True},
]
TOOL = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
BARE = {"type": "function", "function": {"name": "g"}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a": true}'}}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "1"}
SAID: Json = {"role": "assistant", "content": "A KV block is a"}
VALUES: dict[str, list[Any]] = {  # where a schema does not say what has an effect
    "model": ["tiny"],
    "stream_options": [{"include_usage": True}, {"continuous_usage_stats": True}],
    "n": [1, 3],
    "top_k": [-1, 1, 5],
    "seed": [0, -(1 << 63), (1 << 64) - 1],
    "logit_bias": [{f"{END}": 100}, {f"{END}": -100}, {f"{WORD}": 100, f"{A}": -100}],
    "stop": ["block", [" ", "e"], ["\n", "é"], "}"],
    "stop_token_ids": [[], [WORD], [END, A]],
    "allowed_token_ids": [[WORD], [END], [A, WORD, END]],
    "bad_words": [[], [" block", "yes"], ["{", "a"]],
    "min_tokens": [0, 1, 12],
    "max_tokens": [0, 1, 3],
    "max_completion_tokens": [0, 1, 12],
    "user": ["u"],
    "request_id": ["r-1"],
    "cache_salt": ["s"],
    "priority": [0, -5],
    "response_format": [
        {"type": "text"},
        {"type": "json_object"},
        {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}},
    ],
    "structured_outputs": FORMS,
    "guided_json": [SCHEMA, json.dumps(LOOSE)],
    "guided_regex": ["[0-9]+", "é{1,3}"],
    "guided_choice": [["yes"], ["A", "A KV block"]],
    "guided_grammar": [EBNF],
    "messages": [
        [ASK, SAID],
        [{"role": "system", "content": ""}, ASK | {"content": [{"type": "text", "text": "a"}]}],
        [ASK, {"role": "assistant", "tool_calls": [CALL]}, RESULT],
        [ASK, SAID | {"reasoning": "so"}, ASK],
    ],
    "tools": [[TOOL], [BARE, TOOL], []],
    "tool_choice": ["none", "auto", "required", {"type": "function", "function": {"name": "f"}}],
    "chat_template_kwargs": [{}, {"enable_thinking": True}, {"enable_thinking": False}],
    "prompt": ["", " ", ["A KV block", "a"], [WORD], [[A], [WORD, END]]],
}  # fmt: skip


class Given(NamedTuple):
    """A field and its value."""

    name: str
    value: Any


def edges(schema: Json) -> list[Any]:
    """Values at the edges of what a schema allows."""
    found: list[Any] = []
    for each in schema.get("anyOf", [schema]):
        if each["type"] == "boolean":
            found += [True, False]
        elif each["type"] in ("integer", "number"):
            low, high = each.get("minimum", 1e-3), each["maximum"]
            found += [low, high] if each["type"] == "integer" else [low, high, low + 0.7]
        else:
            assert each["type"] == "null", f"VALUES must say what of {schema} has an effect"
    return found


def fields_of(path: str) -> list[Given]:
    """Every field of a request with each of its values."""
    schemas = REQUESTS[path].model_json_schema()["properties"]
    every = {name: VALUES[name] if name in VALUES else edges(schemas[name]) for name in schemas}
    del every["stream"]  # all are asked for in both ways
    return [Given(name, value) for name, values in every.items() for value in values]


def bodies(path: str) -> list[Json]:
    """A body for each pair of two fields."""
    return [
        BASE[path] | dict([one, other])
        for one, other in combinations(fields_of(path), 2)
        if one.name != other.name
    ]


# --- what is asked --------------------------------------------------------------------------------


REST_OF_SCOPE = {"client": None, "query_string": b"", "headers": [], "http_version": "1.1"}


async def post(live: LiveServer, path: str, body: Json) -> tuple[int, bytes]:
    """A status and a body, without a connection."""
    given = [{"type": "http.request", "body": json.dumps(body).encode()}]
    sent: list[Any] = []

    async def receive() -> Any:
        return given.pop() if given else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode()}
    await live.server(scope | REST_OF_SCOPE, receive, send)
    return sent[0]["status"], b"".join(each.get("body", b"") for each in sent)


def ask_all(live: LiveServer, path: str, all_bodies: list[Json]) -> Iterator[tuple[Json, Any, Any]]:
    """Each body with its whole answer and its stream; a few of them at once."""

    async def both(body: Json, turn: asyncio.Semaphore) -> tuple[Json, Any, Any]:
        async with turn:
            whole = await post(live, path, body)
            return body, whole, await post(live, path, body | {"stream": True})

    async def every() -> list[tuple[Json, Any, Any]]:
        turn = asyncio.Semaphore(16)
        return await asyncio.gather(*(both(body, turn) for body in all_bodies))

    yield from asyncio.run_coroutine_threadsafe(every(), live.loop).result()


# --- what is answered -----------------------------------------------------------------------------


def check(path: str, body: Json, whole: tuple[int, bytes], stream: tuple[int, bytes]) -> str:
    """Raises AssertionError for what is no answer to a body; "" or the field that was refused."""
    of_whole, of_chunk = ANSWERS[path]
    if stream[0] == 400:
        refused = REFUSAL.validate_json(stream[1], strict=True)["error"]
        only_streams = {"stream_options", "prompt_logprobs"} & body.keys()  # refuse these
        assert without_id(whole[1]) == without_id(stream[1]) or only_streams
        return named(refused, body)
    events = [line[6:] for line in stream[1].splitlines() if line]
    assert stream[0] == 200, stream
    assert events.pop() == b"[DONE]"
    if b'{"error"' in events[-1]:
        assert (400, without_id(events[-1])) == (whole[0], without_id(whole[1]))
        return named(json.loads(events[-1])["error"], body)
    chunks = [of_chunk.validate_json(each, strict=True) for each in events]
    if whole[0] == 400 and "stream_options" in body:
        assert named(json.loads(whole[1])["error"], body) == "stream_options"
        return ""
    assert whole[0] == 200, whole
    answer = of_whole.validate_json(whole[1], strict=True)
    assert joined(path, chunks) == {each["index"]: told(path, each) for each in answer["choices"]}
    for choice in answer["choices"]:
        check_form(path, body, choice)
    return ""


def without_id(data: bytes) -> bytes:
    """A refusal without the id of its request."""
    return re.sub(rb"cmpl-[\w-]+", b"", data)


def named(error: Json, body: Json) -> str:
    """The field that a refusal names."""
    assert error["type"] == "invalid_request_error", error
    found = str(error["param"]).partition(".")[0].partition("[")[0]
    assert found in body, error
    return found


def told(path: str, choice: Json) -> Json:
    """What a choice of a whole answer tells."""
    found = {"finish_reason": choice["finish_reason"], "logprobs": rounded(choice["logprobs"])}
    if path == TEXT:
        return found | {"text": choice["text"]}
    message = choice["message"]
    calls = [
        (call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls", ())
    ]
    texts = {name: message.get(name) or "" for name in ("content", "reasoning_content")}
    return found | texts | {"calls": calls}


def joined(path: str, chunks: list[Json]) -> Json:
    """The same of the chunks of a stream, by the index of the choice."""
    choices: Json = {}
    for choice in (each for chunk in chunks for each in chunk["choices"]):
        empty: Json = {"finish_reason": None, "logprobs": None}
        empty |= (
            {"text": ""} if path == TEXT else {"content": "", "reasoning_content": "", "calls": []}
        )
        found = choices.setdefault(choice["index"], empty)
        assert found["finish_reason"] is None, "it goes on behind its end"
        found["finish_reason"] = choice["finish_reason"]
        if (rows := rounded(choice["logprobs"])) is not None:
            before = found["logprobs"] or {name: [] for name in rows}
            found["logprobs"] = {
                name: before[name] + row if row is not None else None for name, row in rows.items()
            }
        delta = choice if path == TEXT else choice["delta"]
        for name in ("text", "content", "reasoning_content"):
            if name in found:
                found[name] += delta.get(name) or ""
        for call in delta.get("tool_calls", ()):
            if call["index"] == len(found["calls"]):
                found["calls"].append((call["function"]["name"], ""))
            name, arguments = found["calls"][call["index"]]
            found["calls"][call["index"]] = name, arguments + call["function"]["arguments"]
    return choices


def rounded(value: Any) -> Any:
    """The same with numbers of a few digits: those of another batch differ in the last ones."""
    if isinstance(value, float):
        return round(value, 2) + 0.0
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return {key: rounded(each) for key, each in value.items()} if isinstance(value, dict) else value


def check_form(path: str, body: Json, choice: Json) -> None:
    """A text that has ended by itself has the form that was asked for, and so have forced calls."""
    assert choice["finish_reason"] in ("stop", "length", "tool_calls"), choice
    assert (choice["logprobs"] is None) == (body.get("logprobs", False) is False)
    is_cut = choice["finish_reason"] == "length" or body.keys() & {"stop", "stop_token_ids"}
    if is_cut or body.get("echo"):
        return
    found = choice if path == TEXT else choice["message"]
    for call in found.get("tool_calls", ()):
        jsonschema.validate(json.loads(call["function"]["arguments"]), SCHEMA)
    for kind, wanted in forms_of(body):
        text = found["text"] if path == TEXT else found["content"]
        if body.get("skip_special_tokens") is False:  # the token that ended it may be shown
            text = re.sub(r"<\|\w+\|>\Z", "", text)
        if kind in ("json", "json_object"):
            schema = json.loads(wanted) if isinstance(wanted, str) else wanted
            jsonschema.validate(json.loads(text), {"type": "object"} if wanted is True else schema)
        elif kind == "choice":
            assert text in wanted
        else:
            pattern = "yes|[0-9]{1,3}" if kind == "grammar" else wanted
            assert re.fullmatch(pattern, text), (pattern, text)


def forms_of(body: Json) -> Iterator[tuple[str, Any]]:
    """The form that is asked for: its kind and its value."""
    asked = body.get("response_format", {})
    if asked.get("type") == "json_schema":
        yield "json", asked["json_schema"]["schema"]
    elif asked.get("type") == "json_object":
        yield "json_object", True
    yield from body.get("structured_outputs", {}).items()
    for name, value in body.items():
        if name.startswith("guided_"):
            yield name.removeprefix("guided_"), value


# --- the table ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def busy() -> Iterator[LiveServer]:
    """A server for many at once."""
    live = LiveServer({"num_kv_blocks": 400, "max_num_seqs": 32}, {}, {"access_log": False})
    yield live
    live.assert_idle()
    live.stop()


def assert_all(live: LiveServer, path: str, all_bodies: list[Json]) -> set[str]:
    """Every body has its answer. Returns the fields that were refused."""
    refused = set()
    for body, whole, stream in ask_all(live, path, all_bodies):
        try:
            refused.add(check(path, body, whole, stream))
        except Exception as error:
            raise AssertionError(f"{body} got {whole} and the stream {stream}") from error
    return refused


@pytest.mark.slow
@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_every_field_beside_one_that_rules_the_text(busy: LiveServer, path: str) -> None:
    """Every other value, with a field that is drawn; all pairs are tried by night."""
    rng = random.Random(1)
    fields = fields_of(path)
    some = [[each, rng.choice(fields)] for each in fields[::12]]
    assert "" in assert_all(busy, path, [BASE[path] | dict(pair) for pair in some])


@pytest.mark.nightly
@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_every_pair_of_fields(busy: LiveServer, path: str) -> None:
    assert_all(busy, path, bodies(path))


@pytest.mark.nightly
@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_many_fields_at_once(busy: LiveServer, path: str) -> None:
    rng, fields = random.Random(2), fields_of(path)
    assert_all(busy, path, [BASE[path] | dict(rng.sample(fields, 5)) for _ in range(2000)])
