"""mini-vllm bench serve: requests to a server with OpenAI's API, and how fast it answers them."""

import asyncio
import json
import math
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from mini_vllm.cli import load_metrics
from mini_vllm.cli.common import console
from mini_vllm.cli.exits import legible
from mini_vllm.cli.load_metrics import Record
from mini_vllm.cli.simulate import read_file
from mini_vllm.errors import InvalidParameterError, shown
from mini_vllm.observe.files import check_text, printable, write_file
from mini_vllm.simulator.plots import _new_figure, _save, check_matplotlib
from mini_vllm.simulator.workload import MAX_LENGTH, TraceRequest, scale_rate, synthetic

if TYPE_CHECKING:
    from mini_vllm.cli.load import Client, Ready

ENDPOINTS = ("completions", "chat")
MAX_PROMPTS = 100_000
MAX_INPUT_TOKENS = 20_000_000  # of all prompts, which are made before the run
MAX_SCALE = 1000.0
MAX_TIMEOUT = 1_000_000
NUM_PROMPTS = 1000  # by default


def bench_serve(
    base_url: Annotated[str, typer.Option(help="The server, with or without /v1.")] = "http://127.0.0.1:8000",
    model: Annotated[str | None, typer.Option(help="By default the first that the server lists.")] = None,
    endpoint: Annotated[str, typer.Option(help=f"{' or '.join(ENDPOINTS)}.")] = ENDPOINTS[0],
    num_prompts: Annotated[
        int | None,
        typer.Option(min=1, max=MAX_PROMPTS, help=f"By default {NUM_PROMPTS:,}; of a trace all, or only its first."),
    ] = None,
    request_rate: Annotated[float, typer.Option(help="Requests a second; inf: all at once.")] = math.inf,
    burstiness: Annotated[float, typer.Option(help="1 is a Poisson process; below 1 requests come in bursts.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Of arrivals and words.")] = 0,
    input_len: Annotated[int, typer.Option(min=1, max=MAX_LENGTH, help="Prompt tokens of each.")] = 1024,
    output_len: Annotated[int, typer.Option(min=1, max=MAX_LENGTH, help="Most output tokens of each.")] = 128,
    trace: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Arrivals and lengths from a file, as of simulate.")
    ] = None,
    rate_scale: Annotated[float, typer.Option(help="Of --trace: so many times as fast.")] = 1.0,
    length_scale: Annotated[float, typer.Option(help="Of --trace: lengths so many times as long.")] = 1.0,
    max_concurrency: Annotated[int | None, typer.Option(min=1, help="Most requests in flight.")] = None,
    ignore_eos: Annotated[bool, typer.Option("--ignore-eos", help="Go on to --output-len.")] = False,
    goodput: Annotated[list[str] | None, typer.Option(help='Limits in ms: "ttft:200 tpot:50 e2el:2000".')] = None,
    timeout: Annotated[float, typer.Option(help="Seconds after which a request has failed.")] = 600.0,
    api_key: Annotated[str | None, typer.Option(help="The server's key.")] = None,
    out: Annotated[Path | None, typer.Option(dir_okay=False, help="Write the result here, as JSON.")] = None,
    plot: Annotated[Path | None, typer.Option(dir_okay=False, help="Draw the run here, as PNG.")] = None,
) -> None:
    """Send requests to a server with OpenAI's API, and measure throughput and latency.

    The loop is open: arrivals are fixed before the run, and latencies count from when a request was due, also if the
    client was late or waited for --max-concurrency. Largest send lag says by how much the client was late. With
    --max-concurrency and no rate the loop is closed: a request is due when a slot is free. Prompts are random words;
    two first requests, which do not count, find out how many tokens those are. Names are those of `vllm bench serve`.
    """
    from mini_vllm.cli import load  # with what the extra 'serve' has

    check_options(endpoint, timeout, model, api_key)
    limits = load_metrics.parse_goodput(goodput or [])
    client = load.Client(base_url, api_key)
    check_outputs(out, plot)
    if trace:
        if request_rate != math.inf:
            raise InvalidParameterError(f"give --trace or --request-rate, and not both, got {request_rate:g}")
        requests = from_trace(trace, num_prompts, rate_scale, length_scale)
    else:
        requests = from_rate(num_prompts or NUM_PROMPTS, request_rate, burstiness, seed, (input_len, output_len))
    probe = load.get_ready(client, endpoint, model, ignore_eos=ignore_eos, timeout=timeout)
    write = partial(load.bodies, requests, seed=seed, length_scale=length_scale if trace else 1.0)
    ready, records, duration = asyncio.run(measure(client, requests, probe, write, timeout, max_concurrency))
    about = {
        "date": datetime.now().strftime("%Y%m%d-%H%M%S"),
        "endpoint_type": "openai-chat" if endpoint == "chat" else "openai",
        "backend": "openai-chat" if endpoint == "chat" else "openai",
        "label": None,
        "model_id": ready.api.model,
        "tokenizer_id": None,
        "num_prompts": len(requests),
        "request_rate": request_rate if math.isfinite(request_rate) else "inf",
        "burstiness": burstiness,
        "max_concurrency": max_concurrency,
        "base_url": client.base_url,
        "trace": printable(trace) if trace else None,
        "rate_scale": rate_scale if trace else None,
        "length_scale": length_scale if trace else None,
        "seed": seed,
        "ignore_eos": ready.api.ignore_eos,
        "goodput": {name: 1000 * limit for name, limit in limits.items()},
    }
    figures = load_metrics.summarise(records, duration, goodput=limits, has_queue=max_concurrency is not None)
    report(about | figures, records, asked_ignore_eos=ignore_eos)
    if out:
        write_file(out, json.dumps(about | figures | load_metrics.detail(records)) + "\n")
    if plot:
        draw(plot, records, about | figures)
    if not figures["completed"]:
        raise typer.Exit(1)


