"""mini-vllm bench serve: requests to a server with OpenAI's API, and how fast it answers them."""

import asyncio
import json
import math
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from mini_vllm.cli.common import KEY_VARIABLES, console, option
from mini_vllm.cli.exits import legible
from mini_vllm.errors import InvalidParameterError, shown
from mini_vllm.load import metrics
from mini_vllm.load.plots import check_matplotlib, plot_run
from mini_vllm.load.workload import (
    MAX_LENGTH,
    TraceRequest,
    read_file,
    scale_lengths,
    scale_rate,
    synthetic,
)
from mini_vllm.observe.files import check_text, printable, write_file

if TYPE_CHECKING:
    from mini_vllm.load.client import Api, Client

ENDPOINTS = ("completions", "chat")
MAX_PROMPTS = 100_000
MAX_INPUT_TOKENS = 20_000_000  # of all prompts, which are made before the run
MAX_TIMEOUT = 1_000_000
NUM_PROMPTS = 1000  # by default


@dataclass(frozen=True, kw_only=True)
class Arrivals:
    """The options that say which requests are sent, and when."""

    num_prompts: int | None = option(
        None,
        f"By default {NUM_PROMPTS:,}; of a trace all, or only its first.",
        min=1,
        max=MAX_PROMPTS,
    )
    request_rate: float = option(math.inf, "Requests a second; inf: all at once.")
    burstiness: float = option(1.0, "1 is a Poisson process; below 1 requests come in bursts.")
    seed: int = option(0, "Of arrivals and words.")
    input_len: int = option(1024, "Prompt tokens of each.", min=1, max=MAX_LENGTH)
    output_len: int = option(128, "Most output tokens of each.", min=1, max=MAX_LENGTH)
    trace: Path | None = option(
        None, "Arrivals and lengths from a file, as of simulate.", exists=True, dir_okay=False
    )
    dataset_name: str = option("custom", "sharegpt, or custom: a prompt a line, or JSONL.")
    dataset_path: Path | None = option(None, "A file of prompts.", exists=True)
    rate_scale: float = option(1.0, "Of --trace: so many times as fast.")
    length_scale: float = option(1.0, "Of --trace: lengths so many times as long.")

    def requests(self) -> list[TraceRequest]:
        """All of them.

        Raises InvalidParameterError if they are too many, or their prompts too long together.
        """
        requests = list(
            self._from_dataset(self.dataset_path)
            if self.dataset_path
            else self._from_trace(self.trace)
            if self.trace
            else self._from_rate(self.num_prompts or NUM_PROMPTS)
        )
        if len(requests) > MAX_PROMPTS:
            raise InvalidParameterError(
                f"more than {MAX_PROMPTS:,} requests: say with num_prompts how many to send"
            )
        num_tokens = sum(request.input_length for request in requests)
        if num_tokens > MAX_INPUT_TOKENS:
            raise InvalidParameterError(
                f"{len(requests):,} requests have {num_tokens:,} prompt tokens, "
                f"at most {MAX_INPUT_TOKENS:,} are allowed"
            )
        return requests

    def _from_trace(self, path: Path) -> Iterator[TraceRequest]:
        """The requests of a file, or its first, faster and with other lengths."""
        if self.request_rate != math.inf:
            raise InvalidParameterError(
                f"give --trace or --request-rate, and not both, got {self.request_rate:g}"
            )
        requests = islice(read_file(path), self.num_prompts or MAX_PROMPTS + 1)
        return scale_lengths(scale_rate(requests, self.rate_scale), self.length_scale)

    def _from_dataset(self, path: Path) -> list[TraceRequest]:
        """The prompts of a file, or its first, at the arrivals of as many requests."""
        if self.trace or self.dataset_name not in ("custom", "sharegpt"):
            raise InvalidParameterError(
                "--dataset-path needs --dataset-name custom or sharegpt, and no --trace, got "
                f"{shown(self.dataset_name)}"
            )
        found = [*islice(read_file(path, self.dataset_name), self.num_prompts or MAX_PROMPTS + 1)]
        for i, due in enumerate(self._from_rate(len(found))):
            found[i] = found[i]._replace(
                arrival_time=due.arrival_time,
                output_length=found[i].output_length or self.output_len,
            )
        return found

    def _from_rate(self, num_prompts: int) -> Iterable[TraceRequest]:
        """Requests at random, or all at once if the rate is infinite."""
        lengths = self.input_len, self.output_len
        if self.request_rate == math.inf:
            return [TraceRequest(0.0, *lengths)] * num_prompts
        return synthetic(
            self.request_rate,
            num_prompts,
            lambda _: lengths,
            burstiness=self.burstiness,
            seed=self.seed,
        )

    def about(self) -> dict[str, Any]:
        """What the result says of them."""
        return {
            "request_rate": self.request_rate if math.isfinite(self.request_rate) else "inf",
            "burstiness": self.burstiness,
            "trace": printable(self.trace) if self.trace else None,
            "rate_scale": self.rate_scale if self.trace else None,
            "length_scale": self.length_scale if self.trace else None,
            "seed": self.seed,
        }


