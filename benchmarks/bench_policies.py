"""Every scheduler of the family on recorded arrivals, simulated: latencies, goodput and the rest, side by side.

Files: AzureLLMInferenceTrace_conv.csv of github.com/Azure/AzurePublicDataset (CC-BY 4.0; Patel et al., Splitwise, ISCA
2024) and conversation_trace.jsonl of github.com/kvcache-ai/Mooncake (Qin et al., FAST 2025). The step times are the
bundled ones derived from an H100's data sheet for Llama-3.1-8B. A share of good requests has an interval, from 15
stretches of the run, and a p99 has none (tools/steady_state.py). Then a sweep of the limits of a good
request; the prefix cache: requests of the Mooncake file one by one, against an LRU cache computed independently and an
infinite one; and routings.
    python benchmarks/bench_policies.py --azure FILE --mooncake FILE --write
"""

import argparse
import os
import sys
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mini_vllm.load.workload import (
    HASH_BLOCK_SIZE,
    TraceRequest,
    lognormal_lengths,
    read_file,
    scale_rate,
    synthetic,
)
from mini_vllm.simulator.calibration import load_calibration
from mini_vllm.simulator.fleet import ROUTINGS, policy_config, policy_names, simulate
from mini_vllm.simulator.metrics import SLO
from mini_vllm.simulator.report import figures
from mini_vllm.simulator.step_time import StepTimeModel
from tools.steady_state import (
    MOST_GROWTH,
    Interval,
    SteadyState,
    steady_state,
)

RESULTS = Path(__file__).parent / "results" / "policies.md"
CALIBRATION = "llama-3.1-8b-h100"
SLO_OF_ALL = SLO(2.0, 0.1)  # one for every table, so that they can be compared
SWEEP = (0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0)  # limits of ITL or TPOT, in seconds
SWEPT = ("v1", "prefill_first", "warm_first")
SHOWN = (
    "goodput", "TTFT p50", "ITL p50", "TPOT p50", "TPOT p99", "E2E p50", "E2E p99",
    "preempted", "copied", "hit %", "KV %", "tokens/s", "makespan",
)  # fmt: skip


class Job(NamedTuple):
    """One simulation."""

    path: Path | None  # None: arrivals at random
    num_requests: int | None
    scale: float
    engine: dict[str, Any]
    policy: str = "v1"
    replicas: int = 1
    routing: str = "round_robin"


def run(job: Job) -> SteadyState:
    """Simulate it."""
    model = load_calibration(CALIBRATION)
    config = {**model.about["engine"], **job.engine}
    model = StepTimeModel((*model.coefficients[:-1], model.coefficients[-1] * config["block_size"] / 16))
    if job.path is None:
        trace = synthetic(job.scale, job.num_requests or 1000, lognormal_lengths(1150, 250, 0.9))
    else:
        trace = scale_rate(islice(read_file(job.path), job.num_requests), job.scale)
    config = policy_config(job.policy, config)
    fleet: dict[str, Any] = {"num_replicas": job.replicas, "routing": job.routing}
    return steady_state([list(trace)], config, model, slo=SLO_OF_ALL, **fleet)


def cell(interval: Interval, scale: float) -> str:
    return str(Interval(interval.mean * scale, interval.half_width * scale))


def table(names: Sequence[str], done: Sequence[SteadyState]) -> list[str]:
    """The rest of the figures, of the whole run, warm-up and drain included."""
    lines = [f"| whole run | {' | '.join(SHOWN)} |", "|---|" + "---:|" * len(SHOWN)]
    for name, each in zip(names, done, strict=True):
        texts = dict(figures(each.reports[0]))
        lines.append(f"| {name} | {' | '.join(texts[title] for title in SHOWN)} |")
    return lines


HEAD = ["policy | good %, by gaps | good %, by TPOT | TTFT p99, s | ITL p99, s |", "|---|---:|---:|---:|---:|"]


def compared(name: str, state: SteadyState) -> str:
    """The cells in which the policies differ, the shares with their intervals."""
    shares = [cell(state.figures[f"good_share{suffix}"], 100) for suffix in ("", "_by_tpot")]
    latencies = [f"{state.tails[f'{figure} p99'].mean:.3g}" for figure in ("ttft", "itl")]
    return " | ".join([name + (" (over capacity)" if state.is_over_capacity else ""), *shares, *latencies]) + " |"


