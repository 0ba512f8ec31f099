"""What the log tells an operator, and what it tells nobody."""

import json
import logging
import re
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from mini_vllm.observe.server_log import ThroughputLog
from mini_vllm.serving.conftest import LiveServer
from mini_vllm.serving.messages import StepDone
from mini_vllm.serving.run import MAX_LINES, log_in_a_thread

LINE = re.compile(
    r'127\.0\.0\.1:\d+ - "(?P<asked>[^"]*) HTTP/1\.1" (?P<status>\S+) \d+\.\d{3} s (?P<id>\S+)'
)


def post(
    server: LiveServer, path: str, body: dict[str, Any], **headers: str
) -> tuple[int, dict[str, Any], Any]:
    """Status, headers and body of an answer."""
    asked = Request(server.url + path, json.dumps(body).encode(), headers)
    try:
        with urlopen(asked, timeout=60) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except HTTPError as refusal:
        return refusal.code, dict(refusal.headers), refusal.read()


def lines(server: LiveServer, caplog: pytest.LogCaptureFixture) -> list[dict[str, str]]:
    """The lines of answers; a line is written when its answer is over."""
    server.until(lambda: not server.server.num_in_flight, "no request is in flight")
    return [found.groupdict() for found in map(LINE.fullmatch, caplog.messages) if found]


@pytest.fixture(scope="module")
def live() -> Iterator[LiveServer]:
    server = LiveServer({"num_kv_blocks": 200}, {}, {"access_log": True})
    yield server
    server.assert_idle()
    server.stop()


@pytest.fixture
def info(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "mini_vllm")
    return caplog


@pytest.mark.parametrize("stream", [False, True])
def test_each_answer_has_a_line_with_the_id_that_its_client_sees(
    live: LiveServer, info: pytest.LogCaptureFixture, stream: bool
) -> None:
    body = {"prompt": "a secret", "max_tokens": 2, "stream": stream}
    _, headers, _ = post(live, "/v1/completions?key=secret", body, Authorization="Bearer secret")
    status, _, _ = post(live, "/v1/nowhere/%0a%1b%22", {})
    (good, bad) = lines(live, info)
    assert good == {
        "asked": "POST /v1/completions",
        "status": "200",
        "id": headers["x-request-id"],
    }
    assert bad["status"] == str(status) == "404"
    assert bad["asked"] == "POST /v1/nowhere/%0a%1b%22"
    assert "secret" not in info.text


def test_no_line_where_none_is_wanted(serve: Any, info: pytest.LogCaptureFixture) -> None:
    server: LiveServer = serve(server_options={"access_log": False})
    assert post(server, "/v1/completions", {"prompt": "a", "max_tokens": 1})[0] == 200
    assert lines(server, info) == []


@pytest.mark.parametrize("stream", [False, True])
def test_a_fault_of_the_server_is_told_with_the_id_of_its_request(
    serve: Any, info: pytest.LogCaptureFixture, stream: bool
) -> None:
    """Before the first event as a status, behind it as an event."""
    server: LiveServer = serve()
    process = server.engine.output_processor.process
    calls = iter(range(100))

    def slip(deltas: Any) -> Any:
        if stream and next(calls) == 0:
            return process(deltas)
        for name in list(server.engine._streams):
            server.engine._streams[name].fail(ZeroDivisionError("a slip"))
        return [], []

    server.engine.output_processor.process = slip  # type: ignore[method-assign]
    status, headers, text = post(
        server, "/v1/completions", {"prompt": "a", "stream": stream, "ignore_eos": True}
    )
    assert status == (200 if stream else 500)
    assert b"the server has failed" in text
    assert b"slip" not in text
    (record,) = [each for each in info.records if each.levelno == logging.ERROR]
    assert headers["x-request-id"] in record.getMessage()
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ZeroDivisionError)


def test_a_refusal_is_no_fault(live: LiveServer, info: pytest.LogCaptureFixture) -> None:
    assert post(live, "/v1/completions", {"prompt": "a", "max_tokens": -1})[0] == 400
    assert not [each for each in info.records if each.levelno >= logging.ERROR]


def test_a_busy_server_tells_its_throughput_and_an_idle_one_nothing(
    serve: Any, info: pytest.LogCaptureFixture
) -> None:
    """The clock is the test's: four prompt tokens in four seconds are one a second."""
    now = [0.0]
    server: LiveServer = serve(options={"clock": lambda: now[0]})
    log = ThroughputLog(server.engine)
    log.write()
    assert (
        post(
            server, "/v1/completions", {"prompt": [5, 6, 7, 8], "max_tokens": 6, "ignore_eos": True}
        )[0]
        == 200
    )
    server.assert_idle()
    last = StepDone([], None, None, 3, 2, 0.25)
    server.in_loop(lambda: [listener(last, []) for listener in server.engine.listeners])
    now[0] = 4.0
    log.write()
    now[0] = 14.0
    server.in_loop(
        lambda: [f(StepDone([], None, None, 0, 0, 0.0), []) for f in server.engine.listeners]
    )
    log.write()
    (line,) = [each for each in info.messages if "throughput" in each]
    assert line == (
        "Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 1.5 tokens/s, "
        "Running: 3 reqs, Waiting: 2 reqs, KV cache usage: 25.0%, Prefix cache hit rate: 0.0%"
    )


class Stuck(logging.Handler):
    """A terminal or a pipe that takes nothing until it is told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = threading.Event()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        assert self.goes_on.wait(60)
        self.lines.append(record.getMessage())


def test_a_log_that_nobody_takes_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch, info: pytest.LogCaptureFixture
) -> None:
    """Neither the server's own lines nor uvicorn's; what is beyond the bound is lost."""
    stuck, logger = Stuck(), logging.getLogger("mini_vllm")
    for name in ("mini_vllm", "uvicorn"):
        monkeypatch.setattr(logging.getLogger(name), "handlers", [stuck])
        monkeypatch.setattr(logging.getLogger(name), "propagate", False)
    with log_in_a_thread() as waiting:
        logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
        for i in range(MAX_LINES + 1000):
            logger.info("line %d", i)
        assert stuck.lines == []
        stuck.goes_on.set()
        while not waiting.empty():
            time.sleep(0.01)
    assert stuck.lines[:2] == ["Invalid HTTP request received.", "line 0"]
    assert MAX_LINES <= len(stuck.lines) + 1 <= MAX_LINES + 2
    assert logger.handlers == [stuck]
