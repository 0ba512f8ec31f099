"""Clients that connect and do not send, or send slowly: they end, and the rest are served."""

import gc
import json
import socket
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from urllib.request import urlopen

import pytest

from mini_vllm.serving.conftest import LiveServer
from mini_vllm.serving.connections import MAX_READ_BYTES, Connection

HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
MEBIBYTE = 1 << 20
LIMITS = "max_connections", "max_body_bytes", "max_unread_bytes"


class Clients:
    """Clients of a server, on sockets of their own."""

    def __init__(self, server: LiveServer, stack: ExitStack) -> None:
        self.server = server
        self._stack = stack

    def send(self, data: bytes) -> socket.socket:
        """A new client that has sent this."""
        client = socket.create_connection(("127.0.0.1", self.server.port), timeout=60)
        self._stack.enter_context(client)
        client.sendall(data)
        return client

    def until_open(self, number: int) -> None:
        """Wait until the server has so many connections."""
        self.server.until(
            lambda: len(self.server._web.server_state.connections) == number,
            f"{number} connections",
        )

    def pass_seconds(self, seconds: float) -> None:
        def sweep() -> None:
            self.server.now += seconds
            self.server.connections.sweep()

        self.server.in_loop(sweep)


@pytest.fixture(scope="module")
def shared() -> Iterator[LiveServer]:
    server = LiveServer({"num_kv_blocks": 200}, {}, {})
    yield server
    server.stop()


@pytest.fixture
def clients(shared: LiveServer) -> Iterator[Clients]:
    """Of a server with its own limits, whose clock begins at 0."""
    shared.now = 0.0
    with pytest.MonkeyPatch.context() as patch:
        for name in LIMITS:
            patch.setattr(shared.connections, name, getattr(shared.connections, name))
        yield from clients_of(shared)


def clients_of(server: LiveServer) -> Iterator[Clients]:
    """Its clients, which are all gone at the end."""
    with ExitStack() as stack:
        yield Clients(server, stack)
    server.until(lambda: not server._web.server_state.connections, "no connection is left")
    assert not server.connections._open
    assert server.connections._num_body_bytes == 0
    assert not server.connections._unfinished
    server.assert_idle()


def answer(client: socket.socket) -> bytes:
    """All that a client gets until its connection is closed."""
    found = b""
    try:
        while data := client.recv(1 << 16):
            found += data
    except ConnectionResetError:
        pass
    return found


def is_served(server: LiveServer) -> bool:
    body = b'{"prompt": "a", "max_tokens": 1}'
    with urlopen(f"{server.url}/v1/completions", body, timeout=60) as response:
        return bool(json.load(response)["choices"])


@pytest.mark.parametrize(
    ("sent", "seconds", "status"),
    [
        (b"", 10, b""),
        (b"GET /health HTTP/1.1\r\nHo", 10, b"HTTP/1.1 408"),
        (HEAD % 100 + b"{", 60, b"HTTP/1.1 408"),
        (HEAD % 100, 60, b"HTTP/1.1 408"),
        (HEAD.replace(b"Content-Length: %d", b"Transfer-Encoding: chunked"), 60, b"HTTP/1.1 408"),
    ],
)
def test_a_request_that_is_not_sent_in_time_ends(
    clients: Clients, sent: bytes, seconds: float, status: bytes
) -> None:
    """Each byte that comes slowly gives no more time."""
    client = clients.send(sent)
    clients.until_open(1)
    clients.server.until(lambda: bool(clients.server.connections._unfinished), "it was seen")
    if sent and seconds > 10:
        (waiting,) = clients.server.connections._unfinished
        clients.server.until(lambda: waiting.deadline == seconds, "its header has come")
    clients.pass_seconds(seconds - 1)
    if sent:
        client.sendall(b"s")
    assert is_served(clients.server)
    clients.pass_seconds(2)
    assert answer(client)[:12] == status


def test_a_request_that_is_whole_has_no_deadline(clients: Clients) -> None:
    body = b'{"prompt": "a", "stream": true, "max_tokens": 300, "ignore_eos": true}'
    client = clients.send(HEAD % len(body) + body)
    assert client.recv(12) == b"HTTP/1.1 200"
    clients.pass_seconds(1000)
    read = b""
    while not read.endswith(b"\r\n0\r\n\r\n"):
        read += client.recv(1 << 16)
    assert b'"finish_reason":"length"' in read
    assert b"[DONE]" in read
    client.sendall(b"GET /hea")  # the next one has a deadline again
    clients.pass_seconds(11)
    assert b"200" not in answer(client)


