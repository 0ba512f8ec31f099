"""The simulator against the real engine: the same arrivals in both, calibrated right before and right after.

Per round: measure the grid of `mini-vllm calibrate`, run the engine on 200 requests that arrive when they are due,
measure the grid again, fit to both, simulate the same arrivals. Two workloads: Poisson arrivals, where queueing makes
the latency, and all at once, where the makespan is nothing but step times.

--clock cpu counts the CPU time of this one thread, and lets idle time pass by jumping to the next arrival: what an own
core would show, on a machine that others use. --clock wall is the real time.
    OMP_NUM_THREADS=1 python benchmarks/bench_simulator.py --write
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from itertools import pairwise
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from mini_vllm.cli.calibrate import fit_runs, make_grid, measure
from mini_vllm.cli.common import load_llm
from mini_vllm.config import EngineConfig
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.load.workload import TraceRequest, lognormal_lengths, synthetic
from mini_vllm.params import SamplingParams
from mini_vllm.simulator.fleet import simulate
from mini_vllm.simulator.step_time import StepTimeModel

RESULTS = Path(__file__).parent / "results" / "simulator.md"
MAX_MODEL_LEN = 1024
FIGURES = ("makespan", "ttft p50", "ttft p90", "itl p50", "itl p99", "e2e p50")
LIMITS = {"makespan": 0.15, "ttft p50": 0.20}


class CpuClock:
    """CPU seconds of this process, plus the idle time that was skipped."""

    def __init__(self) -> None:
        self.skipped = 0.0

    def now(self) -> float:
        return time.process_time() + self.skipped

    def sleep(self, seconds: float) -> None:
        self.skipped += seconds


class WallClock:
    """Real seconds."""

    def now(self) -> float:
        return time.perf_counter()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def make_trace(workload: str, num_requests: int, rate: float) -> list[TraceRequest]:
    draw = lognormal_lengths(160, 40, 0.7)

    def lengths(rng: random.Random) -> tuple[int, int]:
        input_length, output_length = draw(rng)
        return min(input_length, MAX_MODEL_LEN // 2), min(output_length, MAX_MODEL_LEN // 2 - 1)

    trace = list(synthetic(rate, num_requests, lengths, seed=7))
    return [spec._replace(arrival_time=0.0) for spec in trace] if workload == "all at once" else trace


def run_engine(engine: LLMEngine, trace: list[TraceRequest], clock: CpuClock | WallClock) -> dict[str, float]:
    """Real arrivals: a request joins before the first step that begins after it is due."""
    rng = random.Random(0)
    prompts = [rng.choices(range(engine.vocab_size), k=spec.input_length) for spec in trace]
    engine.scheduler.kv_cache_manager.reset_prefix_cache()
    times: list[list[float]] = [[] for _ in trace]
    start, due = clock.now(), 0
    while due < len(trace) or engine.has_unfinished_requests():
        now = clock.now() - start
        while due < len(trace) and trace[due].arrival_time <= now:
            params = SamplingParams(max_tokens=trace[due].output_length, ignore_eos=True, temperature=0.0)
            engine.add_request(str(due), prompts[due], params)
            due += 1
        if not engine.has_unfinished_requests():
            clock.sleep(trace[due].arrival_time - now)
            continue
        outputs = engine.step()
        now = clock.now() - start
        for output in outputs:
            times[int(output.request_id)].append(now)
    assert [len(each) for each in times] == [spec.output_length for spec in trace]
    ttft = sorted(each[0] - spec.arrival_time for each, spec in zip(times, trace, strict=True))
    e2e = sorted(each[-1] - spec.arrival_time for each, spec in zip(times, trace, strict=True))
    itl = sorted(b - a for each in times for a, b in pairwise(each))

    def rank(values: list[float], q: int) -> float:
        return values[-(-len(values) * q // 100) - 1]

    return {
        "makespan": max(each[-1] for each in times),
        "ttft p50": rank(ttft, 50),
        "ttft p90": rank(ttft, 90),
        "itl p50": rank(itl, 50),
        "itl p99": rank(itl, 99),
        "e2e p50": rank(e2e, 50),
    }


def run_simulator(trace: list[TraceRequest], engine: LLMEngine, model: StepTimeModel) -> dict[str, float]:
    report = simulate(trace, model.about["engine"], model).report
    names = {name: name.split() for name in FIGURES}
    return {name: report[parts[0]][parts[1]] if len(parts) == 2 else report[name] for name, parts in names.items()}


def run_round(
    engine: LLMEngine, clock_name: str, traces: dict[str, list[TraceRequest]], grid_rounds: int
) -> dict[str, object]:
    clock = CpuClock() if clock_name == "cpu" else WallClock()
    timer: Callable[[], float] = time.process_time if clock_name == "cpu" else time.perf_counter
    grid = make_grid(engine, 16)
    before = [[measure(engine, point, timer) for point in grid] for _ in range(grid_rounds)]
    real = {name: run_engine(engine, trace, clock) for name, trace in traces.items()}
    after = [[measure(engine, point, timer) for point in grid] for _ in range(grid_rounds)]
    model = fit_runs(engine, before + after, note="", clock=timer)
    simulated = {name: run_simulator(trace, engine, model) for name, trace in traces.items()}
    return {"real": real, "simulated": simulated, "errors": model.about["errors"], "model": model.coefficients}


def table(rounds: list[dict], workload: str) -> list[str]:
    """Per figure the medians over the rounds, and the median of the rounds' own errors."""
    lines = ["| figure | measured s | simulated s | error, rounds | median error |", "|---|---:|---:|---|---:|"]
    for name in FIGURES:
        real = [each["real"][workload][name] for each in rounds]
        sim = [each["simulated"][workload][name] for each in rounds]
        errors = [s / r - 1 for s, r in zip(sim, real, strict=True)]
        text = ", ".join(f"{error:+.1%}" for error in errors)
        lines.append(
            f"| {name} | {statistics.median(real):.4g} | {statistics.median(sim):.4g} | {text} | "
            f"{statistics.median(errors):+.1%} |"
        )
    return lines


