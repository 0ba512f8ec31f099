"""bench serve: the arithmetic from time stamps, the loop by a clock of its own, the protocol against scripted answers,
and all of it against a live server."""

import asyncio
import json
import re
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mini_vllm.cli import load
from mini_vllm.cli.commands import app
from mini_vllm.cli.load import Api, Client, FailedAnswerError, Ready, Stream, WordCount
from mini_vllm.cli.load_metrics import Record, detail, parse_goodput, summarise
from mini_vllm.errors import InvalidParameterError
from mini_vllm.serving.conftest import LiveServer
from mini_vllm.simulator.workload import TraceRequest


def run(*arguments: str, status: int = 0) -> Any:
    result = CliRunner(env={"COLUMNS": "100", "FORCE_COLOR": None}).invoke(app, ["bench", "serve", *arguments])
    assert result.exit_code == status, result.output
    return result


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


# --- the arithmetic -------------------------------------------------------------------------------------------------


def record(due: float, *token_times: float, **fields: Any) -> Record:
    given = {"due": due, "woken": due, "sent": due, "num_input_tokens": 10, "token_times": list(token_times)}
    return Record(**{"arrival": due, **given, **fields})


def test_latencies_count_from_when_a_request_was_due() -> None:
    late = record(1.0, 3.0, 3.5, 5.0, woken=1.25, sent=2.0)
    assert (late.ttft, late.itls, late.tpot, late.e2el) == (2.0, [0.5, 1.5], 1.0, 4.0)
    assert (record(0.0, 0.5, 0.75).tpot, record(0.0, 0.5).tpot) == (0.25, None)
    result = summarise([late], 8.0, goodput={}, has_queue=True)
    assert result["max_send_lag_ms"] == 250
    assert result["mean_client_queue_time_ms"] == 750


def test_the_figures_of_a_run() -> None:
    records = [
        record(0.0, 0.2, 0.4, 0.6),
        record(1.0, 1.4, 1.6, num_counted=4),  # two tokens came in one chunk
        record(2.0, 2.6, num_counted=1),
        record(4.0, error="status 503", message="busy"),
        record(5.0, 5.1, error="timeout"),
    ]
    result = summarise(records, 10.0, goodput={"ttft": 0.5, "tpot": 0.1})
    wanted = {
        "completed": 3,
        "failed": 2,
        "total_input_tokens": 30,
        "total_output_tokens": 8,
        "request_throughput": 0.3,
        "request_goodput": 0.1,  # the first is too slow by TPOT, the third by TTFT
        "output_throughput": 0.8,
        "total_token_throughput": 3.8,
        "mean_ttft_ms": 400,
        "median_ttft_ms": 400,
        "std_ttft_ms": 1000 * (0.08 / 3) ** 0.5,
        "p90_ttft_ms": 560,
        "p99_ttft_ms": 596,
        "mean_tpot_ms": (200 + 200 / 3) / 2,  # a request of one token has none
        "mean_itl_ms": 200,
        "mean_e2el_ms": 600,
        "max_output_tokens_per_s": 3,
        "max_concurrent_requests": 1,
        "offered_request_rate": 1.0,
    }
    assert result["errors_by_kind"] == {"status 503": 1, "timeout": 1}
    assert {key: result[key] for key in wanted} == pytest.approx(wanted)
    lists = detail(records)
    assert lists["ttfts"] == pytest.approx([0.2, 0.4, 0.6, None, None])
    assert lists["errors"][2:] == ["", "status 503: busy", "timeout: "]
    assert lists["output_lens"] == [3, 4, 1, 0, 0]


def test_one_token_keeps_any_limit_of_tpot() -> None:
    assert record(0.0, 0.1).is_good({"tpot": 0.001})
    assert not record(0.0, 0.1).is_good({"ttft": 0.05})
    assert record(0.0, 0.1, 2.0).is_good({"ttft": 0.2, "e2el": 2.0})


