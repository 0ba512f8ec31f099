"""Arrival traces as iterators of TraceRequest: the public formats, and arrivals drawn at random;
and prompts from files, which all arrive at once.

Azure 2023 (Patel et al., Splitwise, ISCA 2024): CSV with TIMESTAMP, ContextTokens, GeneratedTokens.
The texts are not known, so no two requests share a prefix. Mooncake (Qin et al., FAST 2025): one
JSON object a line with timestamp (ms), input_length, output_length and hash_ids, one for every 512
tokens of the prompt. A hash id covers its block and all before it: equal ids are equal prefixes.
What a request generates has no id, so here no request finds it.

Prompts: a text on each line, or JSONL with prompt and output_tokens (CustomDataset in
vllm/benchmarks/datasets/datasets.py), or ShareGPT, a JSON list of conversations, whose first turn
is a prompt and whose second says how long an answer is (ShareGPTDataset, is_valid_sequence, in the
same file). Their lengths are words, because a client has no tokenizer.
"""

import csv
import json
import math
import random
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from mini_vllm.errors import InvalidParameterError, is_int, is_number, shown
from mini_vllm.observe.files import MAX_LINE, printable, read_lines, read_prompts

HASH_BLOCK_SIZE = 512  # tokens that a hash id of the Mooncake format stands for
AZURE_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")

MAX_LENGTH = 10_000_000  # tokens of a prompt or an output, above every context there is
MAX_RATE = 1e6  # requests a second; of this and the next one 1 / MAX is the least
MAX_BURSTINESS = 1e3
MAX_CV = 1e3
MAX_SCALE = 1e3

Lengths = Callable[[random.Random], tuple[int, int]]


class TraceRequest(NamedTuple):
    """One arrival.

    A request always generates a token, so an output_length of 0 in a file counts as 1.
    """

    arrival_time: float  # seconds since the beginning: of a file, its first arrival
    input_length: int  # tokens
    output_length: int  # tokens
    # what prompts have in common, HASH_BLOCK_SIZE tokens each; () is nothing
    hash_ids: tuple[int, ...] = ()
    prompt: str | None = None  # None: words are drawn. Its output_length may be 0: it is not said


def read_azure(lines: Iterable[str]) -> Iterator[TraceRequest]:
    """Requests of an Azure CSV.

    Raises InvalidParameterError that names the line for anything else.
    """
    rows = _rows(lines)
    header = tuple(next(rows, (1, ()))[1])
    if header != AZURE_COLUMNS:
        found = shown(",".join(header))
        raise InvalidParameterError(
            f"line 1: the columns must be {','.join(AZURE_COLUMNS)}, got {found}"
        )

    def parse(row: list[str]) -> tuple[float, int, int, tuple[int, ...]]:
        stamp, input_length, output_length = row
        return datetime.fromisoformat(stamp).timestamp(), int(input_length), int(output_length), ()

    return _in_order(rows, parse)


