"""Public routers in front of two servers: examples/routers.py, asked as clients ask."""

import json
import re
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("starlette", reason="the server is the extra 'serve'")

from examples.routers import ROUTERS, Cluster

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = [ROOT / ".venv" / "routers" / "bin" / name for name in ROUTERS]
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not COMMANDS[0].exists(), reason="`make nightly` installs the routers"),
]
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
ASK: dict[str, Any] = {"model": "tiny", "max_tokens": 8, "temperature": 0}
GROUPS = 5  # odd, so that taking turns would send a group to both servers


@pytest.fixture(scope="module", params=COMMANDS, ids=lambda path: path.name)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(str(request.param), folder=tmp_path_factory.mktemp("logs")) as made:
        yield made


def post(url: str, body: dict[str, Any]) -> tuple[int, str]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def chat(content: str, **more: Any) -> dict[str, Any]:
    return {**ASK, "messages": [{"role": "user", "content": content}], **more}


def prefix(group: int) -> str:
    """A text of its own for each group, some blocks long."""
    return f"Group {group}. " + f"{'abcdef'[group]} block table {group} " * 20


def num_cached(answer: str) -> int:
    return int(json.loads(answer)["usage"]["prompt_tokens_details"]["cached_tokens"])


def test_answers_are_those_of_a_server(cluster: Cluster) -> None:
    """13 chats and 13 completions: whole, streamed, with tools, with forms, and refused."""
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    forms = [{}, {"n": 2}, {"logprobs": True, "top_logprobs": 2}, {"stop": "of"}, {"seed": 5, "temperature": 1}]
    forms += [{"tools": [tool]}, {"response_format": {"type": "text"}}, {"stream": True}, {"max_tokens": 1}]
    forms += [{"presence_penalty": 1}, {"logit_bias": {"5": -100}}, {"user": "u"}, {"temperature": -1}]
    texts = [{}, {"n": 2}, {"logprobs": 2}, {"stop": "of"}, {"seed": 5, "temperature": 1}, {"echo": True}]
    texts += [{"prompt": ["a", "b"]}, {"min_p": 0.1}, {"stream": True}, {"max_tokens": 1}]
    texts += [{"presence_penalty": 1}, {"suffix": ""}, {"temperature": -1}]
    asked = [(CHAT, chat("What is a KV block?", **form)) for form in forms]
    asked += [(TEXT, {**ASK, "prompt": "A KV block", **form}) for form in texts]
    for path, body in asked:
        through, alone = (post(url + path, body) for url in (cluster.url, cluster.servers[0]))
        assert through[0] == alone[0], (body, through, alone)
        if through[0] == 200 and not body.get("stream"):
            assert told(through[1]) == told(alone[1]), body
        elif through[0] == 200:
            assert through[1].rstrip().endswith("data: [DONE]")
            assert deltas(through[1]) == deltas(alone[1])
    assert [path for path, body in asked if body["temperature"] == -1] == [CHAT, TEXT]


def told(text: str) -> list[Any]:
    return [[each.get("text"), each.get("message"), each["finish_reason"]] for each in json.loads(text)["choices"]]


def deltas(text: str) -> str:
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    choices = [choice for event in events for choice in event["choices"]]
    return "".join(each.get("text") or each.get("delta", {}).get("content") or "" for each in choices)


def cached_by_turns(url: str, name: str = "Turn") -> list[int]:
    """Of groups of prompts that begin alike, in turns: how many tokens of each prompt were found."""
    found = []
    for turn in range(6):
        for group in range(GROUPS):
            status, text = post(url + CHAT, chat(f"{name} of " + prefix(group) + f"Turn {turn}."))
            assert status == 200, text
            found.append(num_cached(text))
    return found


def test_a_prefix_stays_with_one_server(cluster: Cluster) -> None:
    """Of each group of prompts the second and later ones find the prefix of the first."""
    found = cached_by_turns(cluster.url)
    assert [num >= 64 for num in found] == [False] * GROUPS + [True] * 5 * GROUPS, found


def test_by_prefix_more_is_found_than_in_turn(cluster: Cluster, tmp_path: Path) -> None:
    """The same prompts through the same router, which takes the servers in turn: each server computes each prefix."""
    router, by_prefix = cluster.router, cached_by_turns(cluster.url, "Again")
    with Cluster(router, options=["--policy", "round_robin"], folder=tmp_path) as in_turn:
        found = cached_by_turns(in_turn.url, "Again")
    assert sum(num >= 64 for num in found) == 4 * GROUPS, found
    assert sum(found) < 0.9 * sum(by_prefix)


def until(holds: Callable[[], bool], what: str) -> None:
    for _ in range(600):
        if holds():
            return
        time.sleep(0.1)
    raise AssertionError(f"not so: {what}")


def num_running(url: str) -> int:
    """Requests that run in the server which answers there."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    return int(sum(map(float, re.findall(r"^vllm:num_requests_running\{.*\} (\S+)$", text, re.MULTILINE))))


def leave_early(port: int, is_running: Callable[[], bool]) -> None:
    """Ask for a long stream, and close the connection when its first bytes are here: it must end."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    body = {"model": "tiny", "prompt": "a", "max_tokens": 2000, "ignore_eos": True, "stream": True, "n": 16}
    connection.request("POST", TEXT, json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    assert answer.read(10)
    until(is_running, "it runs")
    answer.close()
    connection.close()
    until(lambda: not is_running(), "it has ended")


def test_a_client_that_leaves_ends_its_request(cluster: Cluster) -> None:
    leave_early(int(cluster.url.rpartition(":")[2]), lambda: any(map(num_running, cluster.servers)))


def test_a_server_that_is_killed_is_left_out(cluster: Cluster) -> None:
    cluster.end(cluster.servers[1], signal.SIGKILL)
    answers = [post(cluster.url + CHAT, chat(prefix(turn % GROUPS) + "And now?"))[0] for turn in range(16)]
    assert answers[4:] == [200] * 12, "vllm-router loses what it sends before it has noticed"
