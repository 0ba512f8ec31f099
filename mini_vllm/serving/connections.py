"""Connections below HTTP: how many there are, how long a client may take to send a request and to
read its answer, and how many bytes of unfinished bodies and of unread answers are held.

uvicorn ends connections that are idle between two requests. What is here it does not have: a
request that has begun has a deadline. When a place or memory is short, the unfinished request that
began first makes room, so that clients that send nothing shut nobody out. A header, and a body's
division into chunks, are read in the event loop, so both are bounded.
"""

import asyncio
import re
import resource
import sys
from collections.abc import Callable
from typing import Any

import orjson
from h11 import DONE, IDLE, SEND_BODY
from uvicorn.protocols.http.h11_impl import H11Protocol

from mini_vllm.serving.openai.protocol import ApiError

MAX_FILES = 8192  # to which a process raises its own limit, if it may
MAX_HEADER_BYTES = 1 << 14
HEADER_END = re.compile(rb"\n\r?\n")
HEADER_SECONDS, BODY_SECONDS = 10.0, 60.0
MAX_LINES = 1 << 16  # of a body in chunks, which have two each
# at once, a sixteenth of it where lines are read; the loop then looks at the other connections
MAX_READ_BYTES = 1 << 15

WHY = {
    408: f"the header must come in {HEADER_SECONDS} seconds, the body in {BODY_SECONDS}",
    413: f"the body has more than {MAX_LINES:,} lines of chunks",
    431: f"the header, or what is sent before its turn, has more than {MAX_HEADER_BYTES:,} bytes",
    503: "there are too many connections, or too many bytes of unfinished bodies",
}


