"""What the server says of itself in /openapi.json holds for what it takes and gives."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from jsonschema import Draft202012Validator

from mini_vllm.serving.conftest import LiveServer
from mini_vllm.serving.openai.openapi import openapi_document
from mini_vllm.serving.routes import ENDPOINTS

QUESTION = [{"role": "user", "content": "What is a KV block?"}]


@cache
def validator(name: str) -> Draft202012Validator:
    document = openapi_document(ENDPOINTS)
    return Draft202012Validator(
        {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    )


def call(live: LiveServer, path: str, body: Any = None) -> tuple[int, bytes]:
    data = None if body is None else json.dumps(body).encode()
    try:
        with urlopen(Request(live.url + path, data), timeout=60) as answer:
            return answer.status, answer.read()
    except HTTPError as error:
        return error.code, error.read()


@pytest.mark.slow
def test_its_schemas_are_schemas(live: LiveServer) -> None:
    for name in json.loads(call(live, "/openapi.json")[1])["components"]["schemas"]:
        Draft202012Validator.check_schema(validator(name).schema)


def test_the_document_is_served(live: LiveServer) -> None:
    status, text = call(live, "/openapi.json")
    assert status == 200
    document = json.loads(text)
    promised = {
        "/health",
        "/v1/models",
        "/v1/chat/completions/render",
        "/v1/completions/render",
        "/get_load",
        "/version",
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/responses",
        "/tokenize",
        "/detokenize",
    }
    others = {"/metrics", "/openapi.json", "/", "/engine/steps", "/v1/models/{name:path}"}
    assert document["paths"].keys() == promised
    assert {route.path for route in live.server.router.routes} == promised | others
    answers = {"/health": "Health", "/v1/models": "Models"}
    for path, name in answers.items():
        validator(name).validate(json.loads(call(live, path)[1]))


@pytest.mark.parametrize("logprobs", [False, True])
@pytest.mark.parametrize("n", [1, 2])
def test_answers_and_chunks_are_as_it_says(live: LiveServer, logprobs: bool, n: int) -> None:
    shared: dict[str, Any] = {"n": n, "max_tokens": 6, "seed": 1}
    chat = {**shared, "messages": QUESTION} | (
        {"logprobs": True, "top_logprobs": 2, "return_token_ids": True} if logprobs else {}
    )
    text = {**shared, "prompt": ["A KV block", "A step"], "echo": True} | (
        {"logprobs": 2, "return_token_ids": True} if logprobs else {}
    )
    for path, body, name in (
        ("chat/completions", chat, "ChatCompletion"),
        ("completions", text, "Completion"),
    ):
        status, answer = call(live, f"/v1/{path}", body | {"prompt_logprobs": 2})
        assert status == 200
        validator(name).validate(json.loads(answer))
        every = {"include_usage": True, "continuous_usage_stats": True}
        for options in ({}, {"stream_options": {"include_usage": True}}, {"stream_options": every}):
            status, stream = call(live, f"/v1/{path}", body | options | {"stream": True})
            events = [line[6:] for line in stream.splitlines() if line]
            assert (status, events[-1]) == (200, b"[DONE]")
            for event in events[:-1]:
                validator(f"{name}Chunk").validate(json.loads(event))
    for path, small, name in (
        ("tokenize", {"prompt": "a b"}, "Tokens"),
        ("detokenize", {"tokens": [70]}, "Text"),
    ):
        validator(name).validate(json.loads(call(live, f"/{path}", small)[1]))


ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    1.5,
    1e300,
    2**63,
    2**64,
    "",
    "a",
    "\ud800",
    [],
    [1],
    ["a"],
    [[1]],
    {},
    {"a": 1},
]


@pytest.mark.parametrize("num_bodies", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_any_body_gets_an_answer_or_a_refusal(live: LiveServer, num_bodies: int) -> None:
    """Fields of any value: never a failure of the server, and a refusal has the shape that clients
    know.
    """
    rng = random.Random(num_bodies)
    schemas = openapi_document(ENDPOINTS)["components"]["schemas"]
    routes = {
        "/v1/chat/completions": ("ChatCompletionRequest", {"messages": QUESTION, "max_tokens": 2}),
        "/v1/completions": ("CompletionRequest", {"prompt": "a", "max_tokens": 2}),
        "/v1/responses": ("ResponsesRequest", {"input": "a", "max_output_tokens": 2}),
        "/tokenize": ("TokenizeRequest", {"prompt": "a"}),
        "/detokenize": ("DetokenizeRequest", {"tokens": [70]}),
    }
    statuses = set()
    for _ in range(num_bodies):
        path = rng.choice(list(routes))
        name, base = routes[path]
        fields = [*schemas[name]["properties"], "surprise"]
        body = base | {field: rng.choice(ODD) for field in rng.sample(fields, rng.randint(1, 3))}
        if body.get("max_tokens") in (None, 2**63, 2**64) or body.get("max_completion_tokens"):
            body["max_tokens"] = 2
            body.pop("max_completion_tokens", None)
        if body.get("max_output_tokens", 2) is None:
            body["max_output_tokens"] = 2
        status, answer = call(live, path, body)
        statuses.add(status)
        assert status in (200, 400, 404), (body, answer)
        if status != 200:
            validator("Error").validate(json.loads(answer))
    assert statuses >= {200, 400}


# --- schemathesis ---------------------------------------------------------------------------------

ROOT = Path(__file__).resolve().parents[2]
SCHEMATHESIS = ROOT / ".venv" / "schemathesis" / "bin" / "schemathesis"
CHECKS = (
    "not_a_server_error,status_code_conformance,"
    "content_type_conformance,response_schema_conformance"
)


@pytest.fixture
def url() -> Iterator[str]:
    command = [sys.executable, "-c", "from mini_vllm.cli import main; main()", "serve", "--port=0"]
    with subprocess.Popen(
        [*command, "--max-model-len=128"], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        yield server.stdout.readline().split("served at ")[1].partition("/v1")[0]
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0


@pytest.mark.nightly
@pytest.mark.skipif(not SCHEMATHESIS.exists(), reason="make test-openapi installs schemathesis")
def test_no_body_is_an_error_of_the_server(url: str, tmp_path: Path) -> None:
    number = os.environ.get("NUM_CASES", "50")
    options = [
        "--checks",
        CHECKS,
        "--max-examples",
        number,
        "--seed",
        "1",
        "--no-color",
        "--no-shrink",
        "--request-timeout",
        "600",
    ]
    ran = subprocess.run(
        [str(SCHEMATHESIS), "run", f"{url}/openapi.json", *options, "--continue-on-failure"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    sys.stdout.write(ran.stdout)
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-1000:]
