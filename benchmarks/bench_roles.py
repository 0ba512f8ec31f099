"""What tiers and roles are worth on recorded arrivals, simulated: TTFT and ITL apart, p50 and p99.

Files: as bench_policies.py has them. The step times are the bundled ones derived from an H100's data sheet for
Llama-3.1-8B. Tiers: one engine, main memory and a disk behind its prefix cache. Roles: four engines, of which some
compute prompts and the other ones decode, beside four that do both. No clock is read: any machine gives the same.
    python benchmarks/bench_roles.py --azure FILE --mooncake FILE --write
"""

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from mini_vllm.load.workload import lognormal_lengths, read_file, scale_rate, synthetic
from mini_vllm.simulator.calibration import load_calibration
from mini_vllm.simulator.fleet import simulate
from mini_vllm.simulator.roles.fleet import simulate_roles
from mini_vllm.simulator.roles.options import Roles
from mini_vllm.simulator.roles.verdict import verdict
from mini_vllm.simulator.step_time import StepTimeModel
from mini_vllm.simulator.tiers.options import Tiers
from mini_vllm.simulator.tiers.replica import simulate_tiers

RESULTS = Path(__file__).parent / "results" / "roles.md"
CALIBRATION = "llama-3.1-8b-h100"
NUM_ENGINES = 4
GIB = 1 << 30
BLOCK_SIZES = {"azure": 16, "mooncake": 64}
TITLES = {"azure": "Azure conversation", "mooncake": "Mooncake conversation"}
TIERS: dict[str, dict[str, Any]] = {  # GiB of main memory and of the disk, GB a second of the disk
    "no tier": {},
    "100 GiB of main memory": {"host": 100},
    "1,000 GiB of main memory": {"host": 1000},
    "100 GiB, and a disk of 3 GB/s": {"host": 100, "disk": 4000, "bandwidth": 3, "load": "always"},
    "the same, if reading is sooner": {"host": 100, "disk": 4000, "bandwidth": 3, "load": "cheaper"},
}


class Job(NamedTuple):
    """One simulation."""

    name: str
    source: str  # a key of TITLES
    path: Path | None  # None: arrivals at random
    num_requests: int
    scale: float
    tiers: str | None = None
    num_prefill: int | None = None  # 0: four engines that do both


