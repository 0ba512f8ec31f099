"""Every scheduler of the family on recorded arrivals, simulated: p99 ITL, goodput and the rest, side by side.

Files: AzureLLMInferenceTrace_conv.csv of github.com/Azure/AzurePublicDataset (CC-BY 4.0; Patel et al., Splitwise, ISCA
2024) and conversation_trace.jsonl of github.com/kvcache-ai/Mooncake (Qin et al., FAST 2025). The step times are the
bundled ones derived from an H100's data sheet for Llama-3.1-8B. Then the prefix cache: requests of the Mooncake file
one by one, against an LRU cache computed independently and an infinite one; and routings over several replicas.
    python benchmarks/bench_policies.py --azure FILE --mooncake FILE --write
"""

import argparse
import os
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from mini_vllm.cli.simulate import COLUMNS, load_calibration, read_file
from mini_vllm.simulator.fleet import ROUTINGS, policy_config, policy_names, simulate
from mini_vllm.simulator.metrics import SLO
from mini_vllm.simulator.step_time import StepTimeModel
from mini_vllm.simulator.workload import (
    HASH_BLOCK_SIZE,
    TraceRequest,
    lognormal_lengths,
    scale_rate,
    synthetic,
)

RESULTS = Path(__file__).parent / "results" / "policies.md"
CALIBRATION = "llama-3.1-8b-h100"
SHOWN = (
    "goodput", "good %", "TTFT p50", "TTFT p99", "ITL p50", "ITL p99", "TPOT p50", "E2E p50", "E2E p99",
    "preempted", "copied", "hit %", "KV %", "tokens/s", "makespan",
)  # fmt: skip


class Job(NamedTuple):
    """One simulation."""

    path: Path | None  # None: arrivals at random
    num_requests: int | None
    scale: float
    slo: SLO
    engine: dict[str, Any]
    policy: str = "v1"
    replicas: int = 1
    routing: str = "round_robin"


def run(job: Job) -> dict[str, Any]:
    """The report of one simulation."""
    model = load_calibration(CALIBRATION)
    config = {**model.about["engine"], **job.engine}
    model = StepTimeModel((*model.coefficients[:-1], model.coefficients[-1] * config["block_size"] / 16))
    if job.path is None:
        trace = synthetic(job.scale, job.num_requests or 1000, lognormal_lengths(1150, 250, 0.9))
    else:
        trace = scale_rate(islice(read_file(job.path), job.num_requests), job.scale)
    config = policy_config(job.policy, config)
    return simulate(trace, config, model, num_replicas=job.replicas, routing=job.routing, slo=job.slo).report


def table(names: Sequence[str], reports: Sequence[dict[str, Any]]) -> list[str]:
    columns = [column for column in COLUMNS if column.title in SHOWN]
    columns.sort(key=lambda column: SHOWN.index(column.title))
    lines = [f"| | {' | '.join(column.title for column in columns)} |", "|---|" + "---:|" * len(columns)]
    for name, report in zip(names, reports, strict=True):
        lines.append(f"| {name} | {' | '.join(column.text(report) for column in columns)} |")
    return lines


def summary(done: Sequence[tuple[str, Sequence[str], Sequence[dict[str, Any]]]]) -> list[str]:
    """One line for each policy and trace, with what the policies differ in."""
    lines = ["| arrivals | policy | good % | goodput | TTFT p99 | ITL p99 |", "|---|---|---:|---:|---:|---:|"]
    for title, names, reports in done:
        for name, report in zip(names, reports, strict=True):
            figures = f"{100 * report['good_share']:.1f} | {report['goodput']:.2f} | {report['ttft']['p99']:.3g}"
            lines.append(f"| {title} | {name} | {figures} | {report['itl']['p99']:.3g} |")
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
    azure_slo, mooncake_slo = SLO(2.0, 0.1), SLO(10.0, 0.25)
    n, mooncake_engine = arguments.requests, {"block_size": 64, "num_blocks": 6425}
    if not arguments.azure:
        return [("Poisson arrivals, 12 a second", Job(None, n, 12.0, azure_slo, {}))]
    jobs = [
        (f"Azure conversation, {scale:g} times as fast", Job(arguments.azure, n, scale, azure_slo, {}))
        for scale in arguments.azure_scale
    ]
    small = {"num_blocks": 4001, "max_model_len": 16_384}
    title = f"Azure conversation, {arguments.azure_scale[0]:g} times as fast, KV cache of 64,000 tokens"
    jobs.append((title, Job(arguments.azure, n, arguments.azure_scale[0], azure_slo, small)))
    for scale in arguments.mooncake_scale:
        title = f"Mooncake conversation, {scale:g} times as fast"
        jobs.append((title, Job(arguments.mooncake, n, scale, mooncake_slo, mooncake_engine)))
    return jobs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--azure", type=Path, help="without both files: arrivals at random")
    parser.add_argument("--mooncake", type=Path)
    parser.add_argument("--requests", type=int, default=None, help="only the first of each file")
    parser.add_argument("--azure-scale", type=float, nargs="+", default=[3.0, 4.5])
    parser.add_argument("--mooncake-scale", type=float, nargs="+", default=[0.2])
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    arguments = parser.parse_args()
    if (arguments.azure is None) != (arguments.mooncake is None) or (arguments.write and not arguments.azure):
        parser.error("give both --azure and --mooncake, or none; --write needs both")
    sections: list[str] = []
    done = []
    policies, jobs = policy_names(), make_jobs(arguments)
    last = jobs[-1][1]
    fleet = last._replace(replicas=arguments.replicas, scale=last.scale * arguments.replicas)
    jobs.append((f"The same, {fleet.replicas} replicas of v1 and as many times as fast", fleet))
    with ProcessPoolExecutor(arguments.workers) as pool:
        pending = []
        for title, job in jobs:
            names = policies if job.replicas == 1 else list(ROUTINGS)
            key = "policy" if job.replicas == 1 else "routing"
            pending.append((title, job, names, [pool.submit(run, job._replace(**{key: name})) for name in names]))
        for title, job, names, futures in pending:
            reports = [future.result() for future in futures]
            sections += ["", f"## {title}", "", f"A good request: {job.slo.ttft:g} s to the first token, and 99 % of "]
            sections[-1] += f"its gaps within {job.slo.itl:g} s. {reports[0]['requests']:,} requests."
            sections += ["", *table(names, reports)]
            if names is policies:
                done.append((title, names, reports))
            print("\n".join(sections[-len(names) - 6 :]), flush=True)
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
its data sheet, not measured** (mini_vllm/simulator/calibrations/{CALIBRATION}.json). Latencies in seconds; goodput is
good requests a second of the whole run. max_num_seqs 256, max_num_batched_tokens 2,048, KV cache 411,000 tokens where
nothing else is said; blocks of 16 tokens for Azure, 64 for Mooncake. The rates bring one machine near its limit, 4.5
beyond it. v1+cheaper decides by its own default costs.

{date.today().isoformat()}; simulated, so any machine gives the same.

Again: `python benchmarks/bench_policies.py --azure FILE --mooncake FILE --write`; the script says where the files are
from."""
    text = "\n".join([intro, "", "## In short", "", *summary(done), *sections]) + "\n"
    if arguments.write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
