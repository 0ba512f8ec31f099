"""Two tenants on one server: what each may do, find and see."""

import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from typing import Any

import openai
import pytest

from mini_vllm.serving.conftest import LiveServer

KEYS = {"alice": "key-of-alice", "bob": "key-of-bob"}
TENANTS = {name: sha256(key.encode()).hexdigest() for name, key in KEYS.items()}
CONFIG = {"num_kv_blocks": 200, "scheduler": "tenants", "hash_function": "sha256"}
OPTIONS = {"tenants": TENANTS, "api_keys": ("key-of-the-operator",)}
PROMPT = list(range(100, 180))  # five blocks


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    server = LiveServer(CONFIG, {}, OPTIONS)
    yield server
    server.assert_idle()
    server.stop()


def num_cached(server: LiveServer, key: str, prompt: list[int] = PROMPT, **fields: Any) -> int:
    """How many tokens of the prompt a client with this key finds."""
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0) as client:
        answer = client.completions.create(model="tiny", prompt=prompt, max_tokens=1, **fields)
    assert answer.usage is not None
    details = answer.usage.prompt_tokens_details
    return details.cached_tokens or 0 if details is not None else 0


def ask(
    server: LiveServer, path: str, authorization: str | None = None, body: Any = None
) -> tuple[int, str]:
    """The status and the text of an answer."""
    headers = {} if authorization is None else {"Authorization": authorization}
    headers |= {} if body is None else {"Content-Type": "application/json"}
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
        connection.request(
            "GET" if body is None else "POST", path, body and json.dumps(body), headers
        )
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def status_of(server: LiveServer, path: str, key: str, body: Any = None) -> int:
    return ask(server, path, f"Bearer {key}", body)[0]


def test_no_tenant_finds_what_another_one_has_computed(server: LiveServer) -> None:
    alice, bob, operator = KEYS["alice"], KEYS["bob"], "key-of-the-operator"
    for key in (alice, bob, operator):
        assert num_cached(server, key) == 0
        assert num_cached(server, key) == 64  # the last block is computed again
    salted = {"extra_body": {"cache_salt": "mine"}}
    # a salt of one's own keeps one's own requests apart, too
    assert num_cached(server, alice, **salted) == 0
    assert num_cached(server, alice, **salted) == 64
    for forged in ("alice/", "alice/mine", "/mine", "mine"):
        assert num_cached(server, bob, extra_body={"cache_salt": forged}) == 0
    pool = server.core.scheduler.kv_cache_manager.tenant_pool
    names = {block.block_hash for block in pool.blocks if block.block_hash is not None}
    assert len(names) == 8 * 5  # of equal tokens, under eight salts
    assert all(isinstance(name, bytes) and len(name) == 32 for name in names)


@pytest.mark.parametrize(
    "path", ["/", "/metrics", "/engine/steps", "/openapi.json", "/v1/models", "/nowhere"]
)
def test_without_a_key_there_is_nothing_but_health(server: LiveServer, path: str) -> None:
    for key in ("", "key-of-alic", "key-of-alicee", TENANTS["alice"], f"sha256:{TENANTS['alice']}"):
        assert status_of(server, path, key) == 401
    for authorization in (None, "Basic " + KEYS["alice"], "bearer-" + KEYS["alice"], KEYS["alice"]):
        assert ask(server, path, authorization)[0] == 401
    assert ask(server, "/health")[0] == 200


def test_a_tenant_does_not_see_what_others_do(server: LiveServer) -> None:
    for path in ("/", "/metrics", "/engine/steps"):
        assert status_of(server, path, KEYS["alice"]) == 403
    for path in ("/", "/metrics"):
        assert status_of(server, path, "key-of-the-operator") == 200
    assert status_of(server, "/v1/models", KEYS["alice"]) == 200


@pytest.mark.parametrize(
    "path", ["/metrics%0A", "/%0A", "/engine/steps%0A", "/metrics/", "//metrics", "/v1/models%0A"]
)
def test_no_path_has_a_second_name(server: LiveServer, path: str) -> None:
    """A pattern's `$` also stands before a newline, so "/metrics" and a newline would match the
    route of /metrics.
    """
    for key in (KEYS["alice"], "key-of-the-operator"):
        assert status_of(server, path, key) == 404
    assert status_of(server, "/health%0A", "wrong") == 401


def test_metrics_tell_the_usage_of_each_tenant(serve: Any) -> None:
    server = serve(CONFIG | {"cache_quotas": {"bob": 3}}, {}, OPTIONS)
    for name in ("alice", "bob", "bob"):
        num_cached(server, KEYS[name])
    lines = ask(server, "/metrics", "Bearer key-of-the-operator")[1].splitlines()
    found = {
        line.split()[0]: float(line.split()[1])
        for line in lines
        if line.startswith("mini_vllm:tenant_")
    }

    def usage(name: str, tenant: str) -> float:
        return found[f'mini_vllm:tenant_{name}{{model_name="tiny",tenant="{tenant}"}}']

    # what was freed last is not swept yet
    assert [usage("blocks_cached", name) for name in ("alice", "bob")] == [5, 5]
    assert [usage("blocks_held", name) for name in ("alice", "bob")] == [0, 0]
    assert [usage("requests_waiting", name) for name in ("alice", "bob")] == [0, 0]


def test_a_tenants_queue_is_full_for_itself_alone(serve: Any) -> None:
    server = serve(CONFIG | {"max_num_seqs": 1}, {"max_queue": 2}, OPTIONS)

    def status(name: str, num_choices: int) -> int:
        body = {"prompt": PROMPT, "max_tokens": 1, "n": num_choices}
        return status_of(server, "/v1/completions", KEYS[name], body)

    server.in_loop(lambda: server.engine.admission.waiting.update({"there": ("bob", 2)}))
    assert [status("bob", 1), status("alice", 2), status("alice", 3)] == [429, 200, 429]
    server.in_loop(server.engine.admission.waiting.clear)
    assert status("bob", 1) == 200
