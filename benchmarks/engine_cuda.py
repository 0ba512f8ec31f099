"""The GPU side of bench_engine.py: output tokens per second of mini_vllm beside transformers' continuous batching.

    python benchmarks/bench_engine.py --device cuda [--rounds 2] [--temperature 0] [--results DIR]

The work is nano-vllm's: 256 requests, prompts and outputs of 100 to 1,024 tokens, uniform, seed 0 (nano-vllm samples at
temperature 0.6, here greedy is the default), over a checkpoint with Qwen3-0.6B's shape and random weights, bfloat16.
Engines take turns, each turn a process of its own: load, a short warm-up, a quarter of the requests, then all of them.
Where transformers would take too long for all, the quarter is what is compared. Beside the figures: how long the
weights and the KV of every step take to read at the bandwidth of a copy, and where a step's time goes. The GPU's work
is taken from a profile, the length of a step from steps without one: what is left is the GPU waiting for the host.
"""

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import engine_common
from engine_common import ROOT, Request, Turn

LIMITS = {"max_num_seqs": 256, "max_num_batched_tokens": 16_384}
MAX_MODEL_LEN = 4096
BUDGET = 440.0  # seconds of the whole run; what does not fit any more is left out
QUARTER_SECONDS = 25.0  # of transformers for a quarter; if it takes longer, all would take too long
TIMEOUTS = {"yardsticks": 90.0, "mini_vllm": 150.0, "transformers": 230.0, "profile": 120.0}
NUM_DECODE_STEPS = 20
KERNELS = {  # group: pattern of the kernels' names; the first that fits
    "attention": r"^(attention|merge|attend_row)_kernel",
    "rotation and cache write": r"write_kv",
    "norms, SiLU": r"rms_norm|silu_mul",
    "matrix products": r"gemm|gemv|nvjet|cutlass|xmma|splitk|cublas|dot_kernel",
    "copies": r"^Mem(cpy|set)",
    "maximum of the logits": r"reduce_kernel|argmax|max",
    "look-ups": r"index|gather|embedding",
}


# --- the work ---------------------------------------------------------------------------------------------------------


def workload(args: argparse.Namespace) -> list[Request]:
    """nano-vllm's, drawn in its order: all prompts, then all output lengths. A dry run has a few short requests."""
    rng = Random(0)
    low, high, most = (100, 1024, 10_000) if not args.dry_run else (5, 30, 1000)
    prompts = [[rng.randint(0, most) for _ in range(rng.randint(low, high))] for _ in range(args.requests)]
    return [(prompt, rng.randint(low, high)) for prompt in prompts]


