"""A load generator: the arithmetic from time stamps, the loop by a clock of its own, and the
protocol against scripted answers."""

import asyncio
import json
import re
import socket
import struct
from collections.abc import Awaitable, Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any

import pytest

from mini_vllm.errors import InvalidParameterError
from mini_vllm.load import client, generator
from mini_vllm.load.client import Answer, Api, Client, FailedAnswerError, Stream, fetch
from mini_vllm.load.generator import Ready, ServerUnreachableError, WordCount
from mini_vllm.load.metrics import Record, detail, keeps, parse_goodput, summarise
from mini_vllm.load.workload import TraceRequest


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


# --- the arithmetic -------------------------------------------------------------------------------


def record(due: float, *token_times: float, **fields: Any) -> Record:
    given = {
        "due": due,
        "woken": due,
        "sent": due,
        "num_input_tokens": 10,
        "token_times": list(token_times),
    }
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
    assert keeps(record(0.0, 0.1), {"tpot": 0.001})
    assert not keeps(record(0.0, 0.1), {"ttft": 0.05})
    assert keeps(record(0.0, 0.1, 2.0), {"ttft": 0.2, "e2el": 2.0})


def test_of_nothing_there_is_no_latency() -> None:
    result = summarise([record(0.0, error="timeout")], 1.0, goodput={"ttft": 1.0})
    assert (result["mean_ttft_ms"], result["p99_e2el_ms"], result["request_goodput"]) == (
        None,
        None,
        0.0,
    )


def test_most_requests_at_the_same_time() -> None:
    records = [record(0.0, 1.0), record(1.0, 3.0), record(1.5, 2.0), record(2.0, 4.0)]
    assert summarise(records, 4.0, goodput={})["max_concurrent_requests"] == 2


# --- the loop -------------------------------------------------------------------------------------


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


def driven(
    arrivals: list[float], service: float, late: float = 0.0, **options: Any
) -> tuple[list[Record], float]:
    """Requests to a server that takes `service` seconds for each; the client sleeps `late` seconds
    too long.
    """

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
            return await generator.drive(requests, send, clock=time.clock, sleep=sleep, **options)
        finally:
            running.cancel()

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("arrivals", "options", "sent", "e2els", "duration"),
    [
        ([0, 1, 2], {}, [0, 1, 2], [5, 5, 5], 7),  # a slow server does not hold up arrivals
        # waiting for a slot counts
        ([0, 1, 2], {"max_concurrency": 1}, [0, 5, 10], [5, 9, 13], 15),
        ([0, 0, 0], {"max_concurrency": 2}, [0, 0, 5], [5, 5, 10], 10),
        ([0, 0, 0], {"max_concurrency": 2, "is_closed_loop": True}, [0, 0, 5], [5, 5, 5], 10),
        ([1, 3], {"late": 0.5}, [1.5, 3.5], [5.5, 5.5], 8.5),  # as does what the client is late
    ],
)
def test_when_requests_are_sent(
    arrivals: list[float],
    options: dict[str, Any],
    sent: list[float],
    e2els: list[float],
    duration: float,
) -> None:
    num_done: list[None] = []
    records, took = driven(arrivals, 5.0, on_done=lambda: num_done.append(None), **options)
    assert [record.sent for record in records] == sent
    assert [record.e2el for record in records] == e2els
    assert (took, len(num_done)) == (duration, len(arrivals))
    lag = summarise(records, took, goodput={})["max_send_lag_ms"]
    assert lag == 1000 * options.get("late", 0.0)


# --- prompts --------------------------------------------------------------------------------------


def prompts(
    requests: list[TraceRequest], counted: tuple[float, float] = (0.0, 1.0), **options: Any
) -> list[list[str]]:
    made = generator.bodies(
        requests,
        Ready(Api("completions", "m"), None, WordCount(*counted)),
        **{"seed": 0, **options},
    )
    return [json.loads(body)["prompt"].split() for body in made]


def test_prompts_have_as_many_tokens_as_are_asked_for() -> None:
    assert len(set(generator.WORDS)) == len(generator.WORDS) > 100
    first, second = prompts([TraceRequest(0.0, 64, 1)] * 2)
    assert len(first) == len(second) == 64
    assert first != second
    assert (
        prompts([TraceRequest(0.0, 64, 1)], seed=1)
        != [first]
        == prompts([TraceRequest(0.0, 64, 1)])
    )
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


# --- the protocol ---------------------------------------------------------------------------------


