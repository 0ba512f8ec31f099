"""A load generator: it sends requests to a server when they are due, and notes when the tokens come.

The loop is open: requests arrive at times that are fixed before the run, and a slow server does not slow them down, as
users would not (Schroeder et al., Open Versus Closed, NSDI 2006). The client runs in one event loop and parses little,
so that one core can load a server of several.

    Address, Client   HTTP/1.1 over raw streams, connections are used again
    Api, Stream       OpenAI's requests, and the events of their answers
    get_ready         the model, its context, and how many tokens words are on this server
    drive             the open loop

Source of the measurement: vllm/benchmarks/serve.py and lib/endpoint_request_func.py.
"""

import asyncio
import json
import math
import random
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import h11
import orjson

from mini_vllm.cli.load_metrics import Record
from mini_vllm.errors import InvalidParameterError, RequestFailedError, shown
from mini_vllm.simulator.workload import HASH_BLOCK_SIZE, TraceRequest

PORTS = {"http": 80, "https": 443}
READ_BYTES = 1 << 16
MAX_EVENT_BYTES = 1 << 20
MAX_ANSWER_BYTES = 1 << 20  # of an answer that is no stream
PATHS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}
ABORTED = ("abort", "error")  # finish reasons of requests that the server has given up
PROBE_WORDS = (8, 40)

# Each is one token, with the space before it, in most vocabularies, and in that of the bundled model.
WORDS = (
    "the and token block mean that are pre request with one for know about model has meant run can memory queue all "
    "cache log each same number first them head into attention share size ever per prompt keys not layer hash from "
    "full time running wait hit free count long parallel keep weights value over need holds because slot waiting may "
    "most table query decode stream small other last have end text stop key two then often before begin back writes "
    "new never sequence runs compute largest hidden top check any once needs many single together string was fast "
    "some whose part times list limit order until later entry second different seed budget must what would read how "
    "still says without"
).split()

Clock = Callable[[], float]


class ServerUnreachableError(RequestFailedError):
    """The server cannot be reached, or refuses the first requests, so that nothing was measured."""


class FailedAnswerError(Exception):
    """An answer that is not what it should be. kind: what failures are counted by."""

    def __init__(self, kind: str, message: str = "") -> None:
        super().__init__(f"{kind}: {message}" if message else kind)
        self.kind, self.message = kind, message


# --- HTTP -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is."""

    host: str
    port: int
    is_tls: bool
    authority: str
    """Host and port as the URL has them."""
    path: str
    """What stands before /v1."""

    @classmethod
    def parse(cls, url: str) -> "Address":
        """The parts of a URL, with or without /v1 at its end. Raises InvalidParameterError."""
        form = "base_url must be http://HOST[:PORT] or https://HOST[:PORT]"
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise InvalidParameterError(f"{form}, got {shown(url)}: {error}") from error
        is_clean = url.isascii() and url.isprintable() and " " not in url and "@" not in parts.netloc
        if not is_clean or parts.scheme not in PORTS or not parts.hostname or parts.query or parts.fragment:
            raise InvalidParameterError(f"{form}, got {shown(url)}")
        path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
        port = PORTS[parts.scheme] if port is None else port
        return cls(parts.hostname, port, parts.scheme == "https", parts.netloc, path)

    def __str__(self) -> str:
        return f"{'https' if self.is_tls else 'http'}://{self.authority}{self.path}"


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
            text = error["message"] if isinstance(error, dict) and "message" in error else found.get("detail", error)
        except (ValueError, AttributeError):
            text = self.body.decode(errors="replace")
        return text if isinstance(text, str) else json.dumps(text)


