#!/usr/bin/env python3
"""Tenants: what a flood leaves of another tenant's goodput, and what quotas and the sweeper cost in hits.

    python benchmarks/bench_tenants.py                    about three minutes
    python benchmarks/bench_tenants.py --only sweeper     or flood, budget, served
    python benchmarks/bench_tenants.py --write            and into results/tenants.md

The step times are the bundled ones derived from an H100's data sheet for Llama-3.1-8B, so all but the last table is the
same on every machine. That one is of a real server, two keys and a clock.
"""

import argparse
import asyncio
import os
import random
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from heapq import merge
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from openai import AsyncOpenAI

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mini_vllm.load.workload import TraceRequest, lognormal_lengths, synthetic
from mini_vllm.policies.registry import SCHEDULERS
from mini_vllm.policies.tenants import TenantScheduler, salt_of
from mini_vllm.scheduler import Scheduler
from mini_vllm.simulator.calibration import engine_config, load_calibration
from mini_vllm.simulator.metrics import SLO, Metrics, RequestRecord
from mini_vllm.simulator.replica import Replica
from mini_vllm.simulator.sim_request import SimRequest

RESULTS = Path(__file__).parent / "results" / "tenants.md"
CALIBRATION = "llama-3.1-8b-h100"
MODEL = load_calibration(CALIBRATION)
LIMITS = SLO(2.0, 0.1)
SECONDS = 60  # of the quiet tenant's arrivals
FLOODS = {  # prompt and output tokens, and how many requests come at once after a fifth of the time
    "many short requests": (64, 64, 8_000),
    "chats": (1024, 256, 1_000),
    "long answers": (256, 2_000, 600),
    "prompts of 16,000": (16_000, 64, 200),
    "prompts of 100,000": (100_000, 64, 20),
}


class Arrival(NamedTuple):
    """A request of a tenant."""

    time: float
    tenant: str
    request: TraceRequest


def arrivals_of(tenant: str, requests: Iterable[TraceRequest]) -> Iterator[Arrival]:
    return (Arrival(request.arrival_time, tenant, request) for request in requests)


def run(arrivals: Iterable[Arrival], **options: Any) -> tuple[dict[str, list[RequestRecord]], Replica]:
    """One engine, until the last request of the tenants other than "flood" has ended; records by tenant."""
    owners: list[str] = []
    records: dict[str, list[RequestRecord]] = {}
    metrics = Metrics(LIMITS, lambda record: records.setdefault(owners[record.index], []).append(record))
    replica = Replica(engine_config(MODEL, {"max_num_batched_tokens": 1024}) | options, MODEL, metrics, is_first=False)
    for time, tenant, spec in arrivals:
        replica.run_until(time)
        request = SimRequest(len(owners), spec, replica.scheduler.kv_cache_manager.block_size)
        request.cache_salt = salt_of(tenant, None)
        owners.append(tenant)
        replica.add(request)
    num_quiet = len(owners) - owners.count("flood")
    while sum(len(of_tenant) for tenant, of_tenant in records.items() if tenant != "flood") < num_quiet:
        replica.step()
    return records, replica


# --- a flood ----------------------------------------------------------------------------------------------------------


def quiet(rate: float) -> Iterator[Arrival]:
    return arrivals_of("quiet", synthetic(rate, int(rate * SECONDS), lognormal_lengths(1024, 128, 1.0)))


def flood(name: str) -> Iterator[Arrival]:
    input_length, output_length, number = FLOODS[name]
    return arrivals_of("flood", [TraceRequest(SECONDS / 5, input_length, output_length)] * number)


def num_good(records: Iterable[RequestRecord]) -> int:
    return sum(record.is_good(LIMITS)[0] for record in records)


