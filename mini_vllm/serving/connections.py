"""Connections below HTTP: how many there are, how long a client may take to send a request, and how
many bytes of unfinished bodies are held.

uvicorn ends connections that are idle between two requests. What is here it does not have: a
request that has begun has a deadline. When a place or memory is short, the unfinished request that
began first makes room, so that clients that send nothing shut nobody out.
"""

import asyncio
import resource
from collections.abc import Callable
from typing import Any

from h11 import IDLE, SEND_BODY
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_FILES = 8192  # to which a process raises its own limit, if it may
SWEEP = 0.5  # seconds


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
        self.timeouts = {IDLE: 10.0, SEND_BODY: 60.0}  # for a header, and for a body
        self.clock = clock
        self._unfinished: dict[Connection, None] = {}  # the one that began first is first
        self._num_open = self._num_body_bytes = 0

    def opened(self, connection: "Connection") -> None:
        """It is there. If it is one too many, an unfinished one ends, or else this one."""
        self._num_open += 1
        if self._num_open > self.max_connections:
            first = next(iter(self._unfinished), connection)
            first.refuse(503)

    def closed(self, connection: "Connection") -> None:
        self._num_open -= 1
        self.has_all(connection)

    def waits(self, connection: "Connection", state: Any) -> None:
        """From now on for more of a request: its header (IDLE) or its body (SEND_BODY)."""
        self.has_all(connection)
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
            first = next(each for each in self._unfinished if each.num_body_bytes)
            first.refuse(503)

    def sweep(self) -> None:
        """End the requests whose time is over."""
        now = self.clock()
        for connection in [each for each in self._unfinished if each.deadline <= now]:
            connection.refuse(408)

    async def keep_sweeping(self) -> None:
        """As long as the server runs."""
        while True:
            await asyncio.sleep(SWEEP)
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
        self.deadline = 0.0
        self.num_body_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._all.opened(self)
        self._look(0)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.closed(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
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
        if self._state is not before:
            is_whole = self._state not in self._all.timeouts
            self._all.has_all(self) if is_whole else self._all.waits(self, self._state)
        if self._state is SEND_BODY:
            self._all.took(self, num_bytes)

    def refuse(self, status: int) -> None:
        """Close, with an answer if a request has begun and no other answer has."""
        self._all.has_all(self)
        has_begun = self._state is SEND_BODY or self.conn.trailing_data[0]
        is_answered = self._state is SEND_BODY and self.cycle.response_started
        if not has_begun or is_answered:
            self.transport.abort()
            return
        head = b"HTTP/1.1 %d \r\nContent-Length: 0\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"
        self.transport.write(head % status)
        self.transport.close()