def check_options(endpoint: str, timeout: float, model: str | None, api_key: str | None) -> None:
    """Refuse what cannot be. Raises InvalidParameterError, which does not show the key."""
    if endpoint not in ENDPOINTS:
        raise InvalidParameterError(f"endpoint must be one of {list(ENDPOINTS)}, got {shown(endpoint)}")
    if not 0 < timeout <= MAX_TIMEOUT:
        raise InvalidParameterError(f"timeout must be above 0 and at most {MAX_TIMEOUT:,} s, got {timeout}")
    if model is not None:
        check_text("model", model)
    if api_key is not None and not (api_key and api_key.isascii() and api_key.isprintable() and " " not in api_key):
        raise InvalidParameterError("api_key must be printable ASCII without spaces")


def check_outputs(out: Path | None, plot: Path | None) -> None:
    """Refuse before the run what could not be written after it. Raises InvalidParameterError."""
    if plot:
        check_matplotlib()
    for path in (out, plot):
        if path and not os.access(path if path.exists() else path.parent, os.W_OK):
            reason = "it cannot be written to" if path.parent.is_dir() else "there is no such folder"
            raise InvalidParameterError(f"cannot write {printable(path)}: {reason}")


def check_size(requests: list[TraceRequest]) -> list[TraceRequest]:
    """The same requests. Raises InvalidParameterError if they are too many, or their prompts too long together."""
    if len(requests) > MAX_PROMPTS:
        raise InvalidParameterError(f"more than {MAX_PROMPTS:,} requests: say with num_prompts how many to send")
    num_tokens = sum(request.input_length for request in requests)
    if num_tokens > MAX_INPUT_TOKENS:
        raise InvalidParameterError(
            f"{len(requests):,} requests have {num_tokens:,} prompt tokens, at most {MAX_INPUT_TOKENS:,} are allowed"
        )
    return requests


def from_trace(path: Path, num_prompts: int | None, rate_scale: float, length_scale: float) -> list[TraceRequest]:
    """The requests of a file, or its first, faster and with other lengths. Raises InvalidParameterError."""
    if not 1 / MAX_SCALE <= length_scale <= MAX_SCALE:
        raise InvalidParameterError(f"length_scale must be in [{1 / MAX_SCALE:g}, {MAX_SCALE:g}], got {length_scale}")

    def scaled(length: int) -> int:
        return max(round(length * length_scale), 1)

    return check_size(
        [
            request._replace(input_length=scaled(request.input_length), output_length=scaled(request.output_length))
            for request in scale_rate(islice(read_file(path), num_prompts or MAX_PROMPTS + 1), rate_scale)
        ]
    )


