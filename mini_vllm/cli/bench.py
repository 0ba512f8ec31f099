"""mini-vllm bench: synthetic offline runs, all requests at once, timed around engine.step()."""

import json
import random
import time
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any

import typer

from mini_vllm.cli.common import PROMPTS, busy, load_llm, option, prompts_of
from mini_vllm.config import EngineConfig
from mini_vllm.errors import InvalidParameterError
from mini_vllm.load.metrics import Record, latencies, summary
from mini_vllm.observe.stats import CachingMetrics, SchedulerStats, summarise_steps
from mini_vllm.params import SamplingParams

if TYPE_CHECKING:
    from mini_vllm.engine.llm_engine import LLMEngine

# of all prompts, which are there from the first step
MAX_REQUESTS, MAX_TOKENS = 100_000, 50_000_000


def bench(
    config: EngineConfig,
    num_requests: int = option(32, "Requests, all added at once.", min=1, max=MAX_REQUESTS),
    input_len: int = option(128, "Prompt tokens of each.", min=1, max=MAX_TOKENS),
    output_len: int = option(64, "Output tokens of each.", min=1),
    file: typer.FileText | None = PROMPTS,
    prefix_len: int = option(0, "How many of the prompt tokens all have in common.", min=0),
    iterations: int = option(3, "How often all of it is run, after a warm-up.", min=1, max=1000),
    as_json: bool = option(False, "Print one JSON object.", "--json"),
) -> None:
    """Measure throughput and latency on random prompts, or on those of a file.

    End-of-text tokens are ignored. TTFT is the time from adding a request to its first token,
    queueing included; ITL is the time between two tokens of a request, TPOT their mean in a
    request, E2E the time to its last token. Every figure is the median of the iterations; behind it
    stand the least and the largest. An iteration begins with an empty prefix cache. Names are those
    of `vllm bench throughput` and `vllm bench serve`.
    """
    if num_requests * input_len > MAX_TOKENS:
        raise InvalidParameterError(
            f"{num_requests:,} requests of {input_len:,} prompt tokens exceed {MAX_TOKENS:,} tokens"
        )
    engine = load_llm(config).engine
    draw, vocabulary = random.Random(config.seed).choices, range(engine.vocab_size)
    prefix = draw(vocabulary, k=min(prefix_len, input_len))
    prompts = (
        [*map(engine.tokenize, prompts_of(file))]
        if file
        else [prefix + draw(vocabulary, k=input_len - len(prefix)) for _ in range(num_requests)]
    )
    params = SamplingParams(max_tokens=output_len, temperature=0.0, ignore_eos=True)
    with busy(f"running {len(prompts)} requests, {iterations} times"):
        # warm-up, in batches of the same size
        run(engine, prompts, replace(params, max_tokens=min(output_len, 2)))
        runs = [run(engine, prompts, params) for _ in range(iterations)]
    about = {"model": config.model, "iterations": iterations}
    show(about | {"num_kv_blocks": engine.kv_cache_plan.num_blocks}, runs, as_json)


def show(about: dict[str, Any], runs: list[dict[str, float]], as_json: bool) -> None:
    """Print each figure's median over the runs, and its least and largest value."""
    columns = {name: sorted(each[name] for each in runs) for name in runs[0]}
    result = {name: median(column) for name, column in columns.items()}
    spread = {name: [column[0], column[-1]] for name, column in columns.items()}
    if as_json:
        typer.echo(json.dumps({**about, **result, "spread": spread}, indent=2))
        return
    for name, value in about.items():
        typer.echo(f"{name:<26} {value}")
    for name, (least, largest) in spread.items():
        between = f"   {written(least)} to{written(largest)}" if least != largest else ""
        typer.echo(f"{name:<26} {written(result[name])}{between}")


def written(value: float) -> str:
    """A figure as it stands in its column."""
    return f"{int(value):>11,}" if value == int(value) else f"{value:>11,.2f}"


def run(engine: "LLMEngine", prompts: list[list[int]], params: SamplingParams) -> dict[str, float]:
    """Add all prompts and step until all are done, from an empty prefix cache; the figures of the
    run.
    """
    engine.scheduler.kv_cache_manager.reset_prefix_cache()
    records = {f"bench-{index}": Record(0.0, len(prompt)) for index, prompt in enumerate(prompts)}
    steps: list[SchedulerStats] = []
    caching_metrics = CachingMetrics(engine.scheduler.prefix_cache_stats)
    start = time.perf_counter()
    for request_id, prompt in zip(records, prompts, strict=True):
        engine.add_request(request_id, prompt, params)
    while engine.has_unfinished_requests():
        outputs = engine.step()
        if engine.stats:
            steps.append(engine.stats)
        caching_metrics.observe()
        now = time.perf_counter() - start
        for output in outputs:
            record = records[output.request_id]
            record.token_times.append(now)
            # a step with drafts brings several
            record.num_counted = len(output.outputs[0].token_ids)
    hit_rate = {"recent_prefix_hit_rate": caching_metrics.hit_rate}
    return summarise(list(records.values())) | summarise_steps(steps) | hit_rate


def summarise(records: list[Record]) -> dict[str, float]:
    """Throughput and latency of a run."""
    seconds = max(record.e2el for record in records)
    num_output_tokens = sum(record.num_output_tokens for record in records)
    num_tokens = sum(record.num_input_tokens for record in records) + num_output_tokens
    result = {
        "num_requests": len(records),
        "elapsed_time": seconds,
        "total_num_tokens": num_tokens,
        "num_output_tokens": num_output_tokens,
        "requests_per_second": len(records) / seconds,
        "tokens_per_second": num_tokens / seconds,
        "output_tokens_per_second": num_output_tokens / seconds,
    }
    for name, values in latencies(records).items():
        if values:
            result |= summary(name, values)
    return result