def sweep(title: str, names: Sequence[str], done: Sequence[SteadyState]) -> list[str]:
    """The share of good requests, by both definitions, as the limit of gaps moves; warm-up and drain are left out."""
    swept = [(name, each) for name, each in zip(names, done, strict=True) if name in SWEPT]
    columns = [f"{name}, by {kind}" for name, _ in swept for kind in ("gaps", "TPOT")]
    lines = [f"| limit, s ({title}) | " + " | ".join(columns) + " |", "|---:|" + "---:|" * len(columns)]
    for limit in SWEEP:
        cells = [cell(share, 100) for _, state in swept for share in state.good_shares(SLO(SLO_OF_ALL.ttft, limit))]
        lines.append(f"| {limit:g} | " + " | ".join(cells) + " |")
    return lines


def lru_hits(trace: Sequence[TraceRequest], capacity: int) -> tuple[int, int, int]:
    """Prompt tokens, those that an LRU cache of `capacity` blocks finds, and those that an infinite one finds.

    One request after the other, in blocks of HASH_BLOCK_SIZE: what is not found is loaded in the place of what was used
    longest ago; of one request's blocks the head counts as used last. The last prompt token is never looked up, the
    last output token never computed.
    """
    size = HASH_BLOCK_SIZE
    cache: OrderedDict[object, None] = OrderedDict()
    seen: set[object] = set()
    found = found_in_all = 0
    for index, spec in enumerate(trace):
        num_tokens = spec.input_length + spec.output_length - 1
        names: list[object] = list(spec.hash_ids[: spec.input_length // size])
        names += [(index, i) for i in range(len(names), num_tokens // size)]
        findable = names[: (spec.input_length - 1) // size]
        num_hits = next((i for i, name in enumerate(findable) if name not in cache), len(findable))
        found += num_hits * size
        found_in_all += size * next((i for i, name in enumerate(findable) if name not in seen), len(findable))
        for name in names[:num_hits]:
            cache.move_to_end(name)
        needed = -(-num_tokens // size) - num_hits
        while len(cache) + needed > capacity:
            cache.popitem(last=False)
        for name in reversed(names):
            cache[name] = None
            cache.move_to_end(name)
        seen.update(names)
    return sum(spec.input_length for spec in trace), found, found_in_all


def prefix_section(path: Path, num_requests: int | None) -> list[str]:
    """The hit rate of requests one by one, beside the LRU cache and the infinite one."""
    trace = [  # each ends before the next; what it generates is found by nobody, so a few tokens of it are enough
        spec._replace(arrival_time=1e5 * i, output_length=min(spec.output_length, 32))
        for i, spec in enumerate(islice(read_file(path), num_requests))
    ]
    lines = [
        "| blocks of 512 | simulator hit % | LRU hit % | difference, tokens | infinite cache hit % |",
        "|---:|---:|---:|---:|---:|",
    ]
    for num_blocks in (400, 1_000, 4_000, 16_000, 64_000):
        config = {"block_size": 512, "num_blocks": num_blocks, "max_num_seqs": 8, "max_num_batched_tokens": 8192}
        report = simulate(trace, config, load_calibration(CALIBRATION)).report
        queries, found, bound = lru_hits(trace, num_blocks - 1)
        assert (report["refused"], report["prefix_queries"]) == (0, queries)
        assert abs(report["prefix_hits"] - found) <= 1e-3 * found <= 1e-3 * bound
        lines.append(
            f"| {num_blocks - 1:,} | {100 * report['prefix_hit_rate']:.3f} | {100 * found / queries:.3f} | "
            f"{report['prefix_hits'] - found:+,} | {100 * bound / queries:.3f} |"
        )
        print(lines[-1], flush=True)
    return lines


def make_jobs(arguments: argparse.Namespace) -> list[tuple[str, Job]]:
    """Title and job of every table of policies."""
    n, mooncake_engine = arguments.requests, {"block_size": 64, "num_blocks": 6425}
    if not arguments.azure:
        return [("Poisson arrivals, 12 a second", Job(None, n, 12.0, {}))]
    jobs = [
        (f"Azure conversation, {scale:g} times as fast", Job(arguments.azure, n, scale, {}))
        for scale in arguments.azure_scale
    ]
    small = {"num_blocks": 4001, "max_model_len": 16_384}
    scale = arguments.small_scale
    title = f"Azure conversation, {scale:g} times as fast, KV cache of 64,000 tokens"
    jobs.append((title, Job(arguments.azure, n, scale, small)))
    for scale in arguments.mooncake_scale:
        title = f"Mooncake conversation, {scale:g} times as fast"
        jobs.append((title, Job(arguments.mooncake, n, scale, mooncake_engine)))
    return jobs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--azure", type=Path, help="without both files: arrivals at random")
    parser.add_argument("--mooncake", type=Path)
    parser.add_argument("--requests", type=int, default=None, help="only the first of each file")
    parser.add_argument("--azure-scale", type=float, nargs="+", default=[3.0, 4.5])
    parser.add_argument("--small-scale", type=float, default=1.75, help="with the small KV cache")
    parser.add_argument("--mooncake-scale", type=float, nargs="+", default=[0.2])
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    arguments = parser.parse_args()
    if (arguments.azure is None) != (arguments.mooncake is None) or (arguments.write and not arguments.azure):
        parser.error("give both --azure and --mooncake, or none; --write needs both")
    sections: list[str] = []
    in_short = ["| arrivals | " + HEAD[0], "|---" + HEAD[1]]
    policies, jobs = policy_names(), make_jobs(arguments)
    last = jobs[-1][1]
    fleet = last._replace(replicas=arguments.replicas, scale=last.scale * arguments.replicas)
    jobs.append((f"The same, {fleet.replicas} replicas of v1 and as many times as fast", fleet))
    limits = f"{SLO_OF_ALL.ttft:g} s to the first token; gaps or TPOT within {SLO_OF_ALL.itl:g} s"
    with ProcessPoolExecutor(arguments.workers) as pool:
        pending = []
        for title, job in jobs:
            names = policies if job.replicas == 1 else list(ROUTINGS)
            key = "policy" if job.replicas == 1 else "routing"
            pending.append((title, key, names, [pool.submit(run, job._replace(**{key: name})) for name in names]))
        for title, key, names, futures in pending:
            done = [future.result() for future in futures]
            section = ["", f"## {title}", "", f"A good request: {limits}. {done[0].num_requests:,} requests.", ""]
            section += ["| " + HEAD[0].replace("policy", key), HEAD[1]]
            section += ["| " + compared(name, each) for name, each in zip(names, done, strict=True)]
            section += ["", *table(names, done)]
            if key == "policy":
                section += ["", "Good %, as the limit of gaps or TPOT moves:", "", *sweep(title, names, done)]
                in_short += [f"| {title} | {compared(name, each)}" for name, each in zip(names, done, strict=True)]
            print("\n".join(section), flush=True)
            sections += section
    if not arguments.mooncake:
        return
    sections += [
        "",
        "## The prefix cache against LRU",
        "",
        "Mooncake, one request after the other, at most 32 output tokens each.",
        "",
    ]
    sections += prefix_section(arguments.mooncake, arguments.requests)
    intro = f"""# The schedulers on recorded arrivals

Simulated: the real schedulers and KV cache managers, step times of Llama-3.1-8B in bfloat16 on an H100 **derived from
its data sheet, not measured** (mini_vllm/simulator/calibrations/{CALIBRATION}.json). Latencies in seconds.
max_num_seqs 256, max_num_batched_tokens 2,048, KV cache 411,000 tokens where nothing else is said; blocks of 16 tokens
for Azure, 64 for Mooncake. v1+cheaper decides by its own default costs.

A good request, in every table: {limits}.
By gaps: 99 of 100 gaps between its tokens are within the limit. By TPOT: their mean is.

± is the half-width of a 95 % interval; a p99 of one run has none. A run is cut into 20 stretches of equal time; the
first 5 and the drain are left out, and the other 15 give the interval. "Over capacity": the number of unfinished
requests grows by more than
{100 * MOST_GROWTH:g} % of the arrivals, from the first five of the 15 to the last five. Then the figures say how long
the trace is, and nothing of the policy.

{date.today().isoformat()}; simulated, so any machine gives the same.

Again: `python benchmarks/bench_policies.py --azure FILE --mooncake FILE --write`; the script says where the files are
from."""
    text = "\n".join([intro, "", "## In short", "", *in_short, *sections]) + "\n"
    if arguments.write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