def bench_serve(
    *,
    base_url: str = option("http://127.0.0.1:8000", "The server, with or without /v1."),
    model: str | None = option(None, "By default the first that the server lists."),
    endpoint: str = option(ENDPOINTS[0], f"{' or '.join(ENDPOINTS)}."),
    arrivals: Arrivals,
    max_concurrency: int | None = option(None, "Most requests in flight.", min=1),
    ignore_eos: bool = option(False, "Go on to --output-len.", "--ignore-eos"),
    goodput: list[str] | None = option(None, 'Limits in ms: "ttft:200 tpot:50 e2el:2000".'),
    timeout: float = option(600.0, "Seconds after which a request has failed."),
    wait: float = option(0.0, "Most seconds to wait for a server that loads.", min=0),
    api_key: str | None = option(None, "The server's key.", envvar=KEY_VARIABLES),
    out: Path | None = option(None, "Write the result here, as JSON.", dir_okay=False),
    plot: Path | None = option(None, "Draw the run here, as PNG.", dir_okay=False),
) -> None:
    """Send requests to a server with OpenAI's API, and measure throughput and latency.

    The loop is open: arrivals are fixed before the run, and latencies count from when a request was
    due, also if the client was late or waited for --max-concurrency. Largest send lag says by how
    much the client was late. With --max-concurrency and no rate the loop is closed: a request is
    due when a slot is free. Prompts are random words; two first requests, which do not count, find
    out how many tokens those are. Names are those of `vllm bench serve`.
    """
    from mini_vllm.load.client import Client  # with what the extra 'serve' has
    from mini_vllm.load.generator import LoadTest, measure

    check_options(endpoint, timeout, model, api_key)
    limits = metrics.parse_goodput(goodput or [])
    client = Client(base_url, api_key)
    check_outputs(out, plot)
    requests = arrivals.requests()
    test = LoadTest(
        requests,
        endpoint,
        model,
        ignore_eos,
        timeout,
        arrivals.seed,
        arrivals.length_scale if arrivals.trace else 1.0,
        max_concurrency,
    )
    with progress(len(requests)) as advance:
        ready, records, duration = asyncio.run(
            when_there(client, wait, measure(client, test, advance))
        )
    result = {
        **about_run(ready.api, client.base_url, max_concurrency, limits),
        **arrivals.about(),
        "num_prompts": len(requests),
        **metrics.summarise(
            records, duration, goodput=limits, has_queue=max_concurrency is not None
        ),
    }
    report(result, records, ignore_eos, out, plot)
    if not result["completed"]:
        raise typer.Exit(1)