def test_silent_clients_take_no_place_from_one_that_asks(clients: Clients) -> None:
    server = clients.server
    server.in_loop(lambda: setattr(server.connections, "max_connections", 4))
    silent = [clients.send(b"") for _ in range(12)]
    for _ in range(3):
        assert is_served(server)
    assert [answer(client) for client in silent[:8]] == [b""] * 8


def test_where_all_are_busy_one_more_is_refused(clients: Clients) -> None:
    server = clients.server
    body = b'{"prompt": "a", "stream": true, "max_tokens": 2000, "ignore_eos": true}'
    busy = [clients.send(HEAD % len(body) + body) for _ in range(2)]
    for client in busy:
        assert client.recv(12) == b"HTTP/1.1 200"
    server.in_loop(lambda: setattr(server.connections, "max_connections", 2))
    assert answer(clients.send(b"")) == b""
    for client in busy:
        assert client.recv(1)


def test_unfinished_bodies_hold_bounded_memory_and_shut_nobody_out(clients: Clients) -> None:
    server = clients.server
    server.in_loop(lambda: setattr(server.connections, "max_body_bytes", 4 * MEBIBYTE))
    held: list[int] = []
    unfinished = []
    gc.disable()
    tracemalloc.start()
    for _ in range(12):
        client = clients.send(HEAD % (2 * MEBIBYTE))
        unfinished.append(client)
        client.sendall(b" " * MEBIBYTE)
        held.append(server.in_loop(lambda: server.connections._num_body_bytes))
    assert is_served(server)
    assert max(held) <= 4 * MEBIBYTE
    server.until(lambda: server.server.num_in_flight <= 4, "the tasks of those dropped have ended")
    num_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    gc.enable()
    assert num_bytes < 6 * MEBIBYTE, "what was dropped is freed at once"
    assert [answer(client)[:12] for client in unfinished[:7]] == [b"HTTP/1.1 503"] * 7
    body = b'{"prompt": "a", "max_tokens": 1}'
    whole = body + b" " * (2 * MEBIBYTE - len(body))
    late = clients.send(HEAD % len(whole) + whole)
    assert late.recv(12) == b"HTTP/1.1 200"


def test_a_body_that_is_too_long_costs_the_next_request_nothing(clients: Clients) -> None:
    """It is answered, and thrown away as it comes, so it is not among the bytes that are held."""
    server = clients.server
    client = clients.send(HEAD % (70 * MEBIBYTE))
    client.sendall(b" " * (33 * MEBIBYTE))
    found = b""
    while not found.endswith(b"}}"):
        found += client.recv(1 << 16)
    assert found.startswith(b"HTTP/1.1 413")
    assert server.in_loop(lambda: server.connections._num_body_bytes) == 0
    body = b'{"prompt": "a", "max_tokens": 1}'
    client.sendall(b" " * (37 * MEBIBYTE) + HEAD % len(body) + body)
    assert client.recv(12) == b"HTTP/1.1 200"


CHUNKED = HEAD.replace(b"Content-Length: %d", b"Transfer-Encoding: chunked")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ([b"GET /health HTTP/1.1\r\nHost: localhost\r\n", b"a: b\r\n" * 3000], b"431"),
        ([b"GET /health HTTP/1.1\r\nHost: localhost\r\na: " + b"b" * 20_000], b"431"),
        ([b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"a: b\r\n" * 100_000], b"431"),
        ([b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"], b"431"),
        ([CHUNKED] + [b"1\r\n \r\n" * 20_000] * 8, b"413"),
    ],
    ids=["lines", "one line", "lines at once", "path", "chunks"],
)
def test_what_the_event_loop_reads_is_bounded(
    clients: Clients, sent: list[bytes], status: bytes
) -> None:
    client = clients.send(b"")
    for part in sent:
        client.sendall(part)
    head, _, body = answer(client).partition(b"\r\n\r\n")
    assert head[9:12] == status
    assert "has more than" in json.loads(body)["error"]["message"]
    assert is_served(clients.server)


def test_a_body_whose_end_is_said_twice_is_refused(clients: Clients) -> None:
    """A proxy before the server could take the rest of it for a request of its own."""
    body = b"0\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    twice = HEAD[:-2] % len(body) + b"Transfer-Encoding: chunked\r\n\r\n"
    found = answer(clients.send(twice + body))
    assert found[9:12] == b"400"
    assert b"Content-Length or Transfer-Encoding" in found
    assert found.count(b"HTTP/1.1") == 1, "the connection is closed"


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (HEAD.replace(b"%d", b"-1"), "bad Content-Length"),
        (HEAD.replace(b"%d", b"1\r\nContent-Length: 2"), "conflicting Content-Length"),
        (CHUNKED.replace(b"chunked", b"gzip"), "Only Transfer-Encoding: chunked is supported"),
        (CHUNKED + b"zz\r\n", "illegal chunk header"),
        (CHUNKED + b"1;" + b"a" * 100_000, "too long"),
        (b"GET /health HTTP/1.1\r\n\r\n", "Host"),
        (b"GET /health HTTP/1.1\r\nno colon\r\n\r\n", "illegal header line"),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", "illegal request line"),
    ],
)
def test_what_is_no_http_is_told_why(clients: Clients, sent: bytes, why: str) -> None:
    head, _, body = answer(clients.send(sent)).partition(b"\r\n\r\n")
    assert head[9:12] == b"400"
    assert why in json.loads(body)["error"]["message"]
    assert is_served(clients.server)


