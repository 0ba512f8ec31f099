"""A load generator: it sends requests to a server when they are due, and notes when the tokens
come.

The loop is open: requests arrive at times that are fixed before the run, and a slow server does not
slow them down, as users would not (Schroeder et al., Open Versus Closed, NSDI 2006).

    get_ready    the model, its context, and how many tokens words are on this server
    bodies       the prompts, all made before the run
    drive        the open loop
    measure      one after the other

Source: vllm/benchmarks/serve.py.
"""

import asyncio
import json
import math
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mini_vllm.errors import InvalidParameterError, RequestFailedError
from mini_vllm.load.client import HTTP_ERRORS, Api, Client, Clock, FailedAnswerError, failure, fetch
from mini_vllm.load.metrics import Record
from mini_vllm.load.workload import HASH_BLOCK_SIZE, TraceRequest

PROBE_WORDS = (8, 40)
# Each is one token, with the space before it, in most vocabularies, and in that of the bundled
# model.
WORDS = (
    "the and token block mean that are pre request with one for know about model has meant run can "
    "memory queue all "
    "cache log each same number first them head into attention share size ever per prompt keys not "
    "layer hash from "
    "full time running wait hit free count long parallel keep weights value over need holds "
    "because slot waiting may "
    "most table query decode stream small other last have end text stop key two then often before "
    "begin back writes "
    "new never sequence runs compute largest hidden top check any once needs many single together "
    "string was fast "
    "some whose part times list limit order until later entry second different seed budget must "
    "what would read how "
    "still says without"
).split()


class ServerUnreachableError(RequestFailedError):
    """The server cannot be reached, or refuses the first requests, so that nothing was measured."""


class WordCount(NamedTuple):
    """How many tokens words are: so many stand before those of every prompt, and so many is a
    word.
    """

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


async def get_ready(
    client: Client, endpoint: str, model: str | None, *, ignore_eos: bool, timeout: float
) -> Ready:
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
                    raise FailedAnswerError(
                        f"{client.base_url}{api.path} refuses a first request", message
                    )
                num_tokens.append(record.num_input_tokens)
    except (*HTTP_ERRORS, FailedAnswerError) as error:
        message = (
            str(error)
            if isinstance(error, FailedAnswerError)
            else f"{client.base_url}: {failure(error)}"
        )
        raise ServerUnreachableError(message) from error
    few, many = PROBE_WORDS
    per_word = (num_tokens[1] - num_tokens[0]) / (many - few)
    word_count = (
        WordCount(num_tokens[0] - few * per_word, per_word) if per_word > 0 else WordCount()
    )
    return Ready(api, max_model_len, word_count)


async def _find_model(client: Client, name: str | None) -> tuple[str, int | None]:
    """The model and its context, if the server tells it.

    A server that lists no models needs a name.
    """
    answer = await client.ask("GET", "/v1/models")
    where = f"{client.base_url}/v1/models"
    if answer.status in (401, 403):
        raise FailedAnswerError(where, f"status {answer.status} {answer.message}")
    try:
        models = {str(each["id"]): each for each in json.loads(answer.body)["data"]}
        found = next(iter(models)) if name is None else name
    except (ValueError, KeyError, TypeError, StopIteration) as error:
        if name is None:
            raise FailedAnswerError(
                f"{where} lists no model, give its name", f"status {answer.status}"
            ) from error
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


def bodies(
    requests: Sequence[TraceRequest], ready: Ready, *, seed: int, length_scale: float = 1.0
) -> list[bytes]:
    """The bodies of all requests, made before the run.

    Equal hash ids are equal words. Raises InvalidParameterError.
    """
    limit = ready.max_model_len
    words_per_block = max(round(HASH_BLOCK_SIZE * length_scale / ready.word_count.per_word), 1)
    made = []
    for number, request in enumerate(requests):
        if request.prompt is not None:  # whose tokens the server counts
            made.append(ready.api.body(request.prompt, request.output_length))
            continue
        if limit is not None and request.input_length + request.output_length > limit:
            lengths = (
                f"{request.input_length} prompt tokens and {request.output_length} output tokens"
            )
            raise InvalidParameterError(
                f"request {number + 1}: {lengths} are more than the model's context of {limit}"
            )
        num_words = ready.word_count.words(request.input_length)
        words: list[str] = []
        for hash_id in request.hash_ids[: math.ceil(num_words / words_per_block)]:
            words += random.Random(f"block {seed} {hash_id}").choices(WORDS, k=words_per_block)
        words += random.Random(f"request {seed} {number}").choices(
            WORDS, k=max(num_words - len(words), 0)
        )
        made.append(ready.api.body(text_of(words[:num_words]), request.output_length))
    return made


# --- the run --------------------------------------------------------------------------------------


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

    send: gets the number of a request, its record, and a clock that began with the run.
    max_concurrency: most requests in flight; one that has to wait for a slot is late, except in a
    closed loop, where it arrives with the slot.
    """
    clock = clock or asyncio.get_running_loop().time
    start = clock()
    slots = asyncio.Semaphore(max_concurrency or len(requests))
    records = [
        Record(request.arrival_time, request.input_length, request.arrival_time)
        for request in requests
    ]

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


@dataclass(frozen=True, slots=True)
class LoadTest:
    """What is sent to a server. timeout: in seconds; model: by default the first that the server
    lists.
    """

    requests: Sequence[TraceRequest]
    endpoint: str
    model: str | None = None
    ignore_eos: bool = False
    timeout: float = 600.0
    seed: int = 0
    length_scale: float = 1.0
    max_concurrency: int | None = None


async def measure(
    client: Client, test: LoadTest, on_done: Callable[[], object]
) -> tuple[Ready, list[Record], float]:
    """Find out what the server is, make the prompts, and send them; the records and the seconds it
    took.

    It closes the client. With max_concurrency, and all requests at once, the loop is closed.
    """
    try:
        ready = await get_ready(
            client, test.endpoint, test.model, ignore_eos=test.ignore_eos, timeout=test.timeout
        )
        made = bodies(test.requests, ready, seed=test.seed, length_scale=test.length_scale)

        async def send(number: int, record: Record, clock: Clock) -> None:
            await fetch(client, ready.api, made[number], record, clock, test.timeout)

        all_at_once = not any(request.arrival_time for request in test.requests)
        records, duration = await drive(
            test.requests,
            send,
            max_concurrency=test.max_concurrency,
            is_closed_loop=test.max_concurrency is not None and all_at_once,
            on_done=on_done,
        )
    finally:
        await client.close()
    return ready, records, duration