def run(job: Job) -> dict[str, Any]:
    model, size = load_calibration(CALIBRATION), BLOCK_SIZES[job.source]
    engine = dict(model.about["engine"])
    config = engine | {"block_size": size, "num_blocks": engine["num_blocks"] * engine["block_size"] // size}
    model = StepTimeModel((*model.coefficients[:-1], model.coefficients[-1] * size / 16), model.about)
    if job.path is None:
        trace = synthetic(8 * job.scale, job.num_requests, lognormal_lengths(1150, 250, 0.9))
    else:
        trace = scale_rate(islice(read_file(job.path), job.num_requests), job.scale)
    bytes_per_token = int(model.about["kv_bytes_per_token"])
    if job.tiers is not None:
        of = TIERS[job.tiers]
        if not of:
            return simulate(trace, config, model).report
        block = bytes_per_token * size
        num_host, num_disk = (int(of.get(name, 0) * GIB / block) for name in ("host", "disk"))
        tiers = Tiers(num_host, num_disk, block, of.get("bandwidth", 1) * 1e9, load=of.get("load", "always"))
        return simulate_tiers(trace, config, model, tiers).report
    if not job.num_prefill:
        return simulate(trace, config, model, num_replicas=NUM_ENGINES, routing="least_loaded").report
    roles = Roles(job.num_prefill, NUM_ENGINES - job.num_prefill, bytes_per_token)
    return simulate_roles(trace, config, model, roles, routing="least_loaded").report


def latencies(report: dict[str, Any]) -> str:
    return " | ".join(f"{report[name][p]:.3g}" for name in ("ttft", "itl") for p in ("p50", "p99"))


HEAD = "TTFT p50, s | TTFT p99, s | ITL p50, s | ITL p99, s"


def tiers_table(reports: Sequence[tuple[Job, dict[str, Any]]]) -> list[str]:
    lines = [f"| behind the prefix cache | {HEAD} | hit % | blocks loaded | of these read |", "|---|" + "---:|" * 7]
    for job, report in reports:
        moved = report.get("tiers", {"loaded": 0, "read": 0})
        lines.append(
            f"| {job.name} | {latencies(report)} | {100 * report['prefix_hit_rate']:.1f} | {moved['loaded']:,} | "
            f"{moved['read']:,} |"
        )
    return lines


def roles_table(reports: Sequence[tuple[Job, dict[str, Any]]]) -> list[str]:
    lines = [f"| arrivals | engines | {HEAD} | good %, by gaps | busy, prefill / decode |", "|---|---|" + "---:|" * 6]
    for job, report in reports:
        of = report.get("roles")
        busy = f"{of['prefill_busy']:.0%} / {of['decode_busy']:.0%}" if of else ""
        title = f"{TITLES[job.source]}, {job.scale:g} times as fast"
        lines.append(f"| {title} | {job.name} | {latencies(report)} | {100 * report['good_share']:.1f} | {busy} |")
    return lines


def make_jobs(arguments: argparse.Namespace) -> tuple[list[Job], list[Job]]:
    """Of the tiers, and of the roles."""
    n, tiers, roles = arguments.requests, [], []
    for name in TIERS:
        tiers.append(Job(name, "mooncake", arguments.mooncake, n, arguments.tier_scale, name))
    for source, scales in (("azure", arguments.azure_scale), ("mooncake", arguments.mooncake_scale)):
        for scale in scales:
            for p in range(NUM_ENGINES):
                name = f"{p} prefill, {NUM_ENGINES - p} decode" if p else f"{NUM_ENGINES} that do both"
                roles.append(Job(name, source, getattr(arguments, source), n, scale, None, p))
    return tiers, roles


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--azure", type=Path, help="without it: arrivals at random")
    parser.add_argument("--mooncake", type=Path, help="without it: arrivals at random")
    parser.add_argument("--requests", type=int, default=600, help="only the first of each file")
    parser.add_argument("--tier-scale", type=float, default=0.2)
    parser.add_argument("--azure-scale", type=float, nargs="+", default=[4.0, 8.0])
    parser.add_argument("--mooncake-scale", type=float, nargs="+", default=[0.2, 0.8])
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    arguments = parser.parse_args()
    if arguments.write and not (arguments.azure and arguments.mooncake):
        parser.error("--write needs --azure and --mooncake")
    tiers, roles = make_jobs(arguments)
    with ProcessPoolExecutor(arguments.workers) as pool:
        done = []
        for job, report in zip([*tiers, *roles], pool.map(run, [*tiers, *roles]), strict=True):
            done.append((job, report))
            print(f"{len(done)} of {len(tiers) + len(roles)} simulated", file=sys.stderr, flush=True)
    of_tiers, of_roles = done[: len(tiers)], done[len(tiers) :]
    verdicts = []
    for job, report in of_roles:
        if not job.num_prefill:
            together, title = report, f"{TITLES[job.source]}, {job.scale:g} times as fast"
            verdicts += ["", f"{title}, beside {job.name}:", ""]
        else:
            verdicts += [f"- {job.name}: {line}" for line in verdict(together, report)]
    lines = [*tiers_table(of_tiers), "", "## Roles", "", *roles_table(of_roles), *verdicts]
    print("\n".join(lines), flush=True)
    text = f"""# Tiers and roles on recorded arrivals

Simulated: the real schedulers, KV cache managers and tiers, step times of Llama-3.1-8B in bfloat16 on an H100 **derived
from its data sheet, not measured** (mini_vllm/simulator/calibrations/{CALIBRATION}.json). K and V of a token are
128 KiB. max_num_seqs 256, max_num_batched_tokens 2,048, KV cache 411,000 tokens an engine; blocks of 16 tokens for
Azure, 64 for Mooncake; {arguments.requests:,} requests. A link carries 50 GB/s, and a transfer takes 1 ms more. Main
memory is 64 GB/s away, and a job of the disk takes 0.1 ms beside its bytes. Requests go to the engine with the fewest
live tokens. Whole runs, warm-up and drain included. A good request: 2 s to the first token, and 99 of 100 gaps within
0.1 s.

{date.today().isoformat()}; simulated, so any machine gives the same.

Again: `python benchmarks/bench_roles.py --azure FILE --mooncake FILE --write`; bench_policies.py says where the files
are from.

## Tiers

One engine, Mooncake conversation, {arguments.tier_scale:g} times as fast.

{chr(10).join(lines)}
"""
    if arguments.write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