def quarter(requests: list[Request]) -> list[Request]:
    return requests[: max(1, len(requests) // 4)]


def limits(args: argparse.Namespace) -> dict[str, int]:
    return LIMITS if not args.dry_run else LIMITS | {"max_num_batched_tokens": 32}


class Shape(NamedTuple):
    """A checkpoint in the numbers that its speed depends on."""

    layer_weights: int  # numbers in the matrices of all layers
    head_weights: int
    kv_numbers: int  # of one token, in all layers

    @classmethod
    def read(cls, checkpoint: Path) -> "Shape":
        config = json.loads((checkpoint / "config.json").read_text())
        hidden, layers, head_dim = config["hidden_size"], config["num_hidden_layers"], config["head_dim"]
        heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        layer = hidden * head_dim * (2 * heads + 2 * kv_heads) + 3 * hidden * config["intermediate_size"]
        return cls(layers * layer, config["vocab_size"] * hidden, 2 * layers * kv_heads * head_dim)


# --- the workers: each runs in a process of its own and yields what it knows so far -----------------------------------


def measure_yardsticks(args: argparse.Namespace) -> Iterator[Turn]:
    from device import Device

    device = Device("cpu" if args.dry_run else "cuda")
    yardsticks = device.yardsticks()
    yield {"copy": yardsticks.copy, "matmul": yardsticks.matmul, "device": device.describe()}


def make_engine(args: argparse.Namespace) -> Any:
    from mini_vllm import EngineConfig, LLMEngine

    return LLMEngine(
        EngineConfig(
            str(args.checkpoint),
            dtype="bfloat16",
            device="cpu" if args.dry_run else "cuda",
            block_size=args.block_size,
            num_kv_blocks=256 if args.dry_run else None,
            max_model_len=MAX_MODEL_LEN if not args.dry_run else 128,
            enable_prefix_caching=False,
            **limits(args),
        )
    )


def warm_up(args: argparse.Namespace) -> list[Request]:
    """A quarter of the prompts, few tokens each: every kernel is compiled, for every alignment of its arguments."""
    return [(prompt, 4 + i % 16) for i, (prompt, _) in enumerate(quarter(workload(args)))]


def run_turn(
    args: argparse.Namespace, run: Callable[[list[Request]], int], works: list[list[Request]]
) -> Iterator[Turn]:
    """Time each work in order; a report after each, so that what is done is known should the next take too long."""
    package = "transformers" if args.worker == "transformers" else "mini_vllm"
    turn: Turn = {"version": engine_common.find_version(package), "seconds": {}}
    for requests in works:
        start = time.perf_counter()
        count = run(requests)
        elapsed = time.perf_counter() - start
        expected = sum(num_output for _, num_output in requests)
        if count != expected:
            raise RuntimeError(f"{args.worker} made {count} tokens, expected {expected}")
        turn["seconds"].setdefault(str(len(requests)), []).append(elapsed)
        yield turn
        if args.worker == "transformers" and elapsed > QUARTER_SECONDS:
            return


def turn_of_mini_vllm(args: argparse.Namespace) -> Iterator[Turn]:
    engine = make_engine(args)
    run = partial(engine_common.run_mini_vllm, engine, temperature=args.temperature)
    run(warm_up(args))
    requests = workload(args)
    for turn in run_turn(args, run, [quarter(requests), requests, requests]):
        backend = engine.executor.runner.attention_backend.name
        yield turn | {"num_blocks": engine.kv_cache_plan.num_blocks, "plan": str(engine.kv_cache_plan), "note": backend}


def turn_of_transformers(args: argparse.Namespace) -> Iterator[Turn]:
    """Continuous batching, attention "paged|sdpa", everything else as it chooses; no prefix sharing, as for ours."""
    import torch
    from transformers import ContinuousBatchingConfig

    model, make_config = engine_common.load_transformers(args, "paged|sdpa")
    model.to("cpu" if args.dry_run else "cuda")
    config = make_config(1024)
    if args.temperature:
        config.do_sample, config.temperature = True, args.temperature
    few = {"num_blocks": 16, "max_batch_tokens": 64} if args.dry_run else {}
    pages = ContinuousBatchingConfig(allow_block_sharing=False, **few)
    run = torch.inference_mode()(partial(engine_common.run_continuous, model, config, pages))
    run(warm_up(args)[:8])
    requests = workload(args)
    for turn in run_turn(args, run, [quarter(requests), requests]):
        yield turn | {"note": "paged sdpa"}


# --- where a step's time goes -----------------------------------------------------------------------------------------


def profile(args: argparse.Namespace) -> Iterator[Turn]:
    """Prefill steps and decode steps of the whole work, some timed without a profiler, the others profiled."""
    engine = make_engine(args)
    engine_common.run_mini_vllm(engine, warm_up(args), args.temperature)
    profile_steps(args, lambda: None, 1)  # the first profile of a process takes seconds
    requests = workload(args)
    add_requests(engine, requests, args.temperature)
    prompt_tokens, budget = sum(len(prompt) for prompt, _ in requests), limits(args)["max_num_batched_tokens"]
    num_prefills = prompt_tokens // budget  # so many steps at least are filled with prompt tokens
    half = max(1, num_prefills // 2)
    phases: dict[str, Turn] = {"prefill": measure_phase(args, engine, half)}
    for _ in range(num_prefills - 2 * half + 4):  # the rest of the prompts, and some more to be sure
        engine.step()
    phases["decode"] = measure_phase(args, engine, NUM_DECODE_STEPS if not args.dry_run else 1)
    yield {"phases": phases}


def add_requests(engine: Any, requests: list[Request], temperature: float) -> None:
    from mini_vllm import SamplingParams

    for i, (prompt, num_output) in enumerate(requests):
        params = SamplingParams(temperature=temperature, max_tokens=num_output, ignore_eos=True)
        engine.add_request(str(i), prompt, params)


def measure_phase(args: argparse.Namespace, engine: Any, num_steps: int) -> Turn:
    """Seconds of so many steps, then the GPU's work in so many more."""
    times = []
    for _ in range(num_steps):
        start = time.perf_counter()
        engine.step()  # it ends with the sampled tokens on the host, so nothing is left on its way
        times.append(time.perf_counter() - start)
    return {"num_requests": len(engine.scheduler.running), "step_s": statistics.median(times)} | profile_steps(
        args, engine.step, num_steps
    )


def profile_steps(args: argparse.Namespace, step: Callable[[], object], num_steps: int) -> Turn:
    """GPU seconds a step: busy, by group of kernels, and of the longest kernels by name."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as torch_profile

    activity = ProfilerActivity.CPU if args.dry_run else ProfilerActivity.CUDA
    with torch_profile(activities=[activity]) as recorded:
        for _ in range(num_steps):
            step()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        recorded.export_chrome_trace(str(file))
        events = json.loads(file.read_text())["traceEvents"]
    categories = ("cpu_op",) if args.dry_run else ("kernel", "gpu_memcpy", "gpu_memset")
    work = [event for event in events if event.get("cat") in categories]
    by_name: Counter[str] = Counter()
    for event in work:
        by_name[event["name"]] += event["dur"] / 1e6 / num_steps
    groups: Counter[str] = Counter()
    for name, seconds in by_name.items():
        groups[group_of(name)] += seconds
    busy = union([(event["ts"], event["ts"] + event["dur"]) for event in work]) / 1e6 / num_steps
    return {
        "busy_s": busy,
        "launches": len(work) / num_steps,
        "groups": dict(groups.most_common()),
        "longest": by_name.most_common(12),
    }


def group_of(kernel: str) -> str:
    return next((group for group, pattern in KERNELS.items() if re.search(pattern, kernel, re.IGNORECASE)), "other")


def union(spans: list[tuple[float, float]]) -> float:
    """The length of what the spans cover together."""
    covered, end = 0.0, float("-inf")
    for start, stop in sorted(spans):
        covered += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return covered


WORKERS: dict[str, Callable[[argparse.Namespace], Iterator[Turn]]] = {
    "yardsticks": measure_yardsticks,
    "mini_vllm": turn_of_mini_vllm,
    "transformers": turn_of_transformers,
    "profile": profile,
}


# --- the run ----------------------------------------------------------------------------------------------------------


def in_process(args: argparse.Namespace, worker: str, deadline: float) -> Turn | None:
    """The last report of a worker that runs in a process of its own; None if there was none, and why is printed."""
    timeout = min(TIMEOUTS[worker], deadline - time.perf_counter())
    if timeout < 20:
        print(f"{worker}: left out, no time is left", flush=True)
        return None
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    command = [
        sys.executable, str(ROOT / "benchmarks" / "bench_engine.py"), "--device", "cuda", "--worker", worker,
        "--checkpoint", str(args.checkpoint), "--requests", str(args.requests), "--block-size", str(args.block_size),
        "--temperature", str(args.temperature), *(["--dry-run"] if args.dry_run else []),
    ]  # fmt: skip
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        start = time.perf_counter()
        try:
            subprocess.run(command, env=environment, stdout=output, stderr=errors, timeout=timeout, check=True)
        except subprocess.TimeoutExpired:
            print(f"{worker}: stopped after {timeout:.0f} s", flush=True)
        except subprocess.CalledProcessError as error:
            errors.seek(0)
            print(f"{worker}: exit status {error.returncode}\n{errors.read()[-3000:]}", flush=True)
        print(f"{worker}: {time.perf_counter() - start:.0f} s", flush=True)
        output.seek(0)
        reports = [line for line in output if line.startswith('{"')]
    return json.loads(reports[-1]) if reports else None


def work(args: argparse.Namespace) -> None:
    """The child: one worker, each report as JSON on a line."""
    sys.path.insert(0, str(ROOT))
    for report in WORKERS[args.worker](args):
        print("\n" + json.dumps(report), flush=True)


def measure_all(args: argparse.Namespace, deadline: float) -> Turn:
    """All turns; the profile is taken after the first round, in case time runs out."""
    report: Turn = {"yardsticks": in_process(args, "yardsticks", deadline), "mini_vllm": [], "transformers": []}
    for number in range(args.rounds):
        for engine in ("mini_vllm", "transformers"):
            turn = in_process(args, engine, deadline)
            if turn:
                report[engine].append(turn)
                print(f"round {number + 1}: {engine}: {rates_of(args, turn)}", flush=True)
        if not number:
            report["profile"] = in_process(args, "profile", deadline)
    return report


def rates_of(args: argparse.Namespace, turn: Turn) -> str:
    tokens = output_tokens(args)
    return "; ".join(
        f"{n} requests: {', '.join(f'{tokens[n] / s:,.0f}' for s in seconds)} tok/s"
        for n, seconds in turn["seconds"].items()
    )


def output_tokens(args: argparse.Namespace) -> dict[str, int]:
    """By number of requests, for the two sizes of the work."""
    requests = workload(args)
    return {str(len(part)): sum(num_output for _, num_output in part) for part in (quarter(requests), requests)}


# --- the report -------------------------------------------------------------------------------------------------------


def write_report(args: argparse.Namespace, report: Turn, minutes: float) -> str:
    requests = workload(args)
    prompt_tokens, num_output = sum(len(prompt) for prompt, _ in requests), output_tokens(args)[str(len(requests))]
    device = report["yardsticks"]["device"] if report["yardsticks"] else f"Python {platform.python_version()}"
    model = "the bundled model (dry run)" if args.dry_run else "Qwen3-0.6B's shape with random weights"
    lines = [
        "# Engine throughput on a GPU",
        "",
        f"{date.today()}, {device}. {len(requests)} requests, {prompt_tokens:,} prompt and {num_output:,} output "
        f"tokens (nano-vllm's work), temperature {args.temperature:g}; {model}, bfloat16; at most "
        f"{LIMITS['max_num_seqs']} requests and {limits(args)['max_num_batched_tokens']:,} tokens a step; "
        f"blocks of {args.block_size} tokens. {args.rounds} rounds, each turn a process of its own. Run time "
        f"{minutes:.0f} minutes.",
        "",
        f"    python benchmarks/bench_engine.py {' '.join(sys.argv[1:])}",
        "",
        *engine_table(args, report),
    ]
    if report["yardsticks"]:
        lines += ["", *roofline(args, report)]
    for name, phase in (report.get("profile") or {"phases": {}})["phases"].items():
        lines += ["", *phase_lines(name, phase)]
    return "\n".join(lines) + "\n"


def engine_table(args: argparse.Namespace, report: Turn) -> list[str]:
    lines = [
        "| engine | requests | output, tok/s | range, tok/s | times transformers, same requests |",
        "|---|---|---|---|---|",
    ]
    for count, tokens in output_tokens(args).items():
        base = seconds_of(report["transformers"], count)
        for name in ("mini_vllm", "transformers"):
            seconds = seconds_of(report[name], count)
            if not seconds:
                lines.append(f"| {name} | {count} | not measured | | |")
                continue
            turn, rate = report[name][0], tokens / statistics.median(seconds)
            spread = f"{tokens / max(seconds):,.0f} to {tokens / min(seconds):,.0f}"
            ratio = f"{statistics.median(base) / statistics.median(seconds):.2f}" if base else "n/a"
            lines.append(f"| {name} ({turn['version']}, {turn['note']}) | {count} | {rate:,.0f} | {spread} | {ratio} |")
    return lines


def seconds_of(turns: list[Turn], count: str) -> list[float]:
    return [seconds for turn in turns for seconds in turn["seconds"].get(count, [])]


def roofline(args: argparse.Namespace, report: Turn) -> list[str]:
    """What the steps of the scheduler must read and multiply, at the rates of the yardsticks."""
    shape, requests, yardsticks = Shape.read(args.checkpoint), workload(args), report["yardsticks"]
    seconds = seconds_of(report["mini_vllm"], str(len(requests)))
    if not seconds:
        return []
    weight_bytes = 2 * (shape.layer_weights + shape.head_weights)
    memory = matmul = floor = 0.0
    num_steps = 0
    steps = engine_common.replay(requests, report["mini_vllm"][0]["num_blocks"], args.block_size, **limits(args))
    for num_tokens, num_samples, context in steps:
        read = (weight_bytes + 2 * shape.kv_numbers * context) / yardsticks["copy"]
        operations = 2 * (num_tokens * shape.layer_weights + num_samples * shape.head_weights)
        multiply = operations / yardsticks["matmul"]
        memory, matmul, floor = memory + read, matmul + multiply, floor + max(read, multiply)
        num_steps += 1
    wall = statistics.median(seconds)
    return [
        f"{report['mini_vllm'][0]['plan']}.",
        "",
        f"All requests took mini_vllm {wall:.2f} s in {num_steps:,} steps, {wall / num_steps * 1e3:.2f} ms each. "
        f"Reading weights and KV once a step takes {memory:.2f} s at the copy's {yardsticks['copy'] / 1e9:,.0f} GB/s: "
        f"{memory / wall:.0%} of the memory roofline. The matrix products take {matmul:.2f} s at "
        f"{yardsticks['matmul'] / 1e12:,.0f} TFLOP/s; the larger of the two in every step, {floor:.2f} s "
        f"({floor / wall:.0%}).",
    ]


def phase_lines(name: str, phase: Turn) -> list[str]:
    step, busy = phase["step_s"], phase["busy_s"]
    lines = [
        f"A {name} step ({phase['num_requests']} requests) takes {step * 1e3:.2f} ms. The GPU works "
        f"{busy * 1e3:.2f} ms of it, on {phase['launches']:.0f} kernels and copies, and waits for the host "
        f"{max(0.0, 1 - busy / step):.0%} of the time.",
        "",
        "| GPU time by group | ms a step | share of the GPU's work |",
        "|---|---|---|",
    ]
    total = sum(phase["groups"].values()) or 1.0
    lines += [f"| {group} | {s * 1e3:.3f} | {s / total:.1%} |" for group, s in phase["groups"].items()]
    lines += ["", "The longest kernels, ms a step:", ""]
    return lines + [f"- {seconds * 1e3:.3f} `{kernel[:100]}`" for kernel, seconds in phase["longest"]]


def main(args: argparse.Namespace) -> None:
    """The parent: turns, report. A dry run: the bundled model on the CPU, a few short requests, a temporary folder."""
    if args.dry_run:
        args.checkpoint, args.requests = ROOT / "mini_vllm" / "models" / "tiny", 8
        args.results = Path(tempfile.mkdtemp())
    if args.worker:
        return work(args)
    start = time.perf_counter()
    if not args.dry_run:
        engine_common.make_checkpoint(args.checkpoint)
        print(f"checkpoint: {time.perf_counter() - start:.0f} s", flush=True)
    report = measure_all(args, start + BUDGET)
    text = write_report(args, report, (time.perf_counter() - start) / 60)
    print("\n" + text)
    args.results.mkdir(parents=True, exist_ok=True)
    (args.results / "engine_cuda.md").write_text(text)
    print(f"written: {args.results / 'engine_cuda.md'}")
    return None
