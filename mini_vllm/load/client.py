"""OpenAI's API over HTTP: what a request asks for, and the stream that answers it, with the time of
each token.

    Client         HTTP/1.1, connections are used again
    Api, Stream    OpenAI's requests, and the events of their answers
    fetch          one request, whose record tells what came of it

It runs in one event loop and parses little, so that one core can load a server of several.
Source: vllm/benchmarks/lib/endpoint_request_func.py.
"""

import asyncio
import json
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpcore2
import orjson

from mini_vllm.errors import InvalidParameterError, shown
from mini_vllm.load.metrics import Record

MAX_EVENT_BYTES = 1 << 20
MAX_ANSWER_BYTES = 1 << 20  # of an answer that is no stream
PATHS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}
ABORTED = ("abort", "error")  # finish reasons of requests that the server has given up
HTTP_ERRORS = (OSError, httpcore2.NetworkError, httpcore2.RemoteProtocolError)
# A failure before the first of these is one of an idle connection that the server has closed.
NO_RETRY_AFTER = {"connection.connect_tcp.started", "http11.receive_response_headers.complete"}

Clock = Callable[[], float]


class FailedAnswerError(Exception):
    """An answer that is not what it should be. kind: what failures are counted by."""

    def __init__(self, kind: str, message: str = "") -> None:
        super().__init__(f"{kind}: {message}" if message else kind)
        self.kind, self.message = kind, message


# --- HTTP -----------------------------------------------------------------------------------------


class Answer(NamedTuple):
    """An answer. body: empty if it was read as a stream."""

    status: int
    body: bytes

    @property
    def message(self) -> str:
        """What an error says, in OpenAI's shape or another."""
        try:
            found = json.loads(self.body)
            error = found.get("error", found)
            text = (
                error["message"]
                if isinstance(error, dict) and "message" in error
                else found.get("detail", error)
            )
        except (ValueError, AttributeError):
            text = self.body.decode(errors="replace")
        return text if isinstance(text, str) else json.dumps(text)


def parse_base_url(url: str) -> str:
    """The URL of a server, without /v1 at its end. Raises InvalidParameterError."""
    form = "base_url must be http://HOST[:PORT] or https://HOST[:PORT]"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidParameterError(f"{form}, got {shown(url)}: {error}") from error
    is_clean = (
        port != 0
        and url.isascii()
        and url.isprintable()
        and " " not in url
        and "@" not in parts.netloc
    )
    if (
        not is_clean
        or parts.scheme not in ("http", "https")
        or not parts.hostname
        or parts.query
        or parts.fragment
    ):
        raise InvalidParameterError(f"{form}, got {shown(url)}")
    return f"{parts.scheme}://{parts.netloc}" + parts.path.rstrip("/").removesuffix("/v1").rstrip(
        "/"
    )


class Client:
    """HTTP/1.1 to one server.

    It opens as many connections as requests are in flight, and uses them again.
    """

    def __init__(self, base_url: str, api_key: str | None = None) -> None:
        self.base_url = parse_base_url(base_url)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl.create_default_context(), max_connections=None
        )
        self._headers = [
            ("Host", urlsplit(self.base_url).netloc),
            ("User-Agent", "mini-vllm-bench"),
        ]
        self._headers.append(("Content-Type", "application/json"))
        if api_key is not None:
            self._headers.append(("Authorization", f"Bearer {api_key}"))

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        on_data: Callable[[bytes], None] | None = None,
    ) -> Answer:
        """The answer to a request. Raises HTTP_ERRORS, or what on_data raises.

        on_data: gets the body of a 200, piece by piece as it comes.
        """
        events: set[str] = set()

        async def trace(event: str, about: Mapping[str, Any]) -> None:
            events.add(event)

        request: dict[str, Any] = {
            "headers": self._headers,
            "content": body,
            "extensions": {"trace": trace},
        }
        while True:
            pieces = bytearray()
            try:
                async with self._pool.stream(method, self.base_url + path, **request) as response:
                    async for data in response.aiter_stream():
                        if response.status == 200 and on_data is not None:
                            on_data(data)
                        elif len(pieces) + len(data) <= MAX_ANSWER_BYTES:
                            pieces += data
                        else:
                            raise FailedAnswerError(
                                "the answer is too long", f"more than {MAX_ANSWER_BYTES:,} bytes"
                            )
                return Answer(response.status, bytes(pieces))
            except (httpcore2.NetworkError, httpcore2.RemoteProtocolError):
                if events & NO_RETRY_AFTER:
                    raise

    async def close(self) -> None:
        """Close the idle connections."""
        await self._pool.aclose()


