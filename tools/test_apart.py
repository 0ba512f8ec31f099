"""vllm-router in front of a prefiller and a decoder, and of servers that publish what they have cached."""

import json
import signal
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("starlette", reason="the server is the extra 'serve'")

from examples.routers import Apart, ByEvents
from tools.test_routers import CHAT, TEXT, chat, deltas, num_cached, post, prefix, told

ROUTER = Path(__file__).resolve().parent.parent / ".venv" / "routers" / "bin" / "vllm-router"
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not ROUTER.exists(), reason="`make nightly` installs the routers"),
]


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apart]:
    with Apart(str(ROUTER), tmp_path_factory.mktemp("logs")) as made:
        yield made


def num_hits(url: str) -> float:
    """Tokens of prompts that a server did not compute."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    (found,) = [line for line in lines if line.startswith("vllm:prefix_cache_hits_total")]
    return float(found.split()[-1])


def test_the_answers_are_those_of_one_server(apart: Apart) -> None:
    """The decoder has the blocks of each prompt before it has seen one."""
    prefiller, decoder = apart.servers
    forms: list[dict[str, Any]] = [{}, {"n": 2}, {"seed": 5, "temperature": 1}, {"stream": True}, {"max_tokens": 1}]
    asked = [(CHAT, chat(prefix(number), **form)) for number, form in enumerate(forms)]
    asked += [(TEXT, {"model": "tiny", "temperature": 0, "prompt": prefix(number)[9:], **form})
              for number, form in enumerate(forms)]  # fmt: skip
    for path, body in asked:
        before = num_hits(decoder)
        through = post(apart.url + path, body)
        assert num_hits(decoder) - before >= 64, body
        alone = post(prefiller + path, body)
        assert (through[0], alone[0]) == (200, 200), (body, through, alone)
        if body.get("stream"):
            assert deltas(through[1]) == deltas(alone[1])
        else:
            assert told(through[1]) == told(alone[1]), body


def test_what_belongs_to_the_other_role_is_refused(apart: Apart) -> None:
    for url, params in zip(apart.servers, ({"do_remote_prefill": True}, {"do_remote_decode": True}), strict=True):
        status, text = post(url + CHAT, chat("What is a KV block?", kv_transfer_params=params))
        assert status == 400
        assert json.loads(text)["error"]["param"] == "kv_transfer_params"


def test_a_prefiller_that_is_gone_is_a_miss(apart: Apart) -> None:
    """Its answer is there, and it is killed before the blocks are pulled."""
    prefiller, decoder = apart.servers
    body = chat("What is a block table? Say it in one sentence, please, and not in two of them.")
    expected = post(decoder + CHAT, body)
    given = {**body, "max_tokens": 1, "kv_transfer_params": {"do_remote_decode": True}}
    status, text = post(prefiller + CHAT, given)
    params = json.loads(text)["kv_transfer_params"]
    assert (status, params["do_remote_prefill"]) == (200, True)
    apart.end(prefiller, signal.SIGKILL)
    late = {**body, "cache_salt": "so that nothing is cached here", "kv_transfer_params": params}
    assert told(post(decoder + CHAT, late)[1]) == told(expected[1])


@pytest.mark.skipif(find_spec("zmq") is None, reason="events are the extra 'events'")
def test_a_prompt_goes_where_its_blocks_are(tmp_path: Path) -> None:
    """The router has sent none of the prompts: it knows of them by the events alone."""
    with ByEvents(str(ROUTER), tmp_path) as cluster:
        for group in range(6):
            post(cluster.servers[(group * 5 // 3) % 2] + CHAT, chat(prefix(group)))
        found = []
        for group in range(6):
            status, text = post(cluster.url + CHAT, chat(prefix(group) + "And now?"))
            assert status == 200, text
            found.append(num_cached(text))
        assert all(num >= 64 for num in found), found
