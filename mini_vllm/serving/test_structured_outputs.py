"""Structured outputs over HTTP: OpenAI's parse helper, vLLM's fields, and refusals that name the
field.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
import openai
import pydantic
import pytest

from mini_vllm import SamplingParams
from mini_vllm.request import Request
from mini_vllm.serving.conftest import LiveServer
from mini_vllm.serving.messages import Add, Command

pytest.importorskip("xgrammar")
pytest.importorskip("llguidance")

QUESTION: Any = [{"role": "user", "content": "What is a KV block?"}]


class Block(pydantic.BaseModel):
    kind: Literal["free", "cached", "owned"]
    num_tokens: int = pydantic.Field(ge=0, le=16)
    owners: list[Literal["a", "b"]] = pydantic.Field(max_length=2)


@pytest.fixture(scope="module")
def client(live: LiveServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{live.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def ask(client: openai.OpenAI, **options: Any) -> Any:
    given = {"model": "tiny", "messages": QUESTION, "temperature": 1, "seed": 5, "max_tokens": 120}
    return client.chat.completions.create(**(given | options))


def schema_of(schema: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "a", "strict": True, "schema": schema}}


@pytest.mark.parametrize("seed", [1, 2])
def test_openais_parse_gives_the_model(client: openai.OpenAI, seed: int) -> None:
    answer = client.chat.completions.parse(
        model="tiny",
        messages=QUESTION,
        response_format=Block,
        temperature=1,
        seed=seed,
        max_tokens=200,
    )
    (choice,) = answer.choices
    assert choice.finish_reason == "stop"
    assert isinstance(choice.message.parsed, Block)


def test_openais_stream_gives_the_model(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(
        model="tiny", messages=QUESTION, response_format=Block, temperature=1, max_tokens=200
    ) as stream:
        parsed = stream.get_final_completion().choices[0].message.parsed
    assert isinstance(parsed, Block)


def test_a_json_object_is_an_object_and_text_is_text(client: openai.OpenAI) -> None:
    text = ask(client, response_format={"type": "json_object"}).choices[0].message.content
    assert text.startswith("{")
    plain = ask(client).choices[0].message.content
    assert ask(client, response_format={"type": "text"}).choices[0].message.content == plain


@pytest.mark.parametrize(
    ("fields", "form"),
    [
        ({"structured_outputs": {"regex": "[ab]{3}"}}, "[ab]{3}"),
        ({"structured_outputs": {"choice": ["yes", "no"]}}, "yes|no"),
        ({"structured_outputs": {"json": {"type": "boolean"}}}, "true|false"),
        ({"structured_outputs": {"grammar": 'root ::= "x" | "y" "z"'}}, "x|yz"),
        ({"guided_regex": "[ab]{3}"}, "[ab]{3}"),
        ({"guided_choice": ["yes", "no"]}, "yes|no"),
        ({"guided_json": '{"type": "boolean"}'}, "true|false"),
        ({"guided_grammar": 'root ::= "x" | "y" "z"'}, "x|yz"),
    ],
)
def test_vllms_fields(client: openai.OpenAI, fields: dict[str, Any], form: str) -> None:
    (choice,) = ask(client, extra_body=fields).choices
    assert re.fullmatch(form, choice.message.content)
    assert choice.finish_reason == "stop"
    completion = client.completions.create(
        model="tiny", prompt="A", n=2, max_tokens=50, extra_body=fields
    )
    for each in completion.choices:
        assert re.fullmatch(form, each.text)


BAD = [
    ({"response_format": schema_of({"not": {}})}, "response_format", 'Unimplemented keys: ["not"]'),
    (
        {"response_format": schema_of({"type": "array", "uniqueItems": True})},
        "response_format",
        "uniqueItems",
    ),
    (
        {"response_format": schema_of({"enum": [*range(20_000)]})},
        "response_format",
        "at most 1,024 are allowed",
    ),
    (
        {"response_format": schema_of({"type": "string", "pattern": "foo**"})},
        "response_format",
        "'**' is wrong",
    ),
    (
        {"response_format": {"type": "json_schema"}},
        "response_format.json_schema",
        "need each other",
    ),
    ({"response_format": {"type": "xml"}}, "response_format.type", "json_object"),
    ({"response_format": schema_of(5)}, "response_format.json_schema.schema", "valid object"),
    (
        {"structured_outputs": {"regex": "a", "whitespace_pattern": "a+"}},
        "structured_outputs",
        "the fields here are",
    ),
    ({"structured_outputs": {"regex": "(?=a)b"}}, "structured_outputs", "look-around"),
    ({"structured_outputs": {}}, "structured_outputs", "must be one of json, regex"),
    ({"structured_outputs": {"regex": "a", "json": {}}}, "structured_outputs", "must be one of"),
    ({"guided_choice": []}, "guided_choice", "choice must be a list of texts"),
    (
        {"guided_regex": "a", "response_format": {"type": "json_object"}},
        "guided_regex",
        "cannot be combined",
    ),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("fields", "param", "text"), BAD)
def test_what_cannot_be_compiled_is_a_400_that_names_the_field(
    client: openai.OpenAI, fields: dict[str, Any], param: str, text: str, stream: bool
) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        list(ask(client, extra_body=fields, stream=stream))
    assert (error.value.param, text in error.value.message) == (param, True), error.value


def test_a_form_ends_where_it_is_complete(live: LiveServer, client: openai.OpenAI) -> None:
    """Also under ignore_eos. The request beside it gets its tokens."""
    plain = {"max_tokens": 40, "extra_body": {"ignore_eos": True}}
    expected = ask(client, **plain).choices[0].message.content
    stream = ask(client, **plain, stream=True)
    ended = ask(client, extra_body={"guided_regex": "ab", "ignore_eos": True}).choices[0]
    assert (ended.message.content, ended.finish_reason) == ("ab", "stop")
    assert "".join(chunk.choices[0].delta.content for chunk in stream) == expected
    live.assert_idle()


@pytest.mark.parametrize(
    "form", [Block, {"regex": "a+"}, {"choice": ["a", "b"]}, {"json_object": True}]
)
def test_a_form_is_the_same_in_the_engine_process(form: Any) -> None:
    params = SamplingParams(structured=form)
    data = msgspec.msgpack.encode(Add.of([Request("a", [1], params)]))
    (request,) = msgspec.msgpack.decode(data, type=Command).requests()
    assert request.sampling_params == params


def test_the_document_says_so(client: openai.OpenAI, live: LiveServer) -> None:
    document = client.get("/../openapi.json", cast_to=object)
    schemas: Any = json.loads(json.dumps(document))["components"]["schemas"]
    for name in ("ChatCompletionRequest", "CompletionRequest"):
        assert {"response_format", "structured_outputs", "guided_regex"} <= set(
            schemas[name]["properties"]
        )
    assert schemas["JsonSchema"]["required"] == ["name", "schema"]
