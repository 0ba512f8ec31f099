#!/usr/bin/env python3
"""Host cost of scheduling: schedule() + update_from_output(), without a model, beside vLLM 0.33.0 in the same run.

    python benchmarks/bench_scheduler.py                                         mini_vllm alone
    python benchmarks/bench_scheduler.py --vllm-python VENV/bin/python           beside vLLM
    python benchmarks/bench_scheduler.py --vllm-python VENV/bin/python --write   and into results/scheduler.md
    python benchmarks/bench_scheduler.py --step [--write]      all host work of a step, and into results/host_step.md

tools/record_vllm_traces.py says how to install vLLM into VENV. Both run the same workload in processes of their own, in
turn (ours, vLLM, ours, vLLM, ...), so that both meet the same machine. Times are CPU time of the thread, since the
machine may be shared; a table shows the median over the rounds of the median over the steps.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from time import thread_time_ns
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "benchmarks" / "results" / "scheduler.md"
STEP_RESULT = ROOT / "benchmarks" / "results" / "host_step.md"
BLOCK_SIZE, CONTEXT = 16, 500
NUM_RUNNING = (1, 16, 64, 256, 512, 1024, 4096)
EOS_TOKEN_IDS = frozenset({2})  # one for all requests, as the engine passes it
WARM_UP = 20  # steps before those that count
MAX_TOKENS = 1000

Timing = tuple[float, float]  # microseconds of schedule() and of update_from_output()


def prompt(i: int, length: int) -> list[int]:
    """A prompt that shares no block with another one."""
    return [(i * 7919 + j * 31 + i * j % 13) % 30000 for j in range(length)]


def config(num_running: int, num_blocks: int, context: int = CONTEXT, **options: Any) -> dict[str, Any]:
    """Everything fits, all are admitted in one step, and then every step is one token for each request."""
    defaults = {
        "block_size": BLOCK_SIZE,
        "num_blocks": num_blocks,
        "max_num_seqs": num_running,
        "max_num_batched_tokens": num_running * (context + 100) + 1024,
        "long_prefill_token_threshold": 0,
        "enable_chunked_prefill": True,
        "enable_prefix_caching": True,
        "policy": "fcfs",
        "max_model_len": context + MAX_TOKENS,
        "scheduler_reserve_full_isl": True,
        "watermark": 0.0,
        "vocab_size": 32000,
        "eos_token_id": 2,
    }
    return defaults | options


def request(i: int, length: int, max_tokens: int = MAX_TOKENS) -> dict[str, Any]:
    """A request in the words of a trace."""
    return {
        "id": f"request-{i}",
        "prompt": prompt(i, length),
        "max_tokens": max_tokens,
        "arrival_time": float(i),
        "ignore_eos": True,
        "priority": 0,
    }


class Ours:
    """mini_vllm behind the few verbs that the benchmark needs."""

    def __init__(self) -> None:
        sys.path.insert(0, str(ROOT))
        from mini_vllm import request
        from mini_vllm.policies import registry

        self.policies, self.request = registry, request

    def start(self, c: dict[str, Any]) -> None:
        """Make a new scheduler."""
        self.config, self.scheduler = c, self.policies.make_scheduler(c)

    def add(self, r: dict[str, Any]) -> None:
        """Make a request and queue it."""
        params = self.request.SamplingParams(max_tokens=r["max_tokens"], ignore_eos=r["ignore_eos"], temperature=0.0)
        self.scheduler.add_request(
            self.request.Request(
                r["id"], r["prompt"], params, eos_token_ids=EOS_TOKEN_IDS, arrival_time=r["arrival_time"]
            )
        )

    def step(self) -> tuple[float, float, int]:
        """One step: microseconds of its two halves, and how many requests were in it."""
        scheduler = self.scheduler
        t0 = thread_time_ns()
        output = scheduler.schedule()
        t1 = thread_time_ns()
        counts = output.num_scheduled_tokens
        sampled = {
            r.request_id: [7] for r in output.scheduled_requests if scheduler.needs_sample(r, counts[r.request_id])
        }
        t2 = thread_time_ns()
        scheduler.update_from_output(output, sampled)
        t3 = thread_time_ns()
        return (t1 - t0) / 1e3, (t3 - t2) / 1e3, len(counts)

    def is_done(self) -> bool:
        """Whether nothing is left to do."""
        return not self.scheduler.has_unfinished_requests()


class Theirs:
    """The same verbs for vLLM."""

    def __init__(self) -> None:
        sys.path.insert(0, str(ROOT))
        from tools.record_vllm_traces import Vllm

        with tempfile.TemporaryDirectory() as model_dir:
            self.vllm = Vllm(Path(model_dir))

    def start(self, c: dict[str, Any]) -> None:
        """Make a new scheduler."""
        self.config, self.scheduler = c, self.vllm.make_scheduler(c)

    def add(self, r: dict[str, Any]) -> None:
        """Make a request and queue it; its block hashes are computed here."""
        self.scheduler.add_request(self.vllm.make_request(r, self.config))

    def step(self) -> tuple[float, float, int]:
        """One step: microseconds of its two halves, and how many requests were in it."""
        scheduler = self.scheduler
        t0 = thread_time_ns()
        output = scheduler.schedule()
        t1 = thread_time_ns()
        # vLLM has advanced num_computed_tokens already.
        live = scheduler.requests
        caught_up = {i: live[i].num_computed_tokens >= live[i].num_tokens for i in output.num_scheduled_tokens}
        model_output = self.vllm.model_output({i: [7] if samples else [] for i, samples in caught_up.items()})
        t2 = thread_time_ns()
        scheduler.update_from_output(output, model_output)
        t3 = thread_time_ns()
        return (t1 - t0) / 1e3, (t3 - t2) / 1e3, len(output.num_scheduled_tokens)

    def is_done(self) -> bool:
        """Whether nothing is left to do."""
        return not self.scheduler.get_num_unfinished_requests()


def measure_decode(engine: Any, num_running: int, num_steps: int, context: int = CONTEXT, **options: Any) -> Timing:
    """Median step of num_running requests that decode at about that context."""
    blocks_each = -(-(context + WARM_UP + num_steps + 20) // BLOCK_SIZE)
    num_waiting = options.pop("num_waiting", 0)
    num_blocks = options.pop("num_blocks", num_running * blocks_each + 1)
    engine.start(config(num_running, num_blocks, context, **options))
    for i in range(num_running):
        engine.add(request(i, context - WARM_UP + i % BLOCK_SIZE))
    engine.step()
    for i in range(num_waiting):
        engine.add(request(num_running + i, BLOCK_SIZE))
    gc.collect()
    gc.freeze()
    for _ in range(WARM_UP):
        engine.step()
    rows = [engine.step() for _ in range(num_steps)]
    gc.unfreeze()
    assert all(n == num_running for _, _, n in rows), "every request is to be in every step"
    return statistics.median(row[0] for row in rows), statistics.median(row[1] for row in rows)


def measure_prefill(engine: Any, num_requests: int = 500, length: int = 512) -> float:
    """Microseconds for each request from its making to its first and only token, hashing its blocks included."""
    engine.start(config(num_requests, num_requests * 33 + 1, max_num_batched_tokens=8192))
    specs = [request(i, length, max_tokens=1) for i in range(num_requests)]
    gc.collect()
    gc.freeze()
    start = thread_time_ns()
    for spec in specs:
        engine.add(spec)
    total = (thread_time_ns() - start) / 1e3
    while not engine.is_done():
        schedule, update, _ = engine.step()
        total += schedule + update
    gc.unfreeze()
    return total / num_requests


def num_steps_for(num_running: int) -> int:
    """Enough for a median, in little time."""
    return 160 if num_running <= 64 else 80 if num_running <= 1024 else 32


def work(name: str, sizes: list[int]) -> None:
    """A round of one side, in a process of its own; prints its figures as JSON."""
    engine = Ours() if name == "ours" else Theirs()
    measure_decode(engine, 4, 20)  # warm up the interpreter
    decode = {n: measure_decode(engine, n, num_steps_for(n)) for n in sizes}
    print(json.dumps({"decode": decode, "prefill": measure_prefill(engine)}))


def run_round(interpreter: str, name: str, sizes: list[int]) -> dict[str, Any]:
    """Call work() in another interpreter."""
    arguments = [interpreter, __file__, "--worker", name, "--sizes", ",".join(map(str, sizes))]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the round of {name!r} failed:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(vllm_python: str | None, num_rounds: int, sizes: list[int]) -> Iterator[str]:
    """The table of both sides; without vLLM of ours alone."""
    rounds: dict[str, list[dict[str, Any]]] = {"ours": [], "vllm": []}
    for i in range(num_rounds):
        rounds["ours"].append(run_round(sys.executable, "ours", sizes))
        if vllm_python:
            rounds["vllm"].append(run_round(vllm_python, "vllm", sizes))
        print(f"round {i + 1} of {num_rounds}", file=sys.stderr, flush=True)

    head = ["requests running", "schedule, µs", "update, µs", "total, µs", "a request, µs"]
    if vllm_python:
        head += ["vLLM schedule, µs", "vLLM update, µs", "vLLM total, µs", "total / vLLM total"]
    yield "| " + " | ".join(head) + " |"
    yield "|---:" * len(head) + "|"
    for n in sizes:
        cells = [*decode_medians(rounds["ours"], n)]
        cells.append(cells[2] / n)
        if vllm_python:
            cells += decode_medians(rounds["vllm"], n)
            cells.append(cells[2] / cells[6])
        yield f"| {n:,} | " + " | ".join(f"{x:,.0f}" if x >= 100 else f"{x:.3g}" for x in cells) + " |"
    yield "\nA request from its making to its first token (512 tokens, all blocks hashed, 16 requests in a step):"
    prefill = {side: statistics.median(r["prefill"] for r in found) for side, found in rounds.items() if found}
    yield ", ".join(f"{side} {value:.0f} µs" for side, value in prefill.items()) + "."


def decode_medians(rounds: list[dict[str, Any]], num_running: int) -> tuple[float, float, float]:
    """Microseconds of schedule(), of update_from_output(), and of both."""
    found = [r["decode"][str(num_running)] for r in rounds]
    schedule, update = (statistics.median(column) for column in zip(*found, strict=True))
    return schedule, update, schedule + update


def grow(num_rounds: int) -> Iterator[str]:
    """What our cost depends on, and what it must not depend on."""
    curves: dict[str, tuple[list[int], Callable[[int], tuple[Timing, int]]]] = {
        "Running requests": (
            [64, 128, 256, 512, 1024, 2048, 4096],
            lambda n: (measure_decode(engine, n, num_steps_for(n)), n),
        ),
        "Length of the waiting queue (256 running)": (
            [10, 100, 1_000, 10_000, 100_000],
            lambda n: (measure_decode(engine, 256, 80, num_waiting=n), 256),
        ),
        "Blocks in the pool (24 running)": (
            [1_000, 10_000, 100_000, 1_000_000],
            lambda n: (measure_decode(engine, 24, 80, num_blocks=n), 24),
        ),
        "Tokens of context (16 running)": (
            [500, 5_000, 20_000, 100_000],
            lambda n: (measure_decode(engine, 16, 80, context=n), 16),
        ),
    }
    engine = Ours()
    measure_decode(engine, 4, 20)
    for title, (points, measure) in curves.items():
        found: dict[int, list[float]] = {n: [] for n in points}
        for _ in range(num_rounds):
            for n in points:
                (schedule, update), num_running = measure(n)
                found[n].append((schedule + update) / num_running)
        medians = {n: statistics.median(values) for n, values in found.items()}
        yield f"| {title} | a request and step, µs | times the first row |\n|---:|---:|---:|"
        for n, value in medians.items():
            yield f"| {n:,} | {value:.2f} | {value / medians[points[0]]:.2f} |"
        yield ""
        print(title, file=sys.stderr, flush=True)


def grow_control(num_rounds: int, num_schedulers: int = 64, num_running: int = 64) -> Iterator[str]:
    """As many requests in many small schedulers that step in turn: the memory of the one, the work of the other."""
    rows = []
    for _ in range(num_rounds):
        engines = []
        for k in range(num_schedulers):
            engine = Ours()
            engine.start(config(num_running, num_running * 40 + 1))
            for i in range(num_running):
                engine.add(request(k * num_running + i, CONTEXT - WARM_UP + i % BLOCK_SIZE))
            engine.step()
            engines.append(engine)
        gc.collect()
        gc.freeze()
        steps = [sum(sum(engine.step()[:2]) for engine in engines) for _ in range(WARM_UP + 32)][WARM_UP:]
        gc.unfreeze()
        rows.append(statistics.median(steps) / num_schedulers / num_running)
    n, cost = num_schedulers * num_running, statistics.median(rows)
    yield f"Control: {n:,} requests in {num_schedulers} schedulers of {num_running}, in turn: {cost:.2f} µs a request."
    yield "What the control costs beyond the first row of the first table is not the algorithm's: the same requests in"
    yield "small schedulers pay it too, most likely for memory that no longer fits the processor's inner caches. What"
    yield "the last row costs beyond the control is not explained by this."


# --- all host work of a step -----------------------------------------------------------------------------------------

STEP_CONTEXT = 2_000
STEP_PARTS = ("schedule()", "snapshot", "update of the batch", "pack", "update_from_output()")
STEP_HEAD = """# Host cost of a step