def flood_rows(rate: float = 2.0) -> Iterator[str]:
    yield "| the flood | scheduler | good requests of the other tenant | p50 of its TTFT, s | the longest |"
    yield "|---|---|---:|---:|---:|"
    alone = num_good(run(quiet(rate), scheduler="v1")[0]["quiet"])
    for name in FLOODS:
        for scheduler in ("v1", "tenants"):
            found = run(merge(quiet(rate), flood(name), key=lambda each: each.time), scheduler=scheduler)[0]["quiet"]
            ttft = sorted(record.ttft for record in found)
            share = f"{num_good(found)} of {alone} ({num_good(found) / alone:.0%})"
            yield f"| {name} | {scheduler} | {share} | {ttft[len(ttft) // 2]:.2f} | {ttft[-1]:.2f} |"


class WithoutShares(TenantScheduler):
    """As tenants, but one of them may have all of a step's budget."""

    def _chunk_size(self, *args: Any) -> int:
        return Scheduler._chunk_size(self, *args)


SCHEDULERS["without shares"] = f"{__name__}:WithoutShares"


def budget_rows(name: str = "prompts of 100,000", rate: float = 2.0) -> Iterator[str]:
    yield "| tokens a step | scheduler | good requests of the other tenant | first token too late | gaps too long |"
    yield "|---:|---|---:|---:|---:|"
    for budget in (512, 1024, 2048):
        for scheduler in ("without shares", "tenants"):
            arrivals = merge(quiet(rate), flood(name), key=lambda each: each.time)
            found = run(arrivals, scheduler=scheduler, max_num_batched_tokens=budget)[0]["quiet"]
            late = sum(record.ttft > LIMITS.ttft for record in found)
            slow = sum((record.tail_itl or 0.0) > LIMITS.itl for record in found)
            yield f"| {budget:,} | {scheduler} | {num_good(found)} of {len(found)} | {late} | {slow} |"


# --- the sweeper ------------------------------------------------------------------------------------------------------

OWNERS = "aaaaaaabbc"  # of ten conversations seven are those of a
NUM_CONVERSATIONS, NUM_TURNS = 150, 8
SWEEPS: tuple[dict[str, Any], ...] = (
    *({"cache_watermark": share} for share in (1.0, 0.95, 0.85, 0.7, 0.5)),
    {"cache_watermark": 1.0, "cache_quotas": {"a": 8_000}},
)


def conversations() -> Iterator[Arrival]:
    """Chats whose prompts grow by 512 tokens a turn, and find what the turn before has left. The seed is fixed."""
    rng, arrivals = random.Random(0), []
    for number in range(NUM_CONVERSATIONS):
        time, ids = rng.uniform(0, 600), [number * 100]
        for turn in range(1, NUM_TURNS + 1):
            ids.append(number * 100 + turn)
            request = TraceRequest(time, 512 * len(ids) + 1, 32, tuple(ids))
            arrivals.append(Arrival(time, OWNERS[number % len(OWNERS)], request))
            time += rng.expovariate(1 / 60)
    return iter(sorted(arrivals))


def hit_rate(records: Iterable[RequestRecord]) -> float:
    found = list(records)
    return sum(each.num_cached_tokens for each in found) / sum(each.input_length for each in found)


def sweeper_rows() -> Iterator[str]:
    yield "| watermark | quota of a, blocks | hits of all | of a | of b | of c |"
    yield "|---|---:|---:|---:|---:|---:|"
    for options in SWEEPS:
        records, _ = run(conversations(), scheduler="tenants", num_blocks=16_000, **options)
        rates = [hit_rate(chain.from_iterable(records.values())), *(hit_rate(records[name]) for name in "abc")]
        share, quotas = options["cache_watermark"], options.get("cache_quotas", {})
        name = "1 (no sweeper)" if share == 1 else f"{share}"
        yield f"| {name} | {quotas.get('a', '')} | {' | '.join(f'{100 * rate:.1f} %' for rate in rates)} |"


# --- once for real ----------------------------------------------------------------------------------------------------