class Connection:
    """One connection, for one request after another."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=READ_BYTES)
        self.is_used = False
        self.has_answered = False
        """Whether a byte of the answer to the last request has come."""

    async def exchange(self, request: h11.Request, body: bytes, on_data: Callable[[bytes], None] | None) -> Answer:
        """Send a request and read its answer. on_data: gets the body of a 200, piece by piece as it comes."""
        if self.is_used:
            self._http.start_next_cycle()
        self.has_answered = False
        for event in (request, h11.Data(body), h11.EndOfMessage()):
            self._writer.write(self._http.send(event) or b"")
        await self._writer.drain()
        status, pieces = 0, bytearray()
        while True:
            match self._http.next_event():
                case h11.Response(status_code=status):
                    pass
                case h11.Data(data=data):
                    if status == 200 and on_data is not None:
                        on_data(bytes(data))
                    elif len(pieces) + len(data) <= MAX_ANSWER_BYTES:
                        pieces += data
                    else:
                        raise FailedAnswerError("the answer is too long", f"more than {MAX_ANSWER_BYTES:,} bytes")
                case h11.EndOfMessage():
                    self.is_used = True
                    return Answer(status, bytes(pieces))
                case h11.NEED_DATA:
                    received = await self._reader.read(READ_BYTES)
                    self.has_answered |= bool(received)
                    self._http.receive_data(received)

    @property
    def can_go_on(self) -> bool:
        """Whether both sides would go on with a further request."""
        is_done = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        return is_done and not self._reader.at_eof()

    def close(self) -> None:
        """Close it at once; the server sees that its client has gone."""
        self._writer.transport.abort()


class Client:
    """HTTP/1.1 to one server. It opens as many connections as requests are in flight, and uses them again."""

    def __init__(self, address: Address, api_key: str | None = None) -> None:
        self.address = address
        self._tls = ssl.create_default_context() if address.is_tls else None
        self._host = address.host  # an IP address once one has answered: names take time
        self._headers = [("Host", address.authority), ("User-Agent", "mini-vllm-bench")]
        if api_key is not None:
            self._headers.append(("Authorization", f"Bearer {api_key}"))
        self._idle: list[Connection] = []

    async def ask(
        self, method: str, path: str, body: bytes = b"", on_data: Callable[[bytes], None] | None = None
    ) -> Answer:
        """The answer to a request. Raises OSError, h11.RemoteProtocolError, or what on_data raises."""
        headers = [*self._headers, ("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        request = h11.Request(method=method, target=self.address.path + path, headers=headers)
        while True:
            connection = self._take() or await self._open()
            was_used = connection.is_used
            try:
                answer = await connection.exchange(request, body, on_data)
            except BaseException as error:
                connection.close()
                lost = isinstance(error, ConnectionError | h11.RemoteProtocolError)
                if lost and was_used and not connection.has_answered:
                    continue  # the server had closed the idle connection
                raise
            if connection.can_go_on:
                self._idle.append(connection)
            else:
                connection.close()
            return answer

    def _take(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.can_go_on:
                return connection
            connection.close()
        return None

    async def _open(self) -> Connection:
        name = self.address.host if self._tls else None
        reader, writer = await asyncio.open_connection(
            self._host, self.address.port, ssl=self._tls, server_hostname=name
        )
        self._host = writer.get_extra_info("peername")[0]
        return Connection(reader, writer)

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()


# --- OpenAI's API ---------------------------------------------------------------------------------------------------


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
        asked: dict[str, Any] = {"model": self.model, "stream": True, "stream_options": {"include_usage": True}}
        if self.endpoint == "chat":
            asked |= {"messages": [{"role": "user", "content": prompt}], "max_completion_tokens": max_tokens}
        else:
            asked |= {"prompt": prompt, "max_tokens": max_tokens}
        return orjson.dumps(asked | ({"ignore_eos": True} if self.ignore_eos else {}))


class Stream:
    """Reads the answer to one request into its record. As for vLLM's client, a chunk with choices is a token.

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
            raise FailedAnswerError("error in the stream", error["message"] if isinstance(error, dict) else str(error))
        if choices := chunk.get("choices"):
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


def failure(error: OSError | h11.RemoteProtocolError | FailedAnswerError) -> FailedAnswerError:
    """The kind of an error, and what it says."""
    match error:
        case FailedAnswerError():
            return error
        case TimeoutError():
            return FailedAnswerError("timeout")
        case ConnectionRefusedError():
            return FailedAnswerError("connection refused")
        case ConnectionError():
            return FailedAnswerError("connection lost", str(error))
        case h11.RemoteProtocolError():
            return FailedAnswerError("answer broken off", str(error))
        case _:
            return FailedAnswerError(error.strerror or str(error))


async def fetch(client: Client, api: Api, body: bytes, record: Record, clock: Clock, timeout: float | None) -> None:
    """Send one request; its record tells what came of it, an error included. timeout: in seconds."""
    stream = Stream(record, clock)
    try:
        async with asyncio.timeout(timeout):
            stream.finish(await client.ask("POST", api.path, body, stream.feed))
    except (OSError, h11.RemoteProtocolError, FailedAnswerError) as error:
        failed = failure(error)
        record.error, record.message = failed.kind, failed.message


# --- before the run -------------------------------------------------------------------------------------------------


class WordCount(NamedTuple):
    """How many tokens words are: so many stand before those of every prompt, and so many is a word."""

    per_prompt: float = 0.0
    per_word: float = 1.0

    def words(self, num_tokens: int) -> int:
        """The words of a prompt of so many tokens, at least one."""
        return max(round((num_tokens - self.per_prompt) / self.per_word), 1)


class Ready(NamedTuple):
    """What is known of a server before the run."""

    api: Api
    max_model_len: int | None
    word_count: WordCount


