"""What requests under load are judged by, and the figures of `vllm bench serve`, from the time
stamps of a client.

TTFT   time to first token, from when the request was due
TPOT   time per output token: (E2EL - TTFT) / (tokens - 1); a request of one token has none
ITL    inter-token latency: every gap between two chunks of a stream, of all requests together
E2EL   from when the request was due to its last token

A request is due at a time that was fixed before the run (open loop). vLLM counts from when its
client sends the request: for how long a client is late, or waits for a place, is then no part of
the TTFT (coordinated omission; Tene, How NOT to Measure Latency,
2015). Apart from that, names and definitions are those of calculate_metrics in
vllm/benchmarks/serve.py. Percentiles are interpolated, and of all values; failed requests count for
nothing but their number.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from statistics import fmean
from typing import Any

from mini_vllm.errors import InvalidParameterError, shown
from mini_vllm.observe.files import printable

LATENCIES = {
    "ttft": ("TTFT", "Time to First Token"),
    "tpot": ("TPOT", "Time per Output Token (excl. 1st token)"),
    "itl": ("ITL", "Inter-token Latency"),
    "e2el": ("E2EL", "End-to-end Latency"),
    "client_queue_time": ("Client Queue Time", "Client-side Queueing"),
}
TABLE = (  # title, key, and how it is written; a figure that is no number has no line
    ("Successful requests", "completed", "d"),
    ("Failed requests", "failed", "d"),
    ("Maximum request concurrency", "max_concurrency", "d"),
    ("Request rate configured (RPS)", "request_rate", ".2f"),
    ("Benchmark duration (s)", "duration", ".2f"),
    ("Total input tokens", "total_input_tokens", "d"),
    ("Total generated tokens", "total_output_tokens", "d"),
    ("Request throughput (req/s)", "request_throughput", ".2f"),
    ("Request goodput (req/s)", "request_goodput", ".2f"),
    ("Output token throughput (tok/s)", "output_throughput", ".2f"),
    ("Peak output token throughput (tok/s)", "max_output_tokens_per_s", ".2f"),
    ("Peak concurrent requests", "max_concurrent_requests", ".2f"),
    ("Total token throughput (tok/s)", "total_token_throughput", ".2f"),
)
PERCENTILES = {"p90": 90, "p99": 99}
GOODPUT_NAMES = ("ttft", "tpot", "e2el")
MAX_LIMIT_MS = 1e9
LATE = 0.010  # seconds; a sleep of an event loop is exact to about 1 ms
WIDTH = 50


@dataclass(slots=True)
class Record:
    """What a client saw of one request. Times in seconds since the run began."""

    arrival: float
    """When it was to be sent, as fixed before the run."""
    num_input_tokens: int
    """By the server's count, or as many as were asked for."""
    due: float = 0.0
    """From when its latencies count: its arrival, or, in a closed loop, when a slot was free."""
    woken: float = 0.0
    """When the client came to it; then it may wait for --max-concurrency."""
    sent: float = 0.0
    """When the client began to send it."""
    token_times: list[float] = field(default_factory=list)
    """When each chunk with a token came."""
    num_counted: int | None = None
    """Output tokens by the server's count."""
    error: str | None = None
    """The kind of error by which it failed."""
    message: str = ""

    @property
    def num_output_tokens(self) -> int:
        """The output tokens: if the server tells no usage, the chunks."""
        return len(self.token_times) if self.num_counted is None else self.num_counted

    @property
    def ttft(self) -> float:
        """Time to first token."""
        return self.token_times[0] - self.due

    @property
    def e2el(self) -> float:
        """End-to-end latency."""
        return self.token_times[-1] - self.due

    @property
    def itls(self) -> list[float]:
        """The gaps between tokens."""
        return [after - before for before, after in pairwise(self.token_times)]

    @property
    def tpot(self) -> float | None:
        """Time per output token."""
        return time_per_output_token(self.ttft, self.e2el, self.num_output_tokens)