def _rows(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    rows = csv.reader(lines)
    try:
        for row in rows:
            yield rows.line_num, row
    except csv.Error as error:
        raise InvalidParameterError(f"line {rows.line_num}: {error}") from error


def read_mooncake(lines: Iterable[str]) -> Iterator[TraceRequest]:
    """Requests of a Mooncake JSONL.

    Raises InvalidParameterError that names the line for anything else.
    """

    def parse(line: str) -> tuple[float, int, int, tuple[int, ...]]:
        record = json.loads(line)
        hash_ids = tuple(map(_integer, record["hash_ids"]))
        input_length = _integer(record["input_length"])
        if (
            not input_length // HASH_BLOCK_SIZE
            <= len(hash_ids)
            <= -(-input_length // HASH_BLOCK_SIZE)
        ):
            raise ValueError(f"{len(hash_ids)} hash_ids for {input_length} tokens")
        return (
            float(record["timestamp"]) / 1000,
            input_length,
            _integer(record["output_length"]),
            hash_ids,
        )

    return _in_order(enumerate(map(str.strip, lines), 1), parse)


def read_trace(lines: Iterable[str]) -> Iterator[TraceRequest]:
    """Requests of either format: a Mooncake trace begins with a brace."""
    lines = iter(lines)
    first = next(lines, "")
    return (read_mooncake if first.startswith("{") else read_azure)(chain((first,), lines))


def read_custom(lines: Iterable[str]) -> Iterator[TraceRequest]:
    """Prompts, one a line, as read_prompts() finds them."""
    return (TraceRequest(0.0, len(text.split()), n, (), text) for text, n in read_prompts(lines))


def read_sharegpt(lines: Iterable[str]) -> Iterator[TraceRequest]:
    """The conversations that have an answer, and are neither short nor long.

    Raises InvalidParameterError that names the conversation, and ValueError for what is no JSON.
    """

    def parse(record: Any) -> Any:
        texts = [turn["value"] for turn in record["conversations"][:2]]
        lengths = [*map(_words, texts)]
        if len(texts) < 2 or min(lengths) < 4 or lengths[0] > 1024 or sum(lengths) > 2048:
            return None
        return 0.0, *lengths, (), texts[0]

    return _in_order(enumerate(json.loads("".join(lines)), 1), parse, "conversation")


def _words(text: Any) -> int:
    if not isinstance(text, str):
        raise ValueError(f"{shown(text)} is no text")
    return len(text.split())


FORMATS: dict[str, Callable[[Iterable[str]], Iterator[TraceRequest]]] = {
    "auto": read_trace,
    "azure": read_azure,
    "mooncake": read_mooncake,
}
DATASETS = FORMATS | {"custom": read_custom, "sharegpt": read_sharegpt}


def read_file(path: Path, format: str = "auto") -> Iterator[TraceRequest]:
    """The requests of a trace file, read as they are asked for.

    Raises InvalidParameterError that names the line.
    """
    is_empty = True
    try:
        for request in DATASETS[format](
            read_lines(path, MAX_LINE if format in FORMATS else 1_000_000_000)
        ):
            yield request
            is_empty = False
        if is_empty:
            raise InvalidParameterError("there is no request in it")
    except ValueError as error:
        raise InvalidParameterError(f"{printable(path)}, {error}") from error


def _integer(value: Any) -> int:
    if not is_int(value, -math.inf):
        raise ValueError(f"{shown(value)} is not an integer")
    return int(value)


def _in_order(
    numbered: Iterable[tuple[int, Any]], parse: Callable[[Any], Any], what: str = "line"
) -> Iterator[TraceRequest]:
    """Parse line by line, and check what both formats promise."""
    first = last = None
    for number, line in numbered:
        try:
            if not line or not (found := parse(line)):
                continue
            time, input_length, output_length, *rest = found
            if not (1 <= input_length <= MAX_LENGTH and 0 <= output_length <= MAX_LENGTH):
                got = f"got {shown(input_length)} and {shown(output_length)}"
                raise ValueError(
                    f"lengths must be at most {MAX_LENGTH:,} tokens and at least 1 and 0, {got}"
                )
            if not math.isfinite(time) or (last is not None and time < last):
                raise ValueError("the arrivals must be in order of time")
        except (ValueError, KeyError, TypeError, ArithmeticError, OSError, RecursionError) as error:
            raise InvalidParameterError(
                f"{what} {number}: {type(error).__name__} {error!s:.200}"
            ) from error
        first = time if first is None else first
        last = time
        yield TraceRequest(time - first, input_length, max(output_length, 1), *rest)


def synthetic(
    rate: float, num_requests: int, lengths: Lengths, *, burstiness: float = 1.0, seed: int = 0
) -> Iterator[TraceRequest]:
    """num_requests arrivals, `rate` a second on average, with gamma-distributed gaps of shape
    `burstiness`.

    1 is a Poisson process, below 1 the arrivals come in bursts (a gap's coefficient of variation is
    1 / sqrt(burstiness)). The gaps are then stretched by one factor, so that the last request
    arrives at num_requests / rate exactly: seeds differ in the order of events and not in the load.
    The same seed has the same lengths at any rate. Source: get_request in vllm/benchmarks/serve.py,
    which also stretches them. Raises InvalidParameterError.
    """
    if not (
        is_number(rate, 1 / MAX_RATE, MAX_RATE)
        and is_number(burstiness, 1 / MAX_BURSTINESS, MAX_BURSTINESS)
    ):
        raise InvalidParameterError(
            f"rate and burstiness must be above 0, in [{1 / MAX_RATE:g}, {MAX_RATE:g}] and "
            f"[{1 / MAX_BURSTINESS:g}, {MAX_BURSTINESS:g}], got {rate} and {burstiness}"
        )
    if num_requests < 1:
        raise InvalidParameterError(f"num_requests must be at least 1, got {num_requests}")
    return _draw(rate, num_requests, lengths, burstiness, seed)


def _draw(
    rate: float, num_requests: int, lengths: Lengths, burstiness: float, seed: int
) -> Iterator[TraceRequest]:
    def gaps() -> Iterator[float]:  # drawn twice, so that they need no memory
        rng = random.Random(f"gaps {seed}")
        return (rng.gammavariate(burstiness, 1.0) for _ in range(num_requests))

    seconds = num_requests / rate
    total, passed, of_lengths = math.fsum(gaps()), 0.0, random.Random(seed)
    for gap in gaps():
        passed += gap
        yield TraceRequest(seconds * min(passed / total, 1.0), *lengths(of_lengths))


def lognormal_lengths(input_mean: float, output_mean: float, cv: float = 0.0) -> Lengths:
    """Lengths with these means and this coefficient of variation (0: all alike), each at
    least 1.
    """
    if not (1 <= input_mean <= MAX_LENGTH and 1 <= output_mean <= MAX_LENGTH and 0 <= cv <= MAX_CV):
        raise InvalidParameterError(
            f"means must be at least 1 and cv at least 0, and at most {MAX_LENGTH:,} tokens and "
            f"{MAX_CV:g}, "
            f"got {input_mean}, {output_mean}, {cv}"
        )
    sigma = math.sqrt(math.log1p(cv * cv))

    def draw(rng: random.Random) -> tuple[int, int]:
        input_length, output_length = (
            min(
                max(round(rng.lognormvariate(math.log(mean) - sigma * sigma / 2, sigma)), 1),
                MAX_LENGTH,
            )
            for mean in (input_mean, output_mean)
        )
        return input_length, output_length

    return draw


def scale_rate(trace: Iterable[TraceRequest], factor: float) -> Iterator[TraceRequest]:
    """The same requests, `factor` times as fast.

    Raises InvalidParameterError for a factor that is not above 0.
    """
    if not 1 / MAX_RATE <= factor <= MAX_RATE:
        limits = f"in [{1 / MAX_RATE:g}, {MAX_RATE:g}]"
        raise InvalidParameterError(f"the rate scale must be above 0, {limits}, got {factor}")
    return (request._replace(arrival_time=request.arrival_time / factor) for request in trace)


def scale_lengths(trace: Iterable[TraceRequest], factor: float) -> Iterator[TraceRequest]:
    """The same requests, `factor` times as long, and at least 1. Raises InvalidParameterError."""
    if not 1 / MAX_SCALE <= factor <= MAX_SCALE:
        raise InvalidParameterError(
            f"length_scale must be in [{1 / MAX_SCALE:g}, {MAX_SCALE:g}], got {factor}"
        )

    def scaled(length: int) -> int:
        return max(round(length * factor), 1)

    return (
        request._replace(
            input_length=scaled(request.input_length), output_length=scaled(request.output_length)
        )
        for request in trace
    )