SPEED_INTRO = """Plain steps, v1, Poisson arrivals at 8 a second, prompts of 1,150 tokens on average, as in
the Azure trace, whose outputs are 250 on average. Each run is a process of its own."""
SPEED = """
import json, re, sys, time
from mini_vllm.simulator.fleet import policy_config, simulate
from mini_vllm.simulator.step_time import StepTimeModel
from mini_vllm.load.workload import lognormal_lengths, synthetic
num_requests, output_len = int(sys.argv[1]), float(sys.argv[2])
model = StepTimeModel.from_json(open("mini_vllm/simulator/calibrations/llama-3.1-8b-h100.json").read())
config = {**model.about["engine"], "max_model_len": 16384}
trace = synthetic(8.0, num_requests, lognormal_lengths(1150, output_len, 0.8))
wall, cpu = time.perf_counter(), time.process_time()
report = simulate(trace, config, model).report
peak = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
print(json.dumps({"requests": num_requests, "output_len": output_len, "wall": time.perf_counter() - wall,
    "cpu": time.process_time() - cpu, "rss": peak / 1024,
    "tokens": report["output_tokens"], "steps": report["steps"]}))
"""


def speed_section() -> list[str]:
    """Seconds and peak memory of 10^4 and 10^5 requests, each in a process of its own."""
    lines = [
        "| requests | mean output | tokens | steps | CPU s | wall s | peak RSS MiB |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for num_requests, output_len in ((10_000, 32), (100_000, 32), (10_000, 250), (100_000, 250)):
        command = [sys.executable, "-c", SPEED, str(num_requests), str(output_len)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parent.parent)
        got = json.loads(done.stdout)
        lines.append(
            f"| {num_requests:,} | {output_len} | {got['tokens']:,} | {got['steps']:,} | {got['cpu']:.1f} | "
            f"{got['wall']:.1f} | {got['rss']:.1f} |"
        )
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clock", nargs="+", choices=("cpu", "wall"), default=["cpu", "wall"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--grid-rounds", type=int, default=1, help="how often the grid is measured before and after")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--rate", type=float, default=12.0, help="of the Poisson arrivals, requests a second")
    parser.add_argument("--no-speed", action="store_true", help="leave the speed of the simulator out")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    arguments = parser.parse_args()
    load = os.getloadavg()
    config = EngineConfig(
        model="tiny", dtype="float32", num_kv_blocks=2049, max_model_len=MAX_MODEL_LEN, max_num_seqs=32
    )
    engine = load_llm(config).engine
    for point in make_grid(engine, 16)[::3]:
        measure(engine, point)  # warm-up
    traces = {
        name: make_trace(name, arguments.requests, arguments.rate) for name in ("Poisson arrivals", "all at once")
    }
    sections: list[str] = []
    for clock in arguments.clock:
        rounds = []
        for _ in range(arguments.rounds):
            rounds.append(run_round(engine, clock, traces, arguments.grid_rounds))
            print(clock, json.dumps(rounds[-1]), flush=True)
        fits = ", ".join(f"{each['errors']['median']:.1%} / {each['errors']['p90']:.1%}" for each in rounds)
        sections += ["", f"## {'CPU time' if clock == 'cpu' else 'Wall-clock time'}", ""]
        sections += [f"Fit on held-out steps, median / p90 relative error by round: {fits}."]
        for name in traces:
            sections += ["", f"{name}:", "", *table(rounds, name)]
            medians = {
                figure: statistics.median(
                    each["simulated"][name][figure] / each["real"][name][figure] - 1 for each in rounds
                )
                for figure in LIMITS
            }
            verdict = ", ".join(
                f"{figure} {medians[figure]:+.1%} (limit {limit:.0%})" for figure, limit in LIMITS.items()
            )
            print(clock, name, verdict, flush=True)
    intro = f"""# The simulator against the real engine

{arguments.requests} requests on the bundled model in float32, one thread: prompts of 160 tokens on average, outputs of
40, Poisson arrivals at {arguments.rate:g} a second, and the same requests all at once. Calibrated directly before and
after each run, {arguments.rounds} rounds; predicted and measured are the same requests, step by step.
Limits: makespan within 15 %, median TTFT within 20 %.

{date.today().isoformat()}; 2 cores that others use, too, load average at the start {load[0]:.1f}, {load[1]:.1f},
{load[2]:.1f}. CPU time is the thread's own, with idle time skipped: what a core for it alone would show.

Again: `OMP_NUM_THREADS=1 python benchmarks/bench_simulator.py --write`"""
    lines = [intro, *sections]
    if not arguments.no_speed:
        lines += ["", "## Speed of the simulator", "", SPEED_INTRO, "", *speed_section()]
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