async def get_ready(client: Client, endpoint: str, model: str | None, *, ignore_eos: bool, timeout: float) -> Ready:
    """Find the model, and how many tokens words are; see whether the server knows ignore_eos.

    Raises ServerUnreachableError if it cannot answer.
    """
    try:
        async with asyncio.timeout(timeout):
            name, max_model_len = await _find_model(client, model)
            api = Api(endpoint, name, ignore_eos)
            num_tokens = []
            for num_words in PROBE_WORDS:
                record = await _probe(client, api, num_words)
                if record.error in ("status 400", "status 422") and api.ignore_eos:
                    api = Api(endpoint, name)
                    record = await _probe(client, api, num_words)
                if record.error:
                    message = f"{record.error} {record.message}".rstrip()
                    raise FailedAnswerError(f"{client.address}{api.path} refuses a first request", message)
                num_tokens.append(record.num_input_tokens)
    except (OSError, h11.RemoteProtocolError, FailedAnswerError) as error:
        message = str(error) if isinstance(error, FailedAnswerError) else f"{client.address}: {failure(error)}"
        raise ServerUnreachableError(message) from error
    few, many = PROBE_WORDS
    per_word = (num_tokens[1] - num_tokens[0]) / (many - few)
    word_count = WordCount(num_tokens[0] - few * per_word, per_word) if per_word > 0 else WordCount()
    return Ready(api, max_model_len, word_count)


async def _find_model(client: Client, name: str | None) -> tuple[str, int | None]:
    """The model and its context, if the server tells it. A server that lists no models needs a name."""
    answer = await client.ask("GET", "/v1/models")
    where = f"{client.address}/v1/models"
    if answer.status in (401, 403):
        raise FailedAnswerError(where, f"status {answer.status} {answer.message}")
    try:
        models = {str(each["id"]): each for each in json.loads(answer.body)["data"]}
        found = next(iter(models)) if name is None else name
    except (ValueError, KeyError, TypeError, StopIteration) as error:
        if name is None:
            raise FailedAnswerError(f"{where} lists no model, give its name", f"status {answer.status}") from error
        return name, None
    limit = models.get(found, {}).get("max_model_len")
    return found, limit if isinstance(limit, int) else None


async def _probe(client: Client, api: Api, num_words: int) -> Record:
    record = Record(0.0, num_words)
    prompt = text_of(random.Random(num_words).choices(WORDS, k=num_words))
    await fetch(client, api, api.body(prompt, 1), record, lambda: 0.0, None)
    return record


def text_of(words: Sequence[str]) -> str:
    """A text in which each word has a space before it, as in the vocabulary."""
    return " " + " ".join(words)


def bodies(requests: Sequence[TraceRequest], ready: Ready, *, seed: int, length_scale: float = 1.0) -> list[bytes]:
    """The bodies of all requests, made before the run. Equal hash ids are equal words. Raises InvalidParameterError."""
    limit = ready.max_model_len
    words_per_block = max(round(HASH_BLOCK_SIZE * length_scale / ready.word_count.per_word), 1)
    made = []
    for number, request in enumerate(requests):
        if limit is not None and request.input_length + request.output_length > limit:
            lengths = f"{request.input_length} prompt tokens and {request.output_length} output tokens"
            raise InvalidParameterError(f"request {number + 1}: {lengths} are more than the model's context of {limit}")
        num_words = ready.word_count.words(request.input_length)
        words: list[str] = []
        for hash_id in request.hash_ids[: math.ceil(num_words / words_per_block)]:
            words += random.Random(f"block {seed} {hash_id}").choices(WORDS, k=words_per_block)
        words += random.Random(f"request {seed} {number}").choices(WORDS, k=max(num_words - len(words), 0))
        made.append(ready.api.body(text_of(words[:num_words]), request.output_length))
    return made


# --- the run --------------------------------------------------------------------------------------------------------


async def drive(
    requests: Sequence[TraceRequest],
    send: Callable[[int, Record, Clock], Awaitable[None]],
    *,
    max_concurrency: int | None = None,
    is_closed_loop: bool = False,
    on_done: Callable[[], object] = lambda: None,
    clock: Clock | None = None,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> tuple[list[Record], float]:
    """Send each request at its arrival; the records, and how many seconds it took.

    send: gets the number of a request, its record, and a clock that began with the run. max_concurrency: most requests
    in flight; one that has to wait for a slot is late, except in a closed loop, where it arrives with the slot.
    """
    clock = clock or asyncio.get_running_loop().time
    start = clock()
    slots = asyncio.Semaphore(max_concurrency or len(requests))
    records = [Record(request.arrival_time, request.input_length, request.arrival_time) for request in requests]

    def now() -> float:
        return clock() - start

    async def one(number: int, record: Record) -> None:
        record.woken = now()
        async with slots:
            record.sent = now()
            if is_closed_loop:
                record.due = record.sent
            await send(number, record, now)
        on_done()

    async with asyncio.TaskGroup() as group:
        for number, record in enumerate(records):
            if (wait := record.arrival - now()) > 0:
                await sleep(wait)
            group.create_task(one(number, record))
    return records, now()