def test_of_nothing_there_is_no_latency() -> None:
    result = summarise([record(0.0, error="timeout")], 1.0, goodput={"ttft": 1.0})
    assert (result["mean_ttft_ms"], result["p99_e2el_ms"], result["request_goodput"]) == (None, None, 0.0)


def test_most_requests_at_the_same_time() -> None:
    records = [record(0.0, 1.0), record(1.0, 3.0), record(1.5, 2.0), record(2.0, 4.0)]
    assert summarise(records, 4.0, goodput={})["max_concurrent_requests"] == 2


# --- the loop -------------------------------------------------------------------------------------------------------


class Time:
    """A clock that jumps to whatever is next, once every task waits."""

    def __init__(self) -> None:
        self.now = 100.0
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = count()

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        future = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (self.now + seconds, next(self._numbers), future))
        await future

    async def run(self) -> None:
        while True:
            for _ in range(20):
                await asyncio.sleep(0)
            if self._waiting:
                self.now, _, future = heappop(self._waiting)
                future.set_result(None)


def driven(arrivals: list[float], service: float, late: float = 0.0, **options: Any) -> tuple[list[Record], float]:
    """Requests to a server that takes `service` seconds for each; the client sleeps `late` seconds too long."""

    async def main() -> tuple[list[Record], float]:
        time = Time()
        running = asyncio.create_task(time.run())

        async def send(number: int, record: Record, clock: Callable[[], float]) -> None:
            await time.sleep(service)
            record.token_times.append(clock())

        async def sleep(seconds: float) -> None:
            await time.sleep(seconds + late)

        requests = [TraceRequest(arrival, 1, 1) for arrival in arrivals]
        try:
            return await load.drive(requests, send, clock=time.clock, sleep=sleep, **options)
        finally:
            running.cancel()

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("arrivals", "options", "sent", "e2els", "duration"),
    [
        ([0, 1, 2], {}, [0, 1, 2], [5, 5, 5], 7),  # a slow server does not hold up arrivals
        ([0, 1, 2], {"max_concurrency": 1}, [0, 5, 10], [5, 9, 13], 15),  # waiting for a slot counts
        ([0, 0, 0], {"max_concurrency": 2}, [0, 0, 5], [5, 5, 10], 10),
        ([0, 0, 0], {"max_concurrency": 2, "is_closed_loop": True}, [0, 0, 5], [5, 5, 5], 10),
        ([1, 3], {"late": 0.5}, [1.5, 3.5], [5.5, 5.5], 8.5),  # as does what the client is late
    ],
)
def test_when_requests_are_sent(
    arrivals: list[float], options: dict[str, Any], sent: list[float], e2els: list[float], duration: float
) -> None:
    num_done: list[None] = []
    records, took = driven(arrivals, 5.0, on_done=lambda: num_done.append(None), **options)
    assert [record.sent for record in records] == sent
    assert [record.e2el for record in records] == e2els
    assert (took, len(num_done)) == (duration, len(arrivals))
    lag = summarise(records, took, goodput={})["max_send_lag_ms"]
    assert lag == 1000 * options.get("late", 0.0)


# --- prompts --------------------------------------------------------------------------------------------------------


def prompts(requests: list[TraceRequest], counted: tuple[float, float] = (0.0, 1.0), **options: Any) -> list[list[str]]:
    made = load.bodies(requests, Ready(Api("completions", "m"), None, WordCount(*counted)), **{"seed": 0, **options})
    return [json.loads(body)["prompt"].split() for body in made]


def test_prompts_have_as_many_tokens_as_are_asked_for() -> None:
    assert len(set(load.WORDS)) == len(load.WORDS) > 100
    first, second = prompts([TraceRequest(0.0, 64, 1)] * 2)
    assert len(first) == len(second) == 64
    assert first != second
    assert prompts([TraceRequest(0.0, 64, 1)], seed=1) != [first] == prompts([TraceRequest(0.0, 64, 1)])
    assert len(prompts([TraceRequest(0.0, 64, 1)], (4.0, 1.5))[0]) == 40
    assert len(prompts([TraceRequest(0.0, 3, 1)], (4.0, 1.5))[0]) == 1


