"""`mini-vllm serve` as a program: it starts, it drains, and it says so when its engine is gone."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the signals are those of POSIX")
SERVE = "from mini_vllm.cli import main; main()"
ENDLESS = {"messages": [{"role": "user", "content": "Go on"}], "ignore_eos": True, "stream": True}


class Program:
    """A server in a process of its own."""

    def __init__(self, *options: str) -> None:
        command = [sys.executable, "-c", SERVE, "serve", "--port", "0", "--num-kv-blocks", "900", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
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

    def children(self) -> list[int]:
        """The processes that it has started."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as file:
            return [int(child) for child in file.read().split()]

    def end(self, number: int) -> int:
        """Send a signal, and wait for the exit status."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        status = self.process.wait(60)
        self._rest.join(60)
        return status


def status_of(url: str, body: Any = None) -> int:
    data = None if body is None else json.dumps(body).encode()
    try:
        with urlopen(Request(url, data, {"Content-Type": "application/json"}), timeout=60) as answer:
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
def test_sigterm_lets_what_is_in_flight_finish(program: Program) -> None:
    """New requests are refused meanwhile, on the port that stays open."""
    has_begun, body = threading.Semaphore(0), ENDLESS | {"max_tokens": 100}
    (child,) = program.children()[-1:]
    with ThreadPoolExecutor(39) as pool, urlopen(chat_request(program.url, ENDLESS), timeout=60) as endless:
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