class Connections:
    """All connections of a server. Times in seconds.

    max_connections: by default as many as leave file descriptors for what else is opened.
    """

    def __init__(self, clock: Callable[[], float], max_connections: int | None = None) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
        # asyncio accepts so many at once, and closes those that are too many some turns later
        self.backlog = max(4, min(most // 16, 128))
        self.max_connections = max_connections or max(1, most - 4 * self.backlog - 32)
        self.max_body_bytes = 64 << 20
        self.max_unread_bytes = 256 << 20
        self.timeouts = {IDLE: HEADER_SECONDS, SEND_BODY: BODY_SECONDS}
        self.unread_timeout = 60.0  # in which a client reads something of its answer
        self.clock = clock
        self._unfinished: dict[Connection, None] = {}  # the one that began first is first
        self._open: set[Connection] = set()
        self._num_body_bytes = 0

    def opened(self, connection: "Connection") -> None:
        """It is there. If it is one too many, an unfinished one ends, or else this one."""
        self._open.add(connection)
        if len(self._open) > self.max_connections:
            next(iter(self._unfinished), connection).refuse(503)

    def closed(self, connection: "Connection") -> None:
        self._open.discard(connection)
        self.has_all(connection)

    def waits(self, connection: "Connection", state: Any) -> None:
        """From now on for more of a request, its header (IDLE) or its body (SEND_BODY); or not."""
        self.has_all(connection)
        if state in self.timeouts:
            self._unfinished[connection] = None
            connection.deadline = self.clock() + self.timeouts[state]

    def has_all(self, connection: "Connection") -> None:
        """Its request is whole, or is given up."""
        self._unfinished.pop(connection, None)
        self._num_body_bytes -= connection.num_body_bytes
        connection.num_body_bytes = 0

    def took(self, connection: "Connection", num_bytes: int) -> None:
        """Bytes of an unfinished body."""
        connection.num_body_bytes += num_bytes
        self._num_body_bytes += num_bytes
        while self._num_body_bytes > self.max_body_bytes:
            next(each for each in self._unfinished if each.num_body_bytes).refuse(503)

    def sweep(self) -> None:
        """End the requests whose time is over, and the connections whose clients do not read."""
        now = self.clock()
        for connection in [each for each in self._unfinished if each.deadline <= now]:
            connection.refuse(408)
        num_unread = 0
        for connection in sorted(self._open, key=lambda each: each.look_at_unread(now)):
            num_unread += connection.num_unread
            is_late = now - connection.read_at > self.unread_timeout
            if is_late or num_unread > self.max_unread_bytes:
                connection.transport.abort()

    async def keep_sweeping(self) -> None:
        """Every half second, as long as the server runs."""
        while True:
            await asyncio.sleep(0.5)
            self.sweep()

    def drain(self) -> None:
        """The server shuts down, and no unfinished body holds it up."""
        self.timeouts[SEND_BODY] = 1.0
        for connection in self._unfinished:
            if connection.num_body_bytes:
                connection.deadline = min(connection.deadline, self.clock() + 1)


class Connection(H11Protocol):
    """One connection. deadline: for the request that it has not all of."""

    def __init__(self, connections: Connections, **options: Any) -> None:
        super().__init__(**options)
        self._all = connections
        self._state: Any = None  # of the client, as h11 sees it
        self._is_chunked = self._is_refused = False
        self.deadline = self.read_at = 0.0
        self.num_body_bytes = self.num_unread = self._num_lines = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._look(0)
        self._all.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.closed(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        if self._is_too_long(data):
            self.refuse(413 if self._state is SEND_BODY else 431, is_sending=True)
        else:
            super().data_received(data)
            self._look(len(data))

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look(0)

    def _look(self, num_bytes: int) -> None:
        """Whether the request is whole, after so many bytes of it."""
        if self.transport.is_closing():
            return
        before, self._state = self._state, self.conn.their_state
        is_answered = self.conn.our_state is DONE  # what comes of the body then is thrown away
        if self._state is not before or (is_answered and self.num_body_bytes):
            self._is_chunked = b"transfer-encoding" in dict(self.headers or ())
            is_by_line = self._is_chunked or self._state is IDLE
            self.transport.max_size = MAX_READ_BYTES >> 4 * is_by_line  # type: ignore[attr-defined]
            self._num_lines = 0
            self._all.waits(self, self._state)
        if self._state is SEND_BODY and not is_answered:
            self._all.took(self, num_bytes)

    def _is_too_long(self, data: bytes) -> bool:
        """Whether a header is, or a body in chunks, or what is sent before its turn."""
        if self._state is not SEND_BODY or self._is_chunked:
            self._num_lines += data.count(b"\n")
        if self._state is SEND_BODY or self._num_lines > MAX_LINES:
            return self._num_lines > MAX_LINES
        data = self.conn.trailing_data[0] + data
        is_header = self._state is IDLE and HEADER_END.search(data, 0, MAX_HEADER_BYTES)
        return len(data) > MAX_HEADER_BYTES and not is_header

    def look_at_unread(self, now: float) -> int:
        """How much of its answers the client has not read."""
        before, self.num_unread = self.num_unread, self.transport.get_write_buffer_size()
        if not self.num_unread or self.num_unread != before:
            self.read_at = now
        return self.num_unread

    def send_400_response(self, msg: str) -> None:
        """In uvicorn's words it is only invalid; the error at hand says why."""
        why = f"this is no request of HTTP: {sys.exception()}"
        self.refuse(400, why[:200], is_sending=True)

    def refuse(self, status: int, why: str = "", *, is_sending: bool = False) -> None:
        """Close, with an answer if a request has begun and no other answer has. is_sending: what
        is still to come is read for a second, since closing before that loses the answer.
        """
        self._all.has_all(self)
        self._is_refused = True
        has_begun = is_sending or self._state is not IDLE or self.conn.trailing_data[0]
        is_answered = self._state is not IDLE and self.cycle.response_started
        if not has_begun or is_answered:
            self.transport.abort()
            return
        body = orjson.dumps(ApiError(status, why or WHY[status]).body)
        head = (
            "HTTP/1.1 {} \r\nContent-Type: application/json\r\nContent-Length: {}\r\n"
            "Retry-After: 1\r\nConnection: close\r\n\r\n"
        )
        self.transport.write(head.format(status, len(body)).encode() + body)
        self.loop.call_later(float(is_sending), self.transport.close)