def served_rows() -> Iterator[str]:
    """A server with the bundled model. quiet asks one request after the other; flood keeps 32 in flight."""
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder) / "keys.toml"
        keys.write_text('[quiet]\nkey = "quiet-key"\n[flood]\nkey = "flood-key"\n')
        yield "| scheduler | quiet alone | beside the flood | of its goodput |"
        yield "|---|---:|---:|---:|"
        for options in ([], ["--multi-tenant", str(keys)]):
            alone, flooded = asyncio.run(measure(options))
            yield f"| {'tenants' if options else 'v1'} | {alone} | {flooded} | {flooded / alone:.0%} |"


async def measure(options: Sequence[str]) -> tuple[int, int]:
    """Of 8 requests, those whose answer came within a second: alone, and beside the flood."""
    command = [
        sys.executable,
        "-c",
        "from mini_vllm.cli import main; main()",
        "serve",
        "--port",
        "0",
        "--num-kv-blocks",
        "400",
        *options,
    ]
    server = await asyncio.create_subprocess_exec(
        *command, "--max-num-seqs", "8", "--shutdown-timeout", "0", stdout=asyncio.subprocess.PIPE
    )
    assert server.stdout is not None
    line = (await server.stdout.readline()).decode()
    url = line.split("is served at ")[1].split(",")[0]
    clients = {name: AsyncOpenAI(base_url=url, api_key=f"{name}-key", max_retries=0) for name in ("quiet", "flood")}

    async def ask(name: str, max_tokens: int) -> float:
        begin, body = perf_counter(), {"ignore_eos": True}
        await clients[name].completions.create(
            model="tiny", prompt="A block is", max_tokens=max_tokens, extra_body=body
        )
        return perf_counter() - begin

    async def flood() -> None:
        while True:
            await ask("flood", 100)

    async def num_in_time() -> int:
        return sum([await ask("quiet", 16) < 1.0 for _ in range(8)])

    try:
        alone = await num_in_time()
        tasks = [asyncio.create_task(flood()) for _ in range(32)]
        await asyncio.sleep(2)
        flooded = await num_in_time()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return alone, flooded
    finally:
        server.kill()
        await server.wait()


TEXT = """# Tenants

Simulated with the step times of {calibration}, 1,024 tokens a step where no other number stands; the same on every
machine.

## A flood

quiet sends 2 requests a second for {seconds} seconds (1,024 and 128 tokens on average). After a fifth of the time the
flood sends all its requests at once. A good request has its first token within 2 s, and 99 of 100 gaps within 0.1 s.

{flood}

## The flood of prompts of 100,000 tokens, and the budget

Without shares one tenant may have all of the budget that the decodes leave.

{budget}

## The sweeper, and a quota

{number} conversations of eight turns in 16,000 blocks; seven of ten are those of tenant a, two of b, one of c. Hits are
tokens of prompts that were found.

{sweeper}

## Once for real

`mini-vllm serve`, the bundled model on a CPU, 8 places: quiet asks 8 times for 16 tokens, one request after the other,
while 32 clients of the flood ask for 100 tokens each. Counted are answers within one second.

{served}

{today}, {cores} cores. Again: `python benchmarks/bench_tenants.py --write`.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="into results/tenants.md")
    parts = {"flood": flood_rows, "budget": budget_rows, "sweeper": sweeper_rows, "served": served_rows}
    parser.add_argument("--only", choices=parts)
    arguments = parser.parse_args()
    tables: dict[str, str] = {}
    for name, rows in parts.items():
        if arguments.only in (None, name):
            found = []
            for row in rows():
                print(row, flush=True)
                found.append(row)
            tables[name] = "\n".join(found)
    if arguments.write and arguments.only is None:
        about = {"calibration": CALIBRATION, "seconds": SECONDS, "number": NUM_CONVERSATIONS}
        text = TEXT.format(**about, **tables, today=date.today(), cores=os.cpu_count())
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
