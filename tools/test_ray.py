"""Ray Serve in front of two replicas: examples/ray_serve, asked as clients ask."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("starlette", reason="the server is the extra 'serve'")

from examples.routers import free_ports
from tools.test_routers import CHAT, GROUPS, TEXT, cached_by_turns, chat, deltas, leave_early, post, prefix, until

ROOT = Path(__file__).resolve().parent.parent
RAY = ROOT / ".venv" / "ray"
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not RAY.exists(), reason="`make nightly` installs Ray"),
]


@contextmanager
def ray_serve(end: int = signal.SIGTERM, **options: object) -> Iterator[tuple[int, int]]:
    """The port, and the process that has started all other ones; end: the signal that ends it.

    options: of examples/ray_serve/app.py.
    """
    (port,) = free_ports(1)
    command = [sys.executable, "examples/ray_serve/here.py", "--port", str(port)]
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(RAY), str(ROOT)]), "MINI_VLLM_CONFIG": json.dumps(options)}
    with subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any("Ask them" in line for line in process.stdout), "it has not started"
        yield port, process.pid
        process.send_signal(end)
        process.stdout.read()


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[int, int]]:
    with ray_serve() as made:
        yield made


@pytest.fixture(scope="module")
def port(cluster: tuple[int, int]) -> int:
    return cluster[0]


@pytest.fixture(scope="module")
def url(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def run_batch(folder: Path) -> list[dict[str, str]]:
    """The answers that are there after a run."""
    command = [sys.executable, "examples/ray_data/batch.py", folder / "prompts", folder / "answers"]
    options = ["--max-tokens", "8", "--batch-size", "4", "--num-engines", "2"]
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(RAY), str(ROOT)])}
    subprocess.run(
        list(map(str, [*command, *options])), cwd=ROOT, env=env, check=True, capture_output=True, timeout=300
    )
    files = (folder / "answers").glob("*.json")
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_a_batch_over_files_goes_on_where_it_was(tmp_path: Path) -> None:
    """The second run writes the rows that are new, and no other one again."""
    for name in ("prompts", "answers"):
        (tmp_path / name).mkdir()
    question = {"role": "user", "content": "What is a KV block?"}
    rows = [{"id": f"a{i}", "messages": [question]} for i in range(6)]
    (tmp_path / "prompts" / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    first = run_batch(tmp_path)
    assert sorted(row["id"] for row in first) == [row["id"] for row in rows]
    assert {row["text"] for row in first} == {"A KV block is a fixed-size"}
    more = [{"id": f"b{i}", "messages": [question]} for i in range(3)]
    (tmp_path / "prompts" / "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in more))
    second = run_batch(tmp_path)
    assert sorted(row["id"] for row in second) == [row["id"] for row in rows + more]


def test_answers_are_those_of_a_server(url: str) -> None:
    status, whole = post(url + CHAT, chat("What is a KV block?"))
    assert status == 200
    status, stream = post(url + CHAT, chat("What is a KV block?", stream=True))
    assert stream.rstrip().endswith("data: [DONE]")
    assert deltas(stream) == json.loads(whole)["choices"][0]["message"]["content"]
    for body in ({"max_tokens": -1}, {"prompt": 5}, {"nothing": 1}):
        assert post(url + TEXT, {"model": "tiny", **body})[0] == 400
    assert post(url + "/v1/nowhere", {})[0] == 404


def test_a_prefix_stays_with_one_replica(url: str) -> None:
    found = cached_by_turns(url)
    assert [num >= 64 for num in found] == [False] * GROUPS + [True] * 5 * GROUPS, found


def num_running(port: int) -> int:
    """In the replicas that answer; each call may go to another one."""
    found = 0
    for _ in range(8):
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        found += sum(map(float, re.findall(r"^vllm:num_requests_running\{.*\} (\S+)$", text, re.MULTILINE)))
    return int(found)


def test_a_client_that_leaves_ends_its_request(port: int) -> None:
    leave_early(port, lambda: num_running(port) > 0)


def test_by_prefix_more_is_found_than_by_the_length_of_queues(url: str) -> None:
    """The same prompts through Ray's default router, in a cluster of its own."""
    by_prefix = cached_by_turns(url, "Again")
    with ray_serve(signal.SIGINT, routing="queues") as (port, _):
        by_queues = cached_by_turns(f"http://127.0.0.1:{port}", "Again")
    assert sum(num >= 64 for num in by_prefix) == 5 * GROUPS, by_prefix
    assert sum(by_queues) < sum(by_prefix), by_queues


def children(pid: int, name: str) -> list[int]:
    """Processes of this name that a process has started."""
    found = subprocess.run(["pgrep", "-P", str(pid), "-f", name], capture_output=True, text=True)
    return [int(each) for each in found.stdout.split()]


def test_a_replica_that_is_killed_is_replaced(url: str, cluster: tuple[int, int]) -> None:
    (raylet,) = children(cluster[1], "/raylet ")
    replicas = children(raylet, "ray::ServeReplica:mini_vllm:Engine")
    assert len(replicas) == 2
    os.kill(replicas[0], signal.SIGKILL)
    answers = [post(url + CHAT, chat(prefix(turn % GROUPS) + "And now?"))[0] for turn in range(16)]
    assert answers[4:] == [200] * 12, "Ray loses what it sends before it has noticed"
    until(
        lambda: len(children(raylet, "ray::ServeReplica:mini_vllm:Engine")) == 2,
        "another one has taken its place",
    )