def events(*chunks: Any) -> bytes:
    return b"".join(
        b"data: " + (c if isinstance(c, bytes) else json.dumps(c).encode()) + b"\n\n"
        for c in chunks
    )


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
    stream.finish(Answer(200, b""))
    ends = [data.index(b"\n", match.start()) for match in re.finditer(rb"finish_reason", data)]
    # each at the piece that completes its line
    assert seen.token_times == [end // size + 1 for end in ends]
    assert (seen.num_input_tokens, seen.num_output_tokens) == (7, 3)


@pytest.mark.parametrize(
    ("beginning", "num_tokens"),
    [
        ([{"role": "assistant", "content": ""}, {"content": "a"}], 2),
        ([{"role": "assistant"}, {"content": "a"}], 2),
        ([{"role": "assistant", "content": "a"}], 2),
        ([{"content": ""}, {"content": "a"}], 3),
    ],
)
def test_the_role_with_which_a_chat_begins_is_no_token(
    beginning: list[dict[str, str]], num_tokens: int
) -> None:
    seen = record(0.0)
    stream = Stream(seen, lambda: 1.0)
    deltas = [*beginning, {"content": "b"}]
    stream.feed(events(*({"choices": [{"delta": delta}]} for delta in deltas), b"[DONE]"))
    stream.finish(Answer(200, b""))
    assert seen.token_times == [1.0] * num_tokens


RESET = b"RESET"


class Scripted:
    """A server that gives one answer after another; None is to close the connection without one,
    RESET to break it.
    """

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


def fetched(
    *answers: bytes | None, num_requests: int = 1, timeout: float | None = None
) -> tuple[Any, list[Record]]:
    server, api = Scripted(*answers), Api("completions", "m", ignore_eos=True)

    async def use(url: str) -> list[Record]:
        client, records = Client(url, "key"), []
        for _ in range(num_requests):
            records.append(record(0.0))
            await fetch(client, api, api.body("x", 3), records[-1], lambda: 2.0, timeout)
        await client.close()
        return records

    return server, server.serve(use)


def test_requests_on_the_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    # a proxy would be measured, too
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    # which would send all that follows to one server
    first = http(GOOD, more=b"Set-Cookie: server=1\r\n")
    server, records = fetched(chunked(GOOD[:50], GOOD[50:], b""), first, http(GOOD), num_requests=3)
    for seen in records:
        assert (seen.error, seen.token_times, seen.num_output_tokens, seen.num_input_tokens) == (
            None,
            [2.0] * 3,
            3,
            7,
        )
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


@pytest.mark.parametrize(
    "answers", [(None,), (http(GOOD), chunked(GOOD[:50]) + b"Connection: close")]
)
def test_a_request_that_the_server_has_taken_is_not_sent_again(
    answers: tuple[bytes | None, ...],
) -> None:
    server, records = fetched(*answers, http(GOOD), num_requests=len(answers))
    assert (records[-1].error, server.num_connections) == ("answer broken off", 1)


def test_a_server_at_an_ipv6_address() -> None:
    server = Scripted(http(b"{}"))
    try:
        answer = server.serve(lambda url: Client(url).ask("GET", "/v1/models"), host="[::1]")
    except OSError:
        pytest.skip("this machine has no IPv6")
    assert answer == Answer(200, b"{}")
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
        (
            http(events(token(), {"error": {"message": "too slow"}}, b"[DONE]")),
            "error in the stream",
            "too slow",
        ),
        (http(events(token("a", "abort"), b"[DONE]")), "finish reason abort", ""),
        (http(b"data: " + b"x" * client.MAX_EVENT_BYTES), "an event is too long", "1,048,576"),
        (http(b"x" * (client.MAX_ANSWER_BYTES + 1), 500), "the answer is too long", "1,048,576"),
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
    return http(
        events(token(), {"usage": {"prompt_tokens": num_tokens, "completion_tokens": 1}}, b"[DONE]")
    )


def ready(*answers: bytes, model: str | None = None, ignore_eos: bool = True) -> Ready:
    async def use(url: str) -> Ready:
        client = Client(url)
        try:
            return await generator.get_ready(
                client, "completions", model, ignore_eos=ignore_eos, timeout=60
            )
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
        (
            (http(b'{"error": {"message": "the key is wrong"}}', 401),),
            "status 401 the key is wrong",
        ),
        ((MODELS, http(b"", 503)), "/base/v1/completions refuses a first request: status 503"),
        ((MODELS, NO_EOS, NO_EOS), "refuses a first request: status 400 ignore_eos?"),
    ],
)
def test_a_server_that_is_not_ready(answers: tuple[bytes, ...], message: str) -> None:
    with pytest.raises(ServerUnreachableError, match=re.escape(message)):
        ready(*answers)


def test_failed_answers_say_what_they_are() -> None:
    assert str(FailedAnswerError("status 400", "x")) == "status 400: x"


def test_limits_in_milliseconds() -> None:
    assert parse_goodput(["ttft:200 tpot:50", "e2el:2e3"]) == {
        "ttft": 0.2,
        "tpot": 0.05,
        "e2el": 2.0,
    }
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
