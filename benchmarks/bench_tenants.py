#!/usr/bin/env python3
"""Tenants: what a flood leaves of another tenant's goodput, and what quotas and the sweeper cost in hits. Simulated.

    python benchmarks/bench_tenants.py --mooncake FILE             about two minutes
    python benchmarks/bench_tenants.py --mooncake FILE --write     and into results/tenants.md
    python benchmarks/bench_tenants.py --served                    the flood once for real: a server, two keys, a clock

FILE: conversation_trace.jsonl of github.com/kvcache-ai/Mooncake (Qin et al., FAST 2025). The step times are the bundled
ones derived from an H100's data sheet for Llama-3.1-8B. All but --served is the same on every machine.
"""

import sys
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mini_vllm.cli.simulate import engine_config, load_calibration, read_file
from mini_vllm.policies.tenants import salt_of
from mini_vllm.simulator.metrics import SLO, Metrics, RequestRecord
from mini_vllm.simulator.replica import Replica
from mini_vllm.simulator.sim_request import SimRequest
from mini_vllm.simulator.workload import TraceRequest, lognormal_lengths, synthetic

MODEL = load_calibration("llama-3.1-8b-h100")
LIMITS = SLO(2.0, 0.1)
SECONDS = 60  # of the quiet tenant's arrivals
FLOODS = {  # prompt and output tokens, and how many requests come at once after a fifth of the time
    "many short requests": (64, 64, 20_000),
    "chats": (1024, 256, 4_000),
    "long answers": (256, 4_000, 1_000),
    "long prompts": (16_000, 64, 600),
    "giants": (100_000, 1_000, 40),
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
        for scheduler in ("tenants",):
            found = run(merge(quiet(rate), flood(name), key=lambda each: each.time), scheduler=scheduler)[0]["quiet"]
            ttft = sorted(record.ttft for record in found)
            share = f"{num_good(found)} of {alone} ({num_good(found) / alone:.0%})"
            yield f"| {name} | {scheduler} | {share} | {ttft[len(ttft) // 2]:.2f} | {ttft[-1]:.2f} |"


# --- the sweeper ------------------------------------------------------------------------------------------------------

NUM_REQUESTS = 1_000
SCALE = 0.5  # of the rate of the file
MOST_OUTPUT = 32  # tokens: nobody finds what is generated, and it takes most of the time to simulate
OWNERS = "aaaaaaabbc"  # of ten conversations seven are those of a


def conversations(path: Path) -> Iterator[Arrival]:
    """The file's requests, each conversation of one tenant. Hash ids are those of the tenant, as if under its salt."""
    for spec in islice(read_file(path, "mooncake"), NUM_REQUESTS):
        number = spec.hash_ids[1] % len(OWNERS) if len(spec.hash_ids) > 1 else 0
        own_ids = tuple(each * len(OWNERS) + OWNERS.index(OWNERS[number]) for each in spec.hash_ids)
        short = spec._replace(hash_ids=own_ids, output_length=min(spec.output_length, MOST_OUTPUT))
        yield Arrival(spec.arrival_time / SCALE, OWNERS[number], short)


def hit_rate(records: Iterable[RequestRecord]) -> float:
    found = list(records)
    return sum(each.num_cached_tokens for each in found) / sum(each.input_length for each in found)


def sweeper_rows(path: Path) -> Iterator[str]:
    yield "| watermark | quota of a | hits of all | of a | of b | of c |"
    yield "|---|---|---:|---:|---:|---:|"
    for watermark, quota in ((1.0, None), (0.95, None), (0.85, None), (0.7, None), (0.5, None), (1.0, 6_000)):
        quotas = None if quota is None else {"a": quota}
        records, _ = run(
            conversations(path), scheduler="tenants", cache_watermark=watermark, cache_quotas=quotas
        )
        rates = [hit_rate(chain.from_iterable(records.values())), *(hit_rate(records[name]) for name in "abc")]
        name = "1 (no sweeper)" if watermark == 1 else watermark
        yield f"| {name} | {quota or ''} | {' | '.join(f'{rate:.2%}' for rate in rates)} |"


if __name__ == "__main__":
    for row in sweeper_rows(Path(sys.argv[1])):
        print(row, flush=True)
