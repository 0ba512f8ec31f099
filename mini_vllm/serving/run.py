"""A server from its first signal to its last: uvicorn around the application, and an end without
loss.

At SIGTERM or Ctrl-C the port stays open, so that /health and new requests are answered with 503
while those in flight finish. What is not over at the deadline ends with finish reason "abort". A
second signal ends everything at once.
"""

import asyncio
import gc
import logging
import math
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from logging.handlers import QueueHandler, QueueListener
from queue import Queue

import uvicorn

from mini_vllm.errors import EngineDeadError, InvalidParameterError, shown
from mini_vllm.serving.app import Server
from mini_vllm.serving.connections import Connection, Connections

logger = logging.getLogger("mini_vllm")

SIGNALS = signal.SIGTERM, signal.SIGINT
GRACE = 0.5  # seconds that a server whose engine has died goes on to say so
FLUSH = 0.5  # seconds for the last words of what was ended
PATIENCE = 3.0  # seconds for an engine to end by itself
POLL = 0.05
MAX_LINES = 10_000  # of the log that wait to be written; those beyond them are lost


class _Uvicorn(uvicorn.Server):
    """It leaves signals alone: they are run()'s."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Log(QueueHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """The queue is full."""


@contextmanager
def log_in_a_thread() -> Iterator[Queue[logging.LogRecord]]:
    """A terminal or a pipe that takes nothing at the moment holds up nobody. Yields what waits."""
    lines = Queue[logging.LogRecord](MAX_LINES)
    handlers = logger.handlers
    QueueListener(lines, *handlers).start()
    logger.handlers = logging.getLogger("uvicorn").handlers = [_Log(lines)]
    # it warns of each write to a client that has gone
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    try:
        yield lines
    finally:
        logger.handlers = handlers


async def run(
    server: Server, *, host: str, port: int, shutdown_timeout: float, on_open: Callable[[int], None]
) -> None:
    """Serve until a signal. on_open: gets the port when it is open and the model is loaded.

    Raises EngineDeadError if the engine cannot start or has died, InvalidParameterError if the port
    cannot be opened.
    """
    engine, api = server.engine, server.api
    listening = listen(host, port)
    connections = Connections(time.monotonic)
    web = _Uvicorn(web_config(server, connections))
    with log_in_a_thread() as log:
        signals: list[int] = []
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, signals.append, number)
        serving = asyncio.create_task(web.serve([listening]))
        sweeping = asyncio.create_task(connections.keep_sweeping())
        try:
            await _until(
                lambda: serving.done() or (web.started and (api.is_ready or engine.is_dead)),
                signals,
            )
            if web.started and api.is_ready:
                # Full collections, which stop all threads for up to a fifth of a second, pass over
                # what stays, and are rare.
                gc.freeze()
                gc.set_threshold(700, 10, 1000)
                on_open(listening.getsockname()[1])  # the system has chosen it, if port is 0
            await _until(lambda: serving.done() or engine.is_dead, signals)
            if engine.is_dead and api.is_ready and not signals:
                await _until(lambda: False, signals, timeout=GRACE)
            connections.drain()
            await _drain(server, serving, signals, shutdown_timeout)
            web.should_exit = True
            await _until(serving.done, signals, most=2, timeout=FLUSH)
            # a client that does not read, or has not sent all, ends nothing
            while not serving.done():
                for connection in list(web.server_state.connections):
                    connection.transport.abort()
                await asyncio.sleep(POLL)
            await serving
        finally:
            sweeping.cancel()
            await engine.close(0)
            await _until(log.empty, [], timeout=FLUSH)
            for number in SIGNALS:
                loop.remove_signal_handler(number)
        if engine.is_dead and not signals:
            raise EngineDeadError(f"the engine has stopped: {engine.why_dead}")


def web_config(server: Server, connections: Connections) -> uvicorn.Config:
    """How uvicorn serves it."""
    return uvicorn.Config(
        server,
        loop="asyncio",
        http=partial(Connection, connections),  # type: ignore[arg-type]
        lifespan="on",
        log_level="warning",
        access_log=False,
        backlog=connections.backlog,
    )


async def _drain(
    server: Server, serving: asyncio.Task[None], signals: list[int], timeout: float
) -> None:
    """Refuse what is new, let what is in flight finish until the timeout, and end the engine."""
    server.api.is_draining = True
    if server.engine.is_dead:  # every stream has its error, and nothing ends but by a client
        return
    is_idle = lambda: serving.done() or not server.num_in_flight  # noqa: E731
    await _until(is_idle, signals, most=2, timeout=timeout)
    server.engine.abort_all()
    await _until(is_idle, signals, most=2, timeout=FLUSH)
    await server.engine.close(PATIENCE if server.api.is_ready and len(signals) < 2 else 0)


def listen(host: str, port: int) -> socket.socket:
    """The open port. Raises InvalidParameterError if it cannot be opened."""
    if not host:
        raise InvalidParameterError(
            "host must be an address or a name, got '': 0.0.0.0 is every interface"
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        message = f"host {shown(host)}, port {port} cannot be opened: {error.strerror or error}"
        raise InvalidParameterError(message) from error
    # asyncio sets it where the socket says that it is TCP, and this one does not
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


async def _until(
    holds: Callable[[], bool], signals: list[int], *, most: int = 1, timeout: float = math.inf
) -> None:
    """Wait until something holds, `most` signals have come, or the time in seconds is over."""
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout
    while not holds() and len(signals) < most and loop.time() < end:
        await asyncio.sleep(POLL)