# --- OpenAI's API ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Api:
    """How requests look. endpoint: a key of PATHS."""

    endpoint: str
    model: str
    ignore_eos: bool = False

    @property
    def path(self) -> str:
        """The path to send them to."""
        return PATHS[self.endpoint]

    def body(self, prompt: str, max_tokens: int) -> bytes:
        """A request for a stream of max_tokens tokens."""
        asked: dict[str, Any] = {
            "model": self.model,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self.endpoint == "chat":
            asked |= {
                "messages": [{"role": "user", "content": prompt}],
                "max_completion_tokens": max_tokens,
            }
        else:
            asked |= {"prompt": prompt, "max_tokens": max_tokens}
        return orjson.dumps(asked | ({"ignore_eos": True} if self.ignore_eos else {}))


class Stream:
    """Reads the answer to one request into its record.

    As for vLLM's client, a chunk with choices is a token, unless it has the role alone, with which
    a chat begins.

    Server-sent events come in pieces of any size. OpenAI's are one line of data each.
    """

    def __init__(self, record: Record, clock: Clock) -> None:
        self._record, self._clock = record, clock
        self._rest = b""  # of the last piece: a line that is not complete
        self._is_done = False
        self._finish_reason: str | None = None

    def feed(self, data: bytes) -> None:
        """Take a piece of the body. Raises FailedAnswerError for what is no such stream."""
        now = self._clock()
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_EVENT_BYTES:
            raise FailedAnswerError("an event is too long", f"more than {MAX_EVENT_BYTES:,} bytes")
        for event in (line[5:].strip() for line in lines if line.startswith(b"data:")):
            if event == b"[DONE]":
                self._is_done = True
                continue
            try:
                self._take(orjson.loads(event), now)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise FailedAnswerError("no OpenAI stream", f"{error} in {shown(event)}") from error

    def _take(self, chunk: dict[str, Any], now: float) -> None:
        if error := chunk.get("error"):
            raise FailedAnswerError(
                "error in the stream", error["message"] if isinstance(error, dict) else str(error)
            )
        if choices := chunk.get("choices"):
            delta = choices[0].get("delta", {})
            if "role" not in delta or delta.get("content"):
                self._record.token_times.append(now)
            self._finish_reason = choices[0].get("finish_reason") or self._finish_reason
        if usage := chunk.get("usage"):
            self._record.num_input_tokens = int(usage["prompt_tokens"])
            self._record.num_counted = int(usage["completion_tokens"])

    def finish(self, answer: Answer) -> None:
        """The answer is over. Raises FailedAnswerError if it is not whole."""
        if answer.status != 200:
            raise FailedAnswerError(f"status {answer.status}", answer.message)
        if not self._is_done:
            raise FailedAnswerError("the stream ended early", "it has no [DONE]")
        if not self._record.token_times:
            raise FailedAnswerError("no token came")
        if self._finish_reason in ABORTED:
            raise FailedAnswerError(f"finish reason {self._finish_reason}")


def failure(error: BaseException) -> FailedAnswerError:
    """The kind of an error of HTTP_ERRORS, or a FailedAnswerError, and what it says."""
    if isinstance(error, httpcore2.NetworkError):
        error = source(error)
    match error:
        case FailedAnswerError():
            return error
        case httpcore2.RemoteProtocolError():
            return FailedAnswerError("answer broken off", str(error))
        case TimeoutError():
            return FailedAnswerError("timeout")
        case ConnectionRefusedError():
            return FailedAnswerError("connection refused")
        case OSError() if not isinstance(error, ConnectionError):
            return FailedAnswerError(error.strerror or str(error))
        case _:
            return FailedAnswerError("connection lost", str(error))


def source(error: BaseException) -> BaseException:
    """The error of the operating system, or another one, that an error of the library comes of."""
    while (
        inner := error.exceptions[0]
        if isinstance(error, ExceptionGroup)
        else error.__cause__ or error.__context__
    ):
        error = inner
    return error


async def fetch(
    client: Client, api: Api, body: bytes, record: Record, clock: Clock, timeout: float | None
) -> None:
    """Send one request; its record tells what came of it, an error included. timeout: in
    seconds.
    """
    stream = Stream(record, clock)
    try:
        async with asyncio.timeout(timeout):
            stream.finish(await client.ask("POST", api.path, body, stream.feed))
    except (*HTTP_ERRORS, FailedAnswerError) as error:
        failed = failure(error)
        record.error, record.message = failed.kind, failed.message