def parse_goodput(texts: Sequence[str]) -> dict[str, float]:
    """Limits in seconds of "ttft:200 tpot:50 e2el:2000", in milliseconds.

    Raises InvalidParameterError.
    """
    limits: dict[str, float] = {}
    for text in " ".join(texts).split():
        name, _, value = text.partition(":")
        if name not in GOODPUT_NAMES or name in limits:
            names = f"each of {list(GOODPUT_NAMES)} at most once"
            raise InvalidParameterError(f"goodput must name {names}, got {shown(text)}")
        try:
            limit = float(value)
        except ValueError:
            limit = math.nan
        if not 0 < limit <= MAX_LIMIT_MS:
            allowed = f"milliseconds above 0 and at most {MAX_LIMIT_MS:g}"
            raise InvalidParameterError(f"goodput: {name} must be {allowed}, got {shown(value)}")
        limits[name] = limit / 1000
    return limits


def time_per_output_token(first: float, last: float, num_tokens: int) -> float | None:
    """TPOT, from the moments of the first and of the last token; None of one token."""
    return (last - first) / (num_tokens - 1) if num_tokens > 1 else None


def keeps(request: object, limits: Mapping[str, float]) -> bool:
    """Whether latencies of a request are within their limits, in seconds, by their names.

    None keeps any limit.
    """
    return all((getattr(request, name) or 0.0) <= limit for name, limit in limits.items())


def summary(name: str, values: Sequence[float]) -> dict[str, Any]:
    """Mean, median, standard deviation and percentiles in milliseconds, under vLLM's keys; None of
    nothing.

    values: in seconds. A percentile between two values is interpolated.
    """
    keys = [f"{key}_{name}_ms" for key in ("mean", "median", "std", *PERCENTILES)]
    if not values:
        return dict.fromkeys(keys)
    mean, ordered = fmean(values), sorted(values)
    deviation = math.dist(values, [mean] * len(values)) / math.sqrt(len(values))
    figures = (
        mean,
        percentile(ordered, 50),
        deviation,
        *(percentile(ordered, q) for q in PERCENTILES.values()),
    )
    return {key: 1000 * figure for key, figure in zip(keys, figures, strict=True)}


def percentile(ordered: Sequence[float], q: float) -> float:
    """The value below which q percent of these values are, as numpy.percentile interpolates it."""
    place = (len(ordered) - 1) * q / 100
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    return low + (high - low) * (place % 1)


def summarise(
    records: Sequence[Record],
    duration: float,
    *,
    goodput: Mapping[str, float],
    has_queue: bool = False,
) -> dict[str, Any]:
    """The figures of a run. duration: in seconds; has_queue: requests may have waited for
    --max-concurrency.
    """
    done = [record for record in records if record.error is None]
    values = latencies(done)
    if has_queue:
        values["client_queue_time"] = [record.sent - record.woken for record in done]
    num_in, num_out = sum(r.num_input_tokens for r in done), sum(r.num_output_tokens for r in done)
    num_good = len([record for record in done if keeps(record, goodput)])
    max_tokens, max_requests = peaks(done)
    result = {
        "duration": duration,
        "completed": len(done),
        "failed": len(records) - len(done),
        "total_input_tokens": num_in,
        "total_output_tokens": num_out,
        "request_throughput": len(done) / duration,
        "request_goodput": num_good / duration if goodput else None,
        "output_throughput": num_out / duration,
        "total_token_throughput": (num_in + num_out) / duration,
        "max_output_tokens_per_s": max_tokens,
        "max_concurrent_requests": max_requests,
        "offered_request_rate": rate(len(records), max(record.arrival for record in records)),
        "achieved_request_rate": rate(len(records), max(record.sent for record in records)),
        "max_send_lag_ms": 1000 * max(max(record.woken - record.due, 0.0) for record in records),
        "errors_by_kind": dict(
            Counter(record.error for record in records if record.error).most_common()
        ),
    }
    for name in values:
        result |= summary(name, values[name])
    return result


