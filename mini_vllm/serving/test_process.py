"""`mini-vllm serve` as a program: it starts, it drains, and it says so when its engine is gone."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from mini_vllm.errors import InvalidParameterError
from mini_vllm.models.checkpoint import resolve_model
from mini_vllm.models.test_models import CASES, write_checkpoint
from mini_vllm.serving.run import listen

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the signals are those of POSIX")
SERVE = "from mini_vllm.cli import main; main()"
PATIENT = f"from mini_vllm.serving import run; run.GRACE = 1e6; {SERVE}"
ENDLESS = {"messages": [{"role": "user", "content": "Go on"}], "ignore_eos": True, "stream": True}


class Program:
    """A server in a process of its own."""

    def __init__(self, *options: str, max_files: int = 1024, code: str = SERVE) -> None:
        command = [
            sys.executable,
            "-c",
            code,
            "serve",
            "--port",
            "0",
            "--num-kv-blocks",
            "900",
            *options,
        ]
        self.process = subprocess.Popen(
            ["sh", "-c", f'ulimit -n {max_files}; exec "$@"', "sh", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.process.stdout is not None
        self.lines: list[str] = []
        for line in self.process.stdout:
            self.lines.append(line)
            if "is served at" in line:
                break
        assert "is served at" in "".join(self.lines[-1:]), self.lines
        self.url = self.lines[-1].split("is served at ")[1].partition("/v1")[0]
        self._rest = threading.Thread(target=lambda: self.lines.extend(self.process.stdout or ()))
        self._rest.start()

    def status(self, path: str, body: Any = None) -> int:
        return status_of(self.url + path, body)

    def get(self, path: str) -> str:
        with urlopen(self.url + path, timeout=60) as answer:
            return str(answer.read().decode())

    def children(self) -> list[int]:
        """The processes that it has started."""
        return children_of(self.process.pid)

    def end(self, number: int) -> int:
        """Send a signal, and wait for the exit status."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        status = self.process.wait(60)
        self._rest.join(60)
        return status


