"""Which calls are let in: from browsers of other pages, by names of this machine, by methods. Keys:
test_chat.py.
"""

import http.client
import json
from contextlib import closing
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from mini_vllm.serving.conftest import LiveServer

PAGE = "https://page.example"


def ask(
    server: LiveServer, method: str, path: str, headers: dict[str, str], body: bytes | None = None
) -> Any:
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        response.read()
        return response


@pytest.fixture(scope="module")
def guarded() -> Any:
    options = {
        "allowed_origins": (PAGE,),
        "allowed_hosts": ("127.0.0.1", "[::1]", "localhost"),
        "api_keys": ("k",),
    }
    server = LiveServer({"num_kv_blocks": 200}, {}, options)
    yield server
    server.stop()


KEY = {"Authorization": "Bearer k"}


@pytest.mark.parametrize("path", ["/v1/models", "/v1/chat/completions", "/health", "/nowhere"])
def test_without_an_allowed_origin_no_answer_names_one(live: LiveServer, path: str) -> None:
    for method in ("GET", "OPTIONS", "POST"):
        response = ask(
            live, method, path, {"Origin": PAGE, "Access-Control-Request-Method": "POST"}
        )
        assert not [name for name in response.headers if name.lower().startswith("access-control")]
        assert method != "OPTIONS" or response.status in (404, 405)


def test_an_allowed_page_asks_before_it_has_a_key_and_may_call(guarded: LiveServer) -> None:
    asks = {
        "Origin": PAGE,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization",
    }
    response = ask(guarded, "OPTIONS", "/v1/chat/completions", asks)
    assert response.status == 204
    assert response.headers["Access-Control-Allow-Origin"] == PAGE
    assert "authorization" in response.headers["Access-Control-Allow-Headers"]
    answer = ask(guarded, "GET", "/v1/models", {"Origin": PAGE, **KEY})
    assert (answer.status, answer.headers["Access-Control-Allow-Origin"]) == (200, PAGE)
    refused = ask(guarded, "GET", "/v1/models", {"Origin": PAGE})
    # the page can read why
    assert (refused.status, refused.headers["Access-Control-Allow-Origin"]) == (401, PAGE)


@pytest.mark.parametrize(
    "origin", ["https://other.example", PAGE + ".evil.example", PAGE + ":444", "null", "*", ""]
)
def test_another_page_is_told_nothing(guarded: LiveServer, origin: str) -> None:
    response = ask(guarded, "GET", "/v1/models", {"Origin": origin, **KEY})
    assert "Access-Control-Allow-Origin" not in response.headers
    for asks in (
        {},
        {"Access-Control-Request-Method": "GET"},
    ):  # Starlette's middleware answers the latter, without a key
        response = ask(guarded, "OPTIONS", "/v1/models", {"Origin": origin, **asks})
        assert response.status == 401
        assert not [name for name in response.headers if name.lower().startswith("access-control")]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *(
            ("127.0.0.1:8000", 200),
            ("LOCALHOST", 200),
            ("[::1]:8000", 200),
            ("evil.example", 403),
            ("[::2]", 403),
        ),
        *(
            ("localhost.evil.example", 403),
            ("evil.example:127", 403),
            ("", 403),
            ("evil.example/127.0.0.1", 403),
        ),
    ],
)
def test_a_name_that_is_not_the_servers_is_refused(
    guarded: LiveServer, host: str, status: int
) -> None:
    assert ask(guarded, "GET", "/v1/models", {"Host": host, **KEY}).status == status
    # a key is asked for before a name
    assert ask(guarded, "GET", "/v1/models", {"Host": host}).status == 401
    assert ask(guarded, "GET", "/health", {"Host": host}).status == 200  # a probe may use any name


@pytest.mark.parametrize(
    ("method", "path"), [("DELETE", "/v1/models"), ("GET", "/v1/completions"), ("PUT", "/health")]
)
def test_another_method_is_refused_with_those_that_are_allowed(
    live: LiveServer, method: str, path: str
) -> None:
    response = ask(live, method, path, {})
    assert response.status == 405
    assert response.headers["Allow"] in ("GET", "POST")


def test_a_page_of_another_host_computes_nothing_that_a_browser_would_send_unasked(
    live: LiveServer,
) -> None:
    body = b'{"prompt": "a", "max_tokens": 1}'
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=a",
        "",
    ):
        for origin in (PAGE, "null", f"{live.url}.evil.example"):
            assert (
                ask(
                    live, "POST", "/v1/completions", {"Origin": origin, "Content-Type": kind}, body
                ).status
                == 403
            )
    for headers in (
        {"Origin": live.url, "Content-Type": "text/plain"},
        {"Content-Type": "text/plain"},
    ):
        assert ask(live, "POST", "/v1/completions", headers, body).status == 200


@pytest.mark.parametrize(
    ("given", "status"),
    [
        *(
            ("Bearer k", 200),
            ("bearer k", 200),
            ("BEARER k", 200),
            ("bEaReR k", 200),
            ("Bearer  k", 200),
        ),
        *(("Bearer K", 401), ("Basic k", 401), ("Bearerk", 401), ("k", 401), ("", 401)),
    ],
)
def test_the_scheme_of_a_key_is_written_in_any_case_and_the_key_is_not(
    guarded: LiveServer, given: str, status: int
) -> None:
    assert ask(guarded, "GET", "/v1/models", {"Authorization": given}).status == status


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/v1/embeddings", "no vectors"),
        ("/v1/messages", "Anthropic"),
        ("/v1/audio/speech", "text alone"),
        ("/v1/images/generations", "text alone"),
        ("/v1/files", "keeps nothing"),
        ("/rerank", "no scores"),
        ("/api/chat", "Ollama"),
        ("/chat/completions", "one /v1"),
        ("/v1/v1/chat/completions", "one /v1"),
        ("/v1/nosuch", ""),
    ],
)
def test_a_path_of_another_server_is_told_what_is_here(
    live: LiveServer, path: str, why: str
) -> None:
    with pytest.raises(HTTPError) as refusal:
        urlopen(live.url + path, b"{}", timeout=60)
    assert refusal.value.code == 404
    said = json.load(refusal.value)["error"]["message"]
    assert "is not here" in said
    assert why in said
    assert "/v1/chat/completions" in said