What a step costs beside the model: `schedule()`; the snapshot, which makes the StepInput; in the runner the update of
what it remembers and the packing of the batch; `update_from_output()`. Every request decodes one token a step at a
context of about {context:,} tokens, block size {block_size}, prefix caching on, on a CPU. CPU time of the thread in
microseconds, medians over {num_rounds} rounds of the median over the steps. The last columns: all of it to
`schedule()` alone, and the bytes of the pickled StepInput, median and most (a request takes a block more every
{block_size} steps).

{facts}

Again: `python benchmarks/bench_scheduler.py --step --write`
"""


def measure_step(num_running: int, num_steps: int = 96) -> tuple[list[float], list[int]]:
    """Microseconds of each of STEP_PARTS, and the bytes of every pickled StepInput."""
    import torch

    from mini_vllm.engine.runner_view import RunnerView
    from mini_vllm.worker.input_batch import InputBatch

    engine = Ours()
    blocks_each = -(-(STEP_CONTEXT + 200) // BLOCK_SIZE)
    engine.start(config(num_running, num_running * blocks_each + 1, STEP_CONTEXT))
    for i in range(num_running):
        engine.add(request(i, STEP_CONTEXT - i % BLOCK_SIZE))
    scheduler, batch = engine.scheduler, InputBatch(BLOCK_SIZE, torch.device("cpu"))
    runner = RunnerView(scheduler)
    times: list[list[int]] = []
    sizes: list[int] = []
    for number in range(WARM_UP + num_steps):
        if number == WARM_UP:
            gc.collect()
            gc.freeze()
        t0 = thread_time_ns()
        output = scheduler.schedule()
        t1 = thread_time_ns()
        step = runner.make_step_input(output, scheduler.kv_cache_manager.begin_step())
        t2 = thread_time_ns()
        batch.update(step)
        t3 = thread_time_ns()
        batch.pack(step)
        t4 = thread_time_ns()
        sampled = {request_id: [7] for request_id in step.sample_req_ids}
        t5 = thread_time_ns()
        scheduler.update_from_output(output, sampled)
        t6 = thread_time_ns()
        if number >= WARM_UP:
            times.append([t1 - t0, t2 - t1, t3 - t2, t4 - t3, t6 - t5])
            sizes.append(len(ForkingPickler.dumps(step)))
    gc.unfreeze()
    return [statistics.median(column) / 1e3 for column in zip(*times, strict=True)], sizes


def step_page(num_rounds: int) -> Iterator[str]:
    """The result page of --step."""
    facts = f"{datetime.date.today()}; {machine()}; Python {platform.python_version()}"
    yield STEP_HEAD.format(context=STEP_CONTEXT, block_size=BLOCK_SIZE, num_rounds=num_rounds, facts=facts)
    yield "| running | " + " | ".join(STEP_PARTS) + " | all | µs a request | all / schedule() | bytes | most |"
    yield "|---:" * (len(STEP_PARTS) + 6) + "|"
    sizes = (64, 256, 1024, 4096)
    rounds: dict[int, list[tuple[list[float], list[int]]]] = {n: [] for n in sizes}
    for _ in range(num_rounds):
        for n in sizes:
            rounds[n].append(measure_step(n))
    for n, found in rounds.items():
        parts = [statistics.median(column) for column in zip(*(times for times, _ in found), strict=True)]
        ratio = statistics.median(sum(times) / times[0] for times, _ in found)
        num_bytes = found[0][1]
        cells = [f"{x:,.0f}" for x in (*parts, sum(parts))] + [f"{sum(parts) / n:.2f}", f"{ratio:.2f}"]
        yield f"| {n:,} | " + " | ".join([*cells, f"{statistics.median(num_bytes):,.0f}", f"{max(num_bytes):,}"]) + " |"


def machine() -> str:
    """What the figures depend on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    return f"{model}, {os.cpu_count()} cores, load average at the start {load}"