def latencies(done: Sequence[Record]) -> dict[str, list[float]]:
    """All values of each latency, in seconds."""
    return {
        "ttft": [record.ttft for record in done],
        "tpot": [record.tpot for record in done if record.tpot is not None],
        "itl": [gap for record in done for gap in record.itls],
        "e2el": [record.e2el for record in done],
    }


def rate(num_requests: int, seconds: float) -> float | None:
    """Requests a second, from the beginning to the last; None: all at once."""
    return num_requests / seconds if seconds > 0 else None


def peaks(done: Sequence[Record]) -> tuple[int, int]:
    """The most chunks in a second, counted from the first request on, and the most requests at the
    same time.
    """
    begin = min((record.sent for record in done), default=0.0)
    seconds = Counter(int(time - begin) for record in done for time in record.token_times)
    in_flight = [
        count
        for _, count in counts_over_time([(record.sent, record.token_times[-1]) for record in done])
    ]
    return max(seconds.values(), default=0), max(in_flight, default=0)


def counts_over_time(stays: Iterable[tuple[float, float]]) -> list[tuple[float, int]]:
    """How many are there from each moment on at which one comes or goes. stays: (first moment, last
    moment).
    """
    changes = sorted(change for begin, end in stays for change in ((begin, 1), (end, -1)))
    return list(
        zip((time for time, _ in changes), accumulate(change for _, change in changes), strict=True)
    )


def detail(records: Sequence[Record]) -> dict[str, list[Any]]:
    """Every request, under vLLM's keys; None where a failed one has no figure."""

    def of_done(figure: Callable[[Record], Any]) -> list[Any]:
        return [None if record.error else figure(record) for record in records]

    return {
        "input_lens": [record.num_input_tokens for record in records],
        "output_lens": [0 if record.error else record.num_output_tokens for record in records],
        "ttfts": of_done(lambda record: record.ttft),
        "itls": of_done(lambda record: record.itls),
        "latencies": of_done(lambda record: record.e2el),
        "start_times": [record.sent for record in records],
        "queue_times": [record.sent - record.woken for record in records],
        "errors": [
            f"{record.error}: {record.message}" if record.error else "" for record in records
        ],
    }


def table(result: Mapping[str, Any], records: Sequence[Record]) -> Iterator[str]:
    """The lines of the report, as `vllm bench serve` prints them, with what the client did behind
    them.
    """
    yield f"{' Serving Benchmark Result ':=^{WIDTH}}"
    for title, key, form in TABLE:
        if isinstance(result[key], int | float):
            yield line(title, result[key], form)
    for name, (short, title) in LATENCIES.items():
        if f"mean_{name}_ms" in result:
            yield f"{title:-^{WIDTH}}"
            for key in ("mean", "median", *PERCENTILES):
                yield line(f"{key.capitalize()} {short} (ms)", result[f"{key}_{name}_ms"])
    yield f"{'Client':-^{WIDTH}}"
    for name in ("offered", "achieved"):
        found = result[f"{name}_request_rate"]
        yield line(
            f"{name.capitalize()} request rate (req/s)", math.inf if found is None else found
        )
    yield line("Largest send lag (ms)", result["max_send_lag_ms"])
    yield from _failures(result["errors_by_kind"], records)
    yield "=" * WIDTH


def line(title: str, value: float | None, form: str = ".2f") -> str:
    """A figure behind its title."""
    return f"{title + ':':<40} {'n/a' if value is None else format(value, form):<10}".rstrip()


def _failures(kinds: Mapping[str, int], records: Sequence[Record]) -> Iterator[str]:
    """How many requests failed in which way, with the message of the first of each."""
    if kinds:
        yield f"{'Failed requests by kind':-^{WIDTH}}"
    for kind, count in kinds.items():
        first = next(record.message for record in records if record.error == kind)
        yield f"{printable(kind) + ':':<40} {count}"
        if first:
            yield f"    {printable(first)[:200]}"