def from_rate(
    num_prompts: int, rate: float, burstiness: float, seed: int, lengths: tuple[int, int]
) -> list[TraceRequest]:
    """Requests at random, or all at once if the rate is infinite. Raises InvalidParameterError."""
    if rate == math.inf:
        return check_size([TraceRequest(0.0, *lengths)] * num_prompts)
    return check_size(list(synthetic(rate, num_prompts, lambda _: lengths, burstiness=burstiness, seed=seed)))


async def measure(
    client: "Client",
    requests: Sequence[TraceRequest],
    probe: Awaitable["Ready"],
    write: Callable[["Ready"], list[bytes]],
    timeout: float,
    max_concurrency: int | None,
) -> tuple["Ready", list[Record], float]:
    """Find out what the server is, make the prompts, and send them; the records and the seconds it took.

    probe: asks the server. write: makes the bodies of the requests for it.
    """
    from mini_vllm.cli import load

    try:
        ready = await probe
        made = write(ready)

        async def send(number: int, record: Record, clock: Callable[[], float]) -> None:
            await load.fetch(client, ready.api, made[number], record, clock, timeout)

        is_closed_loop = max_concurrency is not None and not any(request.arrival_time for request in requests)
        with progress(len(requests)) as advance:
            records, duration = await load.drive(
                requests, send, max_concurrency=max_concurrency, is_closed_loop=is_closed_loop, on_done=advance
            )
    finally:
        await client.close()
    return ready, records, duration


@contextmanager
def progress(total: int) -> Iterator[Callable[[], object]]:
    """A bar on stderr; nothing where stderr is no terminal. It gives what to call for each request that ends."""
    screen = console(stderr=True)
    columns = (TextColumn("requests"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=screen, transient=True, refresh_per_second=4)
    task = bar.add_task("requests", total=total)
    with bar if screen.is_terminal else nullcontext():
        yield lambda: bar.advance(task)


def report(result: Mapping[str, Any], records: Sequence[Record], *, asked_ignore_eos: bool) -> None:
    """Print the table, and on stderr what makes its figures doubtful."""
    for line in load_metrics.table(result, records):
        typer.echo(legible(line))
    notes = []
    if result["max_send_lag_ms"] > 1000 * load_metrics.LATE:
        lag = f"{result['max_send_lag_ms']:.0f} ms"
        notes.append(f"The client was late: it came to a request {lag} after it was due. The latencies include that.")
    if asked_ignore_eos and not result["ignore_eos"]:
        notes.append("The server refuses ignore_eos, so it was not sent: outputs may be shorter than asked for.")
    for note in notes:
        console(stderr=True).print(note, style="dim", markup=False, soft_wrap=True)


def draw(path: Path, records: Sequence[Record], result: Mapping[str, Any]) -> None:
    """Three pictures in one file: how latencies are distributed, TTFT over time, and what is in flight."""
    done = [record for record in records if record.error is None]
    title = f"{printable(result['model_id'])}, {len(done)} of {len(records)} requests, {result['duration']:.1f} s"
    figure, (distribution, over_time, load) = _new_figure(3, title)
    shares = [100 * (rank + 1) / len(done) for rank in range(len(done))]
    for name, values in (("TTFT", [r.ttft for r in done]), ("E2EL", [r.e2el for r in done])):
        distribution.plot([1000 * value for value in sorted(values)], shares, drawstyle="steps-post", label=name)
    distribution.set(title="requests within a latency", xlabel="latency, ms", ylabel="%", xscale="log", ylim=(0, 101))
    distribution.legend()
    over_time.plot([r.due for r in done], [1000 * r.ttft for r in done], ".", label="TTFT")
    failed = [record.due for record in records if record.error is not None]
    if failed:
        over_time.plot(failed, [0] * len(failed), "x", color="red", label="failed")
    over_time.set(title="TTFT over time", xlabel="due, s", ylabel="ms", ylim=(0, None))
    over_time.legend()
    counts = load_metrics.counts_over_time((record.due, record.token_times[-1]) for record in done)
    load.plot(*zip(*counts, strict=True), drawstyle="steps-post", linewidth=0.8)
    load.set(title="due and not done", xlabel="time, s", ylabel="requests", ylim=(0, None))
    _save(figure, path)