def test_equal_hash_ids_are_equal_words() -> None:
    requests = [TraceRequest(0.0, 1100, 1, (1, 2, 3)), TraceRequest(1.0, 1500, 1, (1, 2, 4))]
    first, second = prompts(requests)
    assert (len(first), len(second)) == (1100, 1500)
    assert first[:1024] == second[:1024]
    assert first[1024:] != second[1024:1100]
    half = [request._replace(input_length=request.input_length // 2) for request in requests]
    first, second = prompts(half, length_scale=0.5)
    assert (first[:512] == second[:512], first[512:] == second[512:550]) == (True, False)


# --- the protocol ---------------------------------------------------------------------------------------------------


def events(*chunks: Any) -> bytes:
    return b"".join(b"data: " + (c if isinstance(c, bytes) else json.dumps(c).encode()) + b"\n\n" for c in chunks)


def token(text: str = "a", reason: str | None = None) -> dict[str, Any]:
    return {"choices": [{"text": text, "finish_reason": reason}]}


USAGE = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}
GOOD = events(token(), token(), token("", "length"), USAGE, b"[DONE]")


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_stream_in_pieces_of_any_size(size: int) -> None:
    seen, ticks = record(0.0), count(1)
    stream = Stream(seen, lambda: float(next(ticks)))
    data = b": a comment\r\n\r\n" + GOOD.replace(b"\n", b"\r\n")
    for at in range(0, len(data), size):
        stream.feed(data[at : at + size])
    stream.finish(load.Answer(200, b""))
    ends = [data.index(b"\n", match.start()) for match in re.finditer(rb"finish_reason", data)]
    assert seen.token_times == [end // size + 1 for end in ends]  # each at the piece that completes its line
    assert (seen.num_input_tokens, seen.num_output_tokens) == (7, 3)


RESET = b"RESET"


class Scripted:
    """A server that gives one answer after another; None is to close the connection without one, RESET to break it."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)
        self.bodies: list[Any] = []
        self.heads: list[bytes] = []
        self.num_connections = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.num_connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"(?i)content-length: (\d+)", head)
                body = await reader.readexactly(int(length[1])) if length else b""
                self.heads.append(head)
                self.bodies.append(json.loads(body) if body else None)
                answer = self.answers.pop(0)
                if answer == RESET:
                    writer.get_extra_info("socket").setsockopt(
                        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                    )
                if answer in (None, RESET):
                    break
                writer.write(answer)
                if b"Connection: close" in answer:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    def serve(self, use: Callable[[str], Awaitable[Any]], host: str = "127.0.0.1") -> Any:
        async def main() -> Any:
            server = await asyncio.start_server(self.handle, host.strip("[]"), 0)
            port = server.sockets[0].getsockname()[1]
            try:
                return await use(f"http://{host}:{port}/base/v1")
            finally:
                server.close()

        return asyncio.run(main())


def http(body: bytes, status: int = 200, more: bytes = b"") -> bytes:
    return b"HTTP/1.1 %d X\r\n%sContent-Length: %d\r\n\r\n" % (status, more, len(body)) + body


def chunked(*pieces: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"".join(
        b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces
    )


def fetched(*answers: bytes | None, num_requests: int = 1, timeout: float | None = None) -> tuple[Any, list[Record]]:
    server, api = Scripted(*answers), Api("completions", "m", ignore_eos=True)

    async def use(url: str) -> list[Record]:
        client, records = Client(url, "key"), []
        for _ in range(num_requests):
            records.append(record(0.0))
            await load.fetch(client, api, api.body("x", 3), records[-1], lambda: 2.0, timeout)
        await client.close()
        return records

    return server, server.serve(use)


def test_requests_on_the_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")  # a proxy would be measured, too
    first = http(GOOD, more=b"Set-Cookie: server=1\r\n")  # which would send all that follows to one server
    server, records = fetched(chunked(GOOD[:50], GOOD[50:], b""), first, http(GOOD), num_requests=3)
    for seen in records:
        assert (seen.error, seen.token_times, seen.num_output_tokens, seen.num_input_tokens) == (None, [2.0] * 3, 3, 7)
    assert server.num_connections == 1
    assert server.heads[0].startswith(b"POST /base/v1/completions HTTP/1.1\r\n")
    assert b"Bearer key\r\n" in server.heads[0]
    assert {line.partition(b":")[0].lower() for line in server.heads[2].splitlines()[1:-1]} == {
        *(b"host", b"user-agent", b"content-type", b"content-length", b"authorization")
    }
    assert server.bodies[0] == {
        "model": "m",
        "prompt": "x",
        "max_tokens": 3,
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": True,
    }
    chat = json.loads(Api("chat", "m").body("x", 3))
    assert chat["messages"] == [{"role": "user", "content": "x"}]
    assert (chat["max_completion_tokens"], "ignore_eos" in chat) == (3, False)


def test_a_connection_that_the_server_has_closed_is_opened_again() -> None:
    server, records = fetched(http(GOOD), None, http(GOOD), num_requests=2)
    assert [seen.error for seen in records] == [None, None]
    assert server.num_connections == 2
    server, records = fetched(http(GOOD, more=b"Connection: close\r\n"), http(GOOD), num_requests=2)
    assert ([seen.error for seen in records], server.num_connections) == ([None, None], 2)


@pytest.mark.parametrize("answers", [(None,), (http(GOOD), chunked(GOOD[:50]) + b"Connection: close")])
def test_a_request_that_the_server_has_taken_is_not_sent_again(answers: tuple[bytes | None, ...]) -> None:
    server, records = fetched(*answers, http(GOOD), num_requests=len(answers))
    assert (records[-1].error, server.num_connections) == ("answer broken off", 1)


def test_a_server_at_an_ipv6_address() -> None:
    server = Scripted(http(b"{}"))
    try:
        answer = server.serve(lambda url: Client(url).ask("GET", "/v1/models"), host="[::1]")
    except OSError:
        pytest.skip("this machine has no IPv6")
    assert answer == load.Answer(200, b"{}")
    assert re.search(rb"\r\nHost: \[::1\]:\d+\r\n", server.heads[0])


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (http(b'{"error": {"message": "busy", "type": "x"}}', 429), "status 429", "busy"),
        (http(b'{"detail": "not here"}', 404), "status 404", "not here"),
        (http(b"<p>no", 502), "status 502", "<p>no"),
        (http(events(token(), b"[DONE]").replace(b"[DONE]", b"[DO")), "no OpenAI stream", "[DO"),
        (http(events({"choices": [3]})), "no OpenAI stream", "[3]"),
        (http(events(token(), USAGE)), "the stream ended early", "[DONE]"),
        (http(events(USAGE, b"[DONE]")), "no token came", ""),
        (http(events(token(), {"error": {"message": "too slow"}}, b"[DONE]")), "error in the stream", "too slow"),
        (http(events(token("a", "abort"), b"[DONE]")), "finish reason abort", ""),
        (http(b"data: " + b"x" * load.MAX_EVENT_BYTES), "an event is too long", "1,048,576"),
        (http(b"x" * (load.MAX_ANSWER_BYTES + 1), 500), "the answer is too long", "1,048,576"),
        (b"SSH-2.0-OpenSSH\r\n\r\n" + b"Connection: close", "answer broken off", ""),
        (chunked(GOOD) + b"5\r\nConnection: close", "answer broken off", ""),
        (None, "answer broken off", ""),
        (RESET, "connection lost", "reset"),
    ],
)
def test_failures_have_a_kind(answer: bytes | None, kind: str, message: str) -> None:
    _, (seen,) = fetched(answer)
    assert seen.error == kind
    assert message in seen.message


def test_a_request_that_takes_too_long() -> None:
    _, (seen,) = fetched(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", timeout=0.01)
    assert seen.error == "timeout"


MODELS = http(json.dumps({"data": [{"id": "m", "max_model_len": 99}, {"id": "n"}]}).encode())
NO_EOS = http(b'{"error": {"message": "ignore_eos?"}}', 400)


def counted(num_tokens: int) -> bytes:
    return http(events(token(), {"usage": {"prompt_tokens": num_tokens, "completion_tokens": 1}}, b"[DONE]"))


def ready(*answers: bytes, model: str | None = None, ignore_eos: bool = True) -> Ready:
    async def use(url: str) -> Ready:
        client = Client(url)
        try:
            return await load.get_ready(client, "completions", model, ignore_eos=ignore_eos, timeout=60)
        finally:
            await client.close()

    return Scripted(*answers).serve(use)


def test_what_is_found_out_before_the_run() -> None:
    found = ready(MODELS, counted(15), counted(63))
    assert found == (Api("completions", "m", True), 99, WordCount(3.0, 1.5))
    found = ready(MODELS, NO_EOS, counted(8), counted(40))  # the server does not know ignore_eos
    assert found == (Api("completions", "m", False), 99, WordCount(0.0, 1.0))
    without_usage = http(events(token(), b"[DONE]"))
    found = ready(http(b"", 404), without_usage, without_usage, model="mine")
    assert found == (Api("completions", "mine", True), None, WordCount(0.0, 1.0))


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ((http(b"{}", 404),), "/base/v1/models lists no model, give its name: status 404"),
        ((http(b'{"data": []}'),), "lists no model"),
        ((http(b'{"error": {"message": "the key is wrong"}}', 401),), "status 401 the key is wrong"),
        ((MODELS, http(b"", 503)), "/base/v1/completions refuses a first request: status 503"),
        ((MODELS, NO_EOS, NO_EOS), "refuses a first request: status 400 ignore_eos?"),
    ],
)
def test_a_server_that_is_not_ready(answers: tuple[bytes, ...], message: str) -> None:
    with pytest.raises(load.ServerUnreachableError, match=re.escape(message)):
        ready(*answers)


def test_failed_answers_say_what_they_are() -> None:
    assert str(FailedAnswerError("status 400", "x")) == "status 400: x"


# --- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def live() -> Iterator[LiveServer]:
    server = LiveServer({"num_kv_blocks": 200}, {}, {})
    yield server
    server.assert_idle()
    server.stop()


NAMES_OF_VLLM = """
    Successful requests: Failed requests: Maximum request concurrency: Request rate configured (RPS):
    Benchmark duration (s): Total input tokens: Total generated tokens: Request throughput (req/s):
    Request goodput (req/s): Output token throughput (tok/s): Peak output token throughput (tok/s):
    Peak concurrent requests: Total token throughput (tok/s): Mean TTFT (ms): Median TTFT (ms): P99 TTFT (ms):
    Mean TPOT (ms): Median TPOT (ms): P99 TPOT (ms): Mean ITL (ms): Median ITL (ms): P99 ITL (ms):
    Mean E2EL (ms): Median E2EL (ms): P99 E2EL (ms): Mean Client Queue Time (ms):
"""


@pytest.mark.slow
def test_a_run_against_a_live_server(live: LiveServer, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out, plot = tmp_path / "result.json", tmp_path / "run.png"
    text = run(
        *("--base-url", live.url, "--num-prompts", "6", "--request-rate", "200", "--max-concurrency", "3"),
        *("--input-len", "40", "--output-len", "5", "--ignore-eos", "--goodput", "ttft:1e8 tpot:1e8 e2el:1e8"),
        *("--out", str(out), "--plot", str(plot)),
    ).stdout
    rows = dict(re.findall(r"^(.*:) +(\S+)$", text, re.MULTILINE))
    for name in re.findall(r"\S[^:]*:", NAMES_OF_VLLM):
        assert re.sub(r"\s+", " ", name) in rows
    assert (rows["Successful requests:"], rows["Failed requests:"]) == ("6", "0")
    assert (rows["Total input tokens:"], rows["Total generated tokens:"]) == ("240", "30")
    result = json.loads(out.read_text())
    assert result["input_lens"] == [40] * 6  # a word is a token of the bundled model
    assert result["output_lens"] == [5] * 6
    assert all(len(each) <= 4 for each in result["itls"])  # a busy server puts several tokens, or all, into one chunk
    assert (result["completed"], result["model_id"], result["request_rate"], result["ignore_eos"]) == (
        6,
        "tiny",
        200,
        True,
    )
    assert result["request_goodput"] == result["request_throughput"]
    assert result["offered_request_rate"] == pytest.approx(200)
    assert result["errors"] == [""] * 6
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_chats_and_a_recorded_trace(live: LiveServer, tmp_path: Path) -> None:
    trace, out = tmp_path / "trace.jsonl", tmp_path / "result.json"
    lines = [
        {"timestamp": 0, "input_length": 600, "output_length": 6, "hash_ids": [1, 2]},
        {"timestamp": 30, "input_length": 700, "output_length": 0, "hash_ids": [1, 3]},
        {"timestamp": 40, "input_length": 700, "output_length": 1, "hash_ids": [1, 3]},
    ]
    trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = ("--base-url", f"{live.url}/v1", "--endpoint", "chat", "--ignore-eos", "--out", str(out))
    text = run(*options, "--trace", str(trace), "--num-prompts", "2", "--length-scale", "0.5").stdout
    result = json.loads(out.read_text())
    assert (result["input_lens"], result["output_lens"]) == ([300, 350], [3, 1])
    assert (result["request_rate"], result["backend"]) == ("inf", "openai-chat")
    assert result["offered_request_rate"] == pytest.approx(2 / 0.03)
    assert "Request rate configured" not in text
    assert "Maximum request concurrency" not in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--base-url", "ftp://x"), "base_url must be http://HOST[:PORT] or https://HOST[:PORT], got 'ftp://x'"),
        (("--base-url", "http://x:0"), "base_url must be http://HOST[:PORT] or https://HOST[:PORT], got 'http://x:0'"),
        (("--base-url", "http://x:99999"), "got 'http://x:99999': Port out of range 0-65535"),
        (("--base-url", "http://x/\n"), r"got 'http://x/\n'"),
        (("--base-url", "http://user:word@x"), "base_url must be"),
        (("--endpoint", "edits"), "endpoint must be one of ['completions', 'chat'], got 'edits'"),
        (("--request-rate", "0"), "rate and burstiness must be above 0, in [1e-06, 1e+06] and [0.001, 1000], got 0.0"),
        (("--request-rate", "nan"), "got nan and 1.0"),
        (("--request-rate", "2", "--burstiness", "0"), "got 2.0 and 0.0"),
        (
            ("--goodput", "ttft:200 itl:5"),
            "goodput must name each of ['ttft', 'tpot', 'e2el'] at most once, got 'itl:5'",
        ),
        (("--goodput", "ttft:1", "--goodput", "ttft:2"), "at most once, got 'ttft:2'"),
        (("--goodput", "ttft:fast"), "goodput: ttft must be milliseconds above 0 and at most 1e+09, got 'fast'"),
        (("--goodput", "tpot:-1"), "got '-1'"),
        (("--timeout", "0"), "timeout must be above 0 and at most 1,000,000 s, got 0.0"),
        (("--api-key", "a\nb"), "api_key must be printable ASCII without spaces"),
        (("--input-len", "100000"), "1,000 requests have 100,000,000 prompt tokens, at most 20,000,000 are allowed"),
        (("--out", "/nowhere/x.json"), "cannot write /nowhere/x.json: there is no such folder"),
        (("--trace", "TRACE", "--request-rate", "3"), "give --trace or --request-rate, and not both, got 3"),
        (("--trace", "TRACE", "--length-scale", "0"), "length_scale must be in [0.001, 1000], got 0.0"),
        (("--trace", "TRACE", "--rate-scale", "0"), "the rate scale must be above 0"),
        (("--trace", "TRACE"), "trace.csv, line 2: ValueError"),
        (("--num-prompts", "0"), "'--num-prompts'"),
        (("--num-prompts", "100001"), "'--num-prompts'"),
        (("--max-concurrency", "0"), "'--max-concurrency'"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_sent(
    options: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\nnow,1,1\n")
    given = [str(trace) if option == "TRACE" else option for option in options]
    result = run("--base-url", f"http://127.0.0.1:{free_port()}", *given, status=2)  # 1, if it had tried to send
    assert message in re.sub(r"\s*\n\s*", " ", result.stderr) or message in result.stderr
    assert result.stdout == ""


def test_a_trace_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = tmp_path / "trace.csv"
    lines = [f"2023-11-16 18:15:{second:02},5,5" for second in range(4)]
    trace.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *lines]))
    monkeypatch.setattr("mini_vllm.cli.bench_serve.MAX_PROMPTS", 3)
    options = ("--base-url", f"http://127.0.0.1:{free_port()}", "--trace", str(trace))
    assert "more than 3 requests: say with num_prompts how many to send" in run(*options, status=2).stderr
    assert "connection refused" in run(*options, "--num-prompts", "3", status=1).stderr


def test_a_context_that_is_too_short(live: LiveServer) -> None:
    result = run("--base-url", live.url, "--input-len", "2000", "--output-len", "49", "--num-prompts", "2", status=2)
    wanted = "request 1: 2000 prompt tokens and 49 output tokens are more than the model's context of 2048"
    assert wanted in result.stderr


def test_a_server_that_is_not_there_is_one_line() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    for base_url in (url, url.replace("http:", "https:"), url.replace("127.0.0.1", "localhost")):
        assert run("--base-url", base_url, status=1).stderr == f"Error: {base_url}: connection refused\n"


def test_if_every_request_fails_the_status_is_1(monkeypatch: pytest.MonkeyPatch) -> None:
    async def get_ready(*arguments: Any, **options: Any) -> Ready:
        return Ready(Api("completions", "m"), None, WordCount())

    monkeypatch.setattr(load, "get_ready", get_ready)
    options = ("--base-url", f"http://127.0.0.1:{free_port()}", "--num-prompts", "3", "--ignore-eos")
    result = run(*options, status=1)
    assert re.search(r"^connection refused: +3$", result.stdout, re.MULTILINE)
    assert re.search(r"^Mean TTFT \(ms\): +n/a$", result.stdout, re.MULTILINE)
    assert "The server refuses ignore_eos" in result.stderr


def test_bench_alone_is_what_it_was() -> None:
    runner = CliRunner(env={"COLUMNS": "100"})
    assert "--num-requests" in runner.invoke(app, ["bench", "--help"]).output
    assert "--base-url" not in runner.invoke(app, ["bench", "--help"]).output
    assert "--base-url" in run("--help").output
    refused = runner.invoke(app, ["bench", "--num-requests", "1", "serve"])
    assert (refused.exit_code, "serve" in refused.output) == (2, True)
    assert re.search(r"^  bench serve ", runner.invoke(app, ["--help"]).output, re.MULTILINE)


def test_limits_in_milliseconds() -> None:
    assert parse_goodput(["ttft:200 tpot:50", "e2el:2e3"]) == {"ttft": 0.2, "tpot": 0.05, "e2el": 2.0}
    assert parse_goodput([]) == {}
    with pytest.raises(InvalidParameterError, match="got ''"):
        parse_goodput(["ttft"])


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("http://h", "http://h"),
        ("https://h/", "https://h"),
        ("http://h:80/v1/", "http://h:80"),
        ("https://[::1]:8000/a/b/v1", "https://[::1]:8000/a/b"),
    ],
)
def test_base_urls(url: str, wanted: str) -> None:
    assert Client(url).base_url == wanted
