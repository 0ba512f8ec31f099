"""A load generator: it sends requests to a server when they are due, and notes when the tokens come.

The loop is open: requests arrive at times that are fixed before the run, and a slow server does not slow them down, as
users would not (Schroeder et al., Open Versus Closed, NSDI 2006). The client runs in one event loop and parses little,
so that one core can load a server of several.

    Client            HTTP/1.1, connections are used again
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
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpcore2
import orjson

from mini_vllm.cli.load_metrics import Record
from mini_vllm.errors import InvalidParameterError, RequestFailedError, shown
from mini_vllm.simulator.workload import HASH_BLOCK_SIZE, TraceRequest

MAX_EVENT_BYTES = 1 << 20
MAX_ANSWER_BYTES = 1 << 20  # of an answer that is no stream
PATHS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}
ABORTED = ("abort", "error")  # finish reasons of requests that the server has given up
PROBE_WORDS = (8, 40)
HTTP_ERRORS = (OSError, httpcore2.NetworkError, httpcore2.RemoteProtocolError)
# A failure before the first of these is one of an idle connection that the server has closed.
NO_RETRY_AFTER = {"connection.connect_tcp.started", "http11.receive_response_headers.complete"}

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


def parse_base_url(url: str) -> str:
    """The URL of a server, without /v1 at its end. Raises InvalidParameterError."""
    form = "base_url must be http://HOST[:PORT] or https://HOST[:PORT]"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidParameterError(f"{form}, got {shown(url)}: {error}") from error
    is_clean = port != 0 and url.isascii() and url.isprintable() and " " not in url and "@" not in parts.netloc
    if not is_clean or parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise InvalidParameterError(f"{form}, got {shown(url)}")
    return f"{parts.scheme}://{parts.netloc}" + parts.path.rstrip("/").removesuffix("/v1").rstrip("/")


class Client:
    """HTTP/1.1 to one server. It opens as many connections as requests are in flight, and uses them again."""

    def __init__(self, base_url: str, api_key: str | None = None) -> None:
        self.base_url = parse_base_url(base_url)
        self._pool = httpcore2.AsyncConnectionPool(ssl.create_default_context(), max_connections=None)
        self._headers = [("Host", urlsplit(self.base_url).netloc), ("User-Agent", "mini-vllm-bench")]
        self._headers.append(("Content-Type", "application/json"))
        if api_key is not None:
            self._headers.append(("Authorization", f"Bearer {api_key}"))

    async def ask(
        self, method: str, path: str, body: bytes = b"", on_data: Callable[[bytes], None] | None = None
    ) -> Answer:
        """The answer to a request. Raises HTTP_ERRORS, or what on_data raises.

        on_data: gets the body of a 200, piece by piece as it comes.
        """
        events: set[str] = set()

        async def trace(event: str, about: Mapping[str, Any]) -> None:
            events.add(event)

        request: dict[str, Any] = {"headers": self._headers, "content": body, "extensions": {"trace": trace}}
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
                            raise FailedAnswerError("the answer is too long", f"more than {MAX_ANSWER_BYTES:,} bytes")
                return Answer(response.status, bytes(pieces))
            except (httpcore2.NetworkError, httpcore2.RemoteProtocolError):
                if events & NO_RETRY_AFTER:
                    raise

    async def close(self) -> None:
        """Close the idle connections."""
        await self._pool.aclose()


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
    while inner := error.exceptions[0] if isinstance(error, ExceptionGroup) else error.__cause__ or error.__context__:
        error = inner
    return error


async def fetch(client: Client, api: Api, body: bytes, record: Record, clock: Clock, timeout: float | None) -> None:
    """Send one request; its record tells what came of it, an error included. timeout: in seconds."""
    stream = Stream(record, clock)
    try:
        async with asyncio.timeout(timeout):
            stream.finish(await client.ask("POST", api.path, body, stream.feed))
    except (*HTTP_ERRORS, FailedAnswerError) as error:
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
                    raise FailedAnswerError(f"{client.base_url}{api.path} refuses a first request", message)
                num_tokens.append(record.num_input_tokens)
    except (*HTTP_ERRORS, FailedAnswerError) as error:
        message = str(error) if isinstance(error, FailedAnswerError) else f"{client.base_url}: {failure(error)}"
        raise ServerUnreachableError(message) from error
    few, many = PROBE_WORDS
    per_word = (num_tokens[1] - num_tokens[0]) / (many - few)
    word_count = WordCount(num_tokens[0] - few * per_word, per_word) if per_word > 0 else WordCount()
    return Ready(api, max_model_len, word_count)


async def _find_model(client: Client, name: str | None) -> tuple[str, int | None]:
    """The model and its context, if the server tells it. A server that lists no models needs a name."""
    answer = await client.ask("GET", "/v1/models")
    where = f"{client.base_url}/v1/models"
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