def vllm_version(interpreter: str) -> str:
    """Name and version of the other side."""
    code = (
        "import importlib.metadata as m, platform as p; print('vLLM', m.version('vllm'), 'Python', p.python_version())"
    )
    return subprocess.run([interpreter, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


HEAD = """# Host cost of the scheduler

`schedule()` + `update_from_output()` without a model: every request decodes one token a step at a context of about
{context} tokens, block size {block_size}, prefix caching on. CPU time of the thread, since the machine may be shared;
medians over {num_rounds} rounds. Where there are two sides, they run in turn in processes of their own; on both the
requests are taken out of garbage collection before the steps that count (`gc.freeze()`); vLLM has
`async_scheduling=False`.

{facts}

Again: `python benchmarks/bench_scheduler.py --vllm-python VENV/bin/python --write`
"""

CARRIES = """
## Reading it

The two sides do not do the same work. vLLM's scheduler carries, and pays for in every step, what mini_vllm does not
have: KV connectors and offloading, speculative decoding, encoder inputs of multimodal models, LoRA, hybrid KV cache
groups (sliding window, Mamba) behind a coordinator, structured output, pipeline parallelism and asynchronous
scheduling with tokens in flight, KV events, statistics and logging, the message to workers in other processes
(SchedulerOutput: what changed of every request) and the outputs for a client (EngineCoreOutputs). The decisions are
the same and the task is smaller; that is all the ratio says. On a GPU either cost is usually hidden behind the model.

## How it grows
"""


def page(vllm_python: str | None, num_rounds: int, sizes: list[int]) -> Iterator[str]:
    """The result page."""
    facts = f"{datetime.date.today()}; {machine()}; Python {platform.python_version()}"
    if vllm_python:
        facts += f"; {vllm_version(vllm_python)}"
    yield HEAD.format(context=CONTEXT, block_size=BLOCK_SIZE, num_rounds=num_rounds, facts=facts)
    yield "## Beside vLLM\n" if vllm_python else "## Alone (no --vllm-python was given)\n"
    yield from compare(vllm_python, num_rounds, sizes)
    yield CARRIES
    yield from grow(num_rounds)
    yield from grow_control(num_rounds)


def main() -> int:
    """Parse the command line; print the page, and write it if asked to."""
    parser = argparse.ArgumentParser(description="Host cost of scheduling (see the head of this file).")
    parser.add_argument("--vllm-python", metavar="PATH", help="the interpreter of an environment with vLLM 0.33.0")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", default=",".join(map(str, NUM_RUNNING)), help="numbers of running requests")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/scheduler.md")
    parser.add_argument("--worker", choices=("ours", "vllm"), help=argparse.SUPPRESS)
    parser.add_argument("--step", action="store_true", help="measure all host work of a step instead")
    args = parser.parse_args()
    sizes = [int(n) for n in args.sizes.split(",")]
    if args.worker:
        work(args.worker, sizes)
        return 0
    lines = []
    result = STEP_RESULT if args.step else RESULT
    for line in step_page(args.rounds) if args.step else page(args.vllm_python, args.rounds, sizes):
        print(line, flush=True)
        lines.append(line)
    if args.write:
        result.parent.mkdir(exist_ok=True)
        result.write_text("\n".join(lines).rstrip() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