def children_of(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


def status_of(url: str, body: Any = None) -> int:
    data = None if body is None else json.dumps(body).encode()
    try:
        with urlopen(
            Request(url, data, {"Content-Type": "application/json"}), timeout=60
        ) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code if error.code != 503 or error.headers["Retry-After"] else -1
    except URLError:
        return 0  # nobody listens any more


def chat_request(url: str, body: Any) -> Request:
    return Request(f"{url}/v1/chat/completions", json.dumps(body).encode())


def read_stream(url: str, body: Any, has_begun: threading.Semaphore) -> list[dict[str, Any]]:
    """The events of a stream, which has to end with [DONE]."""
    events = []
    with urlopen(chat_request(url, body), timeout=60) as answer:
        for line in answer:
            if line.startswith(b"data: "):
                if not events:
                    has_begun.release()
                events.append(line[6:].strip())
    assert events[-1] == b"[DONE]", events[-1]
    return [json.loads(event) for event in events[:-1]]


@pytest.fixture
def program(request: pytest.FixtureRequest) -> Iterator[Program]:
    made = Program(*getattr(request, "param", ()))
    yield made
    if made.process.poll() is None:
        made.process.kill()
        made.wait()


@pytest.mark.parametrize("program", [("--shutdown-timeout", "600")], indirect=True)
@pytest.mark.nightly
def test_sigterm_lets_what_is_in_flight_finish(program: Program) -> None:
    """New requests are refused meanwhile, on the port that stays open."""
    has_begun, body = threading.Semaphore(0), ENDLESS | {"max_tokens": 100}
    (child,) = program.children()[-1:]
    with (
        ThreadPoolExecutor(39) as pool,
        urlopen(chat_request(program.url, ENDLESS), timeout=60) as endless,
    ):
        endless.readline()
        streams = [pool.submit(read_stream, program.url, body, has_begun) for _ in range(39)]
        for _ in streams:
            assert has_begun.acquire(timeout=60)
        program.process.send_signal(signal.SIGTERM)
        while program.status("/health") != 503:
            pass
        assert program.status("/v1/chat/completions", ENDLESS | {"max_tokens": 1}) == 503
        for stream in streams:
            assert stream.result()[-1]["choices"][0]["finish_reason"] == "length"
        assert program.status("/health") == 503
    assert program.wait() == 0  # the last client has left
    assert not os.path.exists(f"/proc/{child}"), "the engine's process is left"


@pytest.mark.nightly
@pytest.mark.parametrize("program", [("--shutdown-timeout", "0")], indirect=True)
def test_at_the_deadline_the_rest_ends_with_abort(program: Program) -> None:
    has_begun = threading.Semaphore(0)
    with ThreadPoolExecutor(8) as pool:
        streams = [pool.submit(read_stream, program.url, ENDLESS, has_begun) for _ in range(8)]
        for _ in streams:
            assert has_begun.acquire(timeout=60)
        assert program.end(signal.SIGTERM) == 0
        for stream in streams:
            assert stream.result()[-1]["choices"][0]["finish_reason"] == "abort"


@pytest.mark.nightly
def test_a_dead_engine_ends_every_stream_with_an_error(program: Program) -> None:
    has_begun = threading.Semaphore(0)
    with ThreadPoolExecutor(4) as pool:
        streams = [pool.submit(read_stream, program.url, ENDLESS, has_begun) for _ in range(4)]
        for _ in streams:
            assert has_begun.acquire(timeout=60)
        os.kill(program.children()[-1], signal.SIGKILL)
        for stream in streams:
            assert "the engine has stopped" in stream.result()[-1]["error"]["message"]
        assert program.status("/health") in (503, 0)
    assert program.wait() == 1
    assert "the engine has stopped" in "".join(program.lines)


def has_ended(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize("program", [("--tensor-parallel-size", "2")], indirect=True)
@pytest.mark.parametrize("victim", ["rank", "engine", "front"])
@pytest.mark.nightly
def test_an_idle_server_of_ranks_ends_when_any_of_its_processes_is_killed(
    program: Program, victim: str
) -> None:
    """No step runs that would find out, and no process stays behind."""
    engine = next(pid for pid in program.children() if len(children_of(pid)) == 2)
    ranks = children_of(engine)
    pids = [engine, *ranks]
    killed = {"rank": ranks[1], "engine": engine, "front": program.process.pid}
    with open(f"/proc/{engine}/maps") as file:
        rings = [word for word in file.read().split() if word.startswith("/dev/shm/psm_")]
    assert rings
    os.kill(killed[victim], signal.SIGKILL)
    assert program.wait() == (-signal.SIGKILL if victim == "front" else 1)
    if victim == "rank":
        assert "ExecutorLostError: rank 1 of 2 has ended (exit code -9)" in "".join(program.lines)
    while not all(map(has_ended, pids)):
        time.sleep(0.01)
    assert not [path for path in rings if os.path.exists(path)]


def health(program: Program) -> str:
    """What /health says, whatever the status."""
    try:
        return str(json.loads(program.get("/health"))["status"])
    except HTTPError as refusal:
        return str(json.load(refusal)["status"])


@pytest.mark.parametrize("kind", ["tensor", "expert", "data"])
@pytest.mark.nightly
def test_an_idle_server_that_loses_a_rank_says_so_and_ends(kind: str, tmp_path: Path) -> None:
    """Once it is given the time to say so, and once it ends by itself."""
    options, reason = ["--tensor-parallel-size", "2"], "rank 1 of 2 has ended (exit code -9)"
    if kind == "expert":
        case = CASES["qwen3-moe"]
        write_checkpoint(tmp_path, replace(case, options=case.options | {"vocab_size": 2048}))
        for file in resolve_model("tiny").glob("*token*.json"):
            shutil.copy(file, tmp_path)
        options += ["--enable-expert-parallel", "--model", str(tmp_path)]
    elif kind == "data":
        options, reason = ["--data-parallel-size", "2"], "replica 1: its process has ended"
    for code, status in ((PATIENT, 0), (SERVE, 1)):
        program = Program(*options, code=code)
        pids = [pid for child in program.children() for pid in (child, *children_of(child))]
        engine = program.children()[-1]
        os.kill((children_of(engine) or [engine])[-1], signal.SIGKILL)
        if code == PATIENT:
            while (said := health(program)) == "ok":
                pass
            assert reason in said
            program.process.send_signal(signal.SIGTERM)
        assert program.wait() == status
        assert code == PATIENT or reason in "".join(program.lines)
        while not all(map(has_ended, pids)):
            time.sleep(0.01)


@pytest.mark.nightly
def test_few_file_descriptors_are_enough_whatever_connects() -> None:
    """And half a body does not hold up the end, whatever time it would have."""
    program = Program("--shutdown-timeout", "1000000", max_files=64)
    with ExitStack() as stack:
        for _ in range(200):
            address = ("127.0.0.1", int(program.url.rpartition(":")[2]))
            client = stack.enter_context(socket.create_connection(address, timeout=60))
        assert program.status("/v1/chat/completions", ENDLESS | {"max_tokens": 1}) == 200
        client = stack.enter_context(socket.create_connection(address, timeout=60))
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{")
        assert program.end(signal.SIGTERM) == 0
    assert len(program.lines) < 10, "the log is not flooded"


@pytest.mark.nightly
@pytest.mark.parametrize("program", [("--engine-timeout", "2")], indirect=True)
def test_a_stopped_engine_ends_streams_and_goes_on_later(program: Program) -> None:
    has_begun = threading.Semaphore(0)
    engine = program.children()[-1]
    with ThreadPoolExecutor(4) as pool:
        streams = [pool.submit(read_stream, program.url, ENDLESS, has_begun) for _ in range(4)]
        for _ in streams:
            assert has_begun.acquire(timeout=60)
        os.kill(engine, signal.SIGSTOP)
        for stream in streams:
            assert "the engine stands still" in stream.result()[-1]["error"]["message"]
    assert program.status("/health") == 503
    os.kill(engine, signal.SIGCONT)
    while program.status("/health") != 200:
        pass
    os.kill(engine, signal.SIGSTOP)
    while program.status("/health") == 200:  # without any request, too
        pass
    assert program.end(signal.SIGTERM) == 0
    assert not os.path.exists(f"/proc/{engine}"), "the engine's process is left"


@pytest.mark.nightly
def test_ctrl_c_twice_ends_it_at_once(program: Program) -> None:
    has_begun = threading.Semaphore(0)
    with ThreadPoolExecutor(1) as pool:
        stream = pool.submit(read_stream, program.url, ENDLESS, has_begun)
        assert has_begun.acquire(timeout=60)
        program.process.send_signal(signal.SIGINT)
        while program.status("/health") != 503:
            pass
        assert program.end(signal.SIGINT) == 0
        assert stream.exception() is not None or stream.result()[-1]["choices"][0]["finish_reason"]


def silent_clients(stack: ExitStack, program: Program, *asked: tuple[bool, float]) -> None:
    """Clients that read nothing of a long answer, as a stream or in a piece, and send only a share
    of their request; when all that are whole have been computed.
    """
    logprobs = {"logprobs": True, "top_logprobs": 20, "max_tokens": 1500}
    port = int(program.url.rpartition(":")[2])
    for stream, share in asked:
        data = json.dumps(ENDLESS | logprobs | {"stream": stream}).encode()
        head = (
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Length: %d\r\n\r\n" % len(data)
        )
        client = stack.enter_context(socket.socket())
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        client.connect(("127.0.0.1", port))
        client.sendall(head + data[: int(len(data) * share)])
    num_tokens = 1500.0 * sum(share == 1 for _, share in asked)
    wanted = f'vllm:generation_tokens_total{{model_name="tiny"}} {num_tokens}'
    while wanted not in program.get("/metrics"):
        pass


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("program", "num_signals"),
    [(("--shutdown-timeout", "1"), 1), ((), 2)],
    indirect=["program"],
)
def test_clients_that_do_not_read_or_send_hold_up_no_end(
    program: Program, num_signals: int
) -> None:
    """One reads none of a long answer in a piece, one none of a stream, and one has sent half a
    request.
    """
    with ExitStack() as stack:
        silent_clients(stack, program, (False, 1.0), (True, 1.0), (True, 0.5))
        for _ in range(num_signals - 1):
            program.process.send_signal(signal.SIGTERM)
            while program.status("/health") == 200:
                pass
        assert program.end(signal.SIGTERM) == 0
    assert "Traceback" not in "".join(program.lines)


@pytest.mark.nightly
@pytest.mark.parametrize("program", [("--shutdown-timeout", "1000000")], indirect=True)
def test_a_client_that_does_not_read_holds_up_no_server_whose_engine_is_dead(
    program: Program,
) -> None:
    with ExitStack() as stack:
        silent_clients(stack, program, (False, 1.0), (True, 1.0))
        os.kill(program.children()[-1], signal.SIGKILL)
        assert program.wait() == 1
    assert "the engine has stopped" in "".join(program.lines)


def test_a_port_that_is_taken_is_named_before_a_model_is_loaded() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for options in (("--port", port), ("--api-key", " ")):
            command = [sys.executable, "-c", SERVE, "serve", "--port", "0", *options]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode in (1, 2), done
            assert "Traceback" not in done.stderr
            assert options[0].strip("-") in done.stderr.lower(), done.stderr


def test_a_host_that_is_none_is_named() -> None:
    for host in ("", "nosuch.invalid", "1.2.3.4"):
        with pytest.raises(InvalidParameterError, match="host"):
            listen(host, 0)