async def when_there(
    client: "Client", seconds: float, measured: Awaitable[Any], sleep: Any = asyncio.sleep
) -> Any:
    """Ask /health every half second, until the server is there and does not load; then measure."""
    from mini_vllm.load.client import HTTP_ERRORS

    for _ in range(math.ceil(2 * seconds)):
        with suppress(*HTTP_ERRORS):  # measure() tells what is wrong
            if (await client.ask("GET", "/health")).status != 503:
                break
        await sleep(0.5)
    return await measured


def about_run(
    api: "Api", base_url: str, max_concurrency: int | None, limits: Mapping[str, float]
) -> dict[str, Any]:
    """What the result says of the run, under vLLM's keys."""
    kind = "openai-chat" if api.endpoint == "chat" else "openai"
    return {
        "date": datetime.now().strftime("%Y%m%d-%H%M%S"),
        "endpoint_type": kind,
        "backend": kind,
        "label": None,
        "model_id": api.model,
        "tokenizer_id": None,
        "max_concurrency": max_concurrency,
        "base_url": base_url,
        "ignore_eos": api.ignore_eos,
        "goodput": {name: 1000 * limit for name, limit in limits.items()},
    }


def check_options(endpoint: str, timeout: float, model: str | None, api_key: str | None) -> None:
    """Refuse what cannot be. Raises InvalidParameterError, which does not show the key."""
    if endpoint not in ENDPOINTS:
        raise InvalidParameterError(
            f"endpoint must be one of {list(ENDPOINTS)}, got {shown(endpoint)}"
        )
    if not 0 < timeout <= MAX_TIMEOUT:
        raise InvalidParameterError(
            f"timeout must be above 0 and at most {MAX_TIMEOUT:,} s, got {timeout}"
        )
    if model is not None:
        check_text("model", model)
    if api_key is not None and not (
        api_key and api_key.isascii() and api_key.isprintable() and " " not in api_key
    ):
        raise InvalidParameterError("api_key must be printable ASCII without spaces")


def check_outputs(out: Path | None, plot: Path | None) -> None:
    """Refuse before the run what could not be written after it. Raises InvalidParameterError."""
    if plot:
        check_matplotlib()
    for path in (out, plot):
        if path and not os.access(path if path.exists() else path.parent, os.W_OK):
            reason = (
                "it cannot be written to" if path.parent.is_dir() else "there is no such folder"
            )
            raise InvalidParameterError(f"cannot write {printable(path)}: {reason}")


@contextmanager
def progress(total: int) -> Iterator[Callable[[], object]]:
    """A bar on stderr; nothing where stderr is no terminal.

    It gives what to call for each request that ends.
    """
    screen = console(stderr=True)
    columns = (TextColumn("requests"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(
        *columns,
        console=screen,
        transient=True,
        refresh_per_second=4,
        disable=not screen.is_terminal,
    ) as bar:
        task = bar.add_task("requests", total=total)
        yield lambda: bar.advance(task)


def report(
    result: dict[str, Any],
    records: list[metrics.Record],
    asked_ignore_eos: bool,
    out: Path | None,
    plot: Path | None,
) -> None:
    """Print the table, and on stderr what makes its figures doubtful. Write the files."""
    for line in metrics.table(result, records):
        typer.echo(legible(line))
    notes = []
    if result["max_send_lag_ms"] > 1000 * metrics.LATE:
        lag = f"{result['max_send_lag_ms']:.0f} ms"
        notes.append(
            f"The client came to a request {lag} after it was due; the latencies include that."
        )
    if asked_ignore_eos and not result["ignore_eos"]:
        notes.append("The server refuses ignore_eos, so it was not sent: outputs may be shorter.")
    for note in notes:
        console(stderr=True).print(note, style="dim", markup=False, soft_wrap=True)
    if out:
        write_file(out, json.dumps(result | metrics.detail(records)) + "\n")
    if plot:
        plot_run(plot, records, result)