def test_a_target_with_the_host_is_the_same_path(clients: Clients) -> None:
    """As a client writes it for a proxy."""
    for path, status in ((b"health", b"200"), (b"nothing", b"404")):
        client = clients.send(b"GET http://localhost/%s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path)
        assert client.recv(12)[9:] == status


def test_the_loop_reads_little_at_once(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a body in the smallest chunks is read between the turns of other clients."""
    sizes, receive = [], Connection.data_received

    def noting(connection: Connection, data: bytes) -> None:
        sizes.append(len(data))
        receive(connection, data)

    monkeypatch.setattr(Connection, "data_received", noting)
    client = clients.send(CHUNKED + b"1\r\n \r\n" * 25_000 + b"0\r\n\r\n")
    assert answer(client)[9:12] == b"400"  # spaces are no JSON
    assert sum(sizes) > 150_000
    assert max(sizes) <= MAX_READ_BYTES // 16, "where lines are read, and the first read has some"
    sizes.clear()
    client = clients.send(HEAD % MEBIBYTE + b" " * MEBIBYTE)
    assert answer(client)[9:12] == b"400"
    assert MAX_READ_BYTES // 16 < max(sizes) <= MAX_READ_BYTES


def test_what_is_sent_before_its_turn_is_bounded(clients: Clients) -> None:
    body = b'{"prompt": "a", "stream": true, "max_tokens": 2000, "ignore_eos": true}'
    client = clients.send(HEAD % len(body) + body)
    assert client.recv(12) == b"HTTP/1.1 200"
    client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)
    assert b"[DONE]" not in answer(client)


def test_a_body_in_chunks_and_a_header_below_the_limits_are_read(clients: Clients) -> None:
    body = b'{"prompt": "a", "max_tokens": 1}' + b" " * 5_000
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    client = clients.send(CHUNKED[:-2] + b"a: " + b"b" * 12_000 + b"\r\n\r\n" + chunks)
    assert client.recv(12) == b"HTTP/1.1 200"


def unread(clients: Clients) -> socket.socket:
    """A client with more of answers than the system holds, of which it reads nothing."""
    client = clients.send(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 300)
    server = clients.server
    server.until(
        lambda: any(each.flow and each.flow.write_paused for each in server.connections._open),
        "it is behind",
    )
    return client


def test_a_client_that_does_not_read_its_answer_ends(clients: Clients) -> None:
    client = unread(clients)
    clients.pass_seconds(1)
    clients.pass_seconds(59)
    clients.until_open(1)
    assert client.recv(1) == b"H"
    clients.pass_seconds(2)
    clients.until_open(0)


def test_answers_that_are_not_read_hold_bounded_memory(clients: Clients) -> None:
    server = clients.server
    unread(clients)
    idle = clients.send(b"")
    server.in_loop(lambda: setattr(server.connections, "max_unread_bytes", 1000))
    clients.pass_seconds(1)
    clients.until_open(1)
    idle.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert idle.recv(12) == b"HTTP/1.1 200"
    assert is_served(server)


def test_what_is_written_is_sent_at_once(clients: Clients) -> None:
    """And not when the client has confirmed what came before, which takes it 40 milliseconds."""
    clients.send(b"GET")
    clients.until_open(1)
    transports = clients.server.in_loop(
        lambda: [each.transport for each in clients.server.connections._open]
    )
    sockets = [each.get_extra_info("socket") for each in transports]
    assert sockets
    assert all(each.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for each in sockets)


def test_an_unfinished_body_holds_up_no_end(serve: Callable[..., LiveServer]) -> None:
    server = serve()
    with contextmanager(clients_of)(server) as clients:
        ends_without_its_body(clients)


def ends_without_its_body(clients: Clients) -> None:
    server = clients.server
    client = clients.send(HEAD % 100 + b"{")
    server.until(lambda: server.server.num_in_flight == 1, "it is in flight")
    server.in_loop(server.connections.drain)
    clients.pass_seconds(2)
    server.until(lambda: not server.server.num_in_flight, "it has ended")
    assert answer(client)[:12] == b"HTTP/1.1 408"
