"""Output tokens per second of mini_vllm, beside transformers and vLLM in the same run.

    python benchmarks/bench_engine.py [--quick] [--vllm-python PATH]
    python benchmarks/bench_engine.py --spread 20 --pause 60 [--vllm-python PATH]
    python benchmarks/bench_engine.py --device cuda [--temperature 0] [--results DIR]

The GPU side is told in engine_cuda.py. On a CPU the work is the same for all: 32 requests, 5,089 prompt and 1,767
output tokens, greedy, over a checkpoint with Qwen3-0.6B's exact shape and random weights (written to --checkpoint
once), bfloat16. Engines take turns, each turn a process of its own: load, a short warm-up, timed repetitions. Ratios of
such turns mean something on a busy machine; the absolute figures only on a quiet one. Then: what the hardware would
allow (memory and matrix-product floors), where the time goes, and prefills and decodes by themselves (engine_rows.py).
Writes results/engine.md.

--spread asks how far a figure varies from process to process: it measures one row in so many processes, with a pause
before each, beside the bandwidth of the machine's memory, and writes results/engine_spread.md.
"""

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import engine_llama
import engine_rows
from engine_common import (
    HEAD_DIM,
    HEADS,
    HIDDEN,
    INTERMEDIATE,
    KV_HEADS,
    LAYERS,
    ROOT,
    VOCAB_SIZE,
    Request,
    Turn,
    find_version,
    load_transformers,
    make_checkpoint,
    replay,
    run_continuous,
    run_mini_vllm,
)

RESULTS = ROOT / "benchmarks" / "results"
MAX_BATCHED_TOKENS, MAX_SEQS, MAX_MODEL_LEN = 1024, 32, 512
LINEARS = {  # one layer's matrix products: (in, out)
    "qkv": (HIDDEN, (HEADS + 2 * KV_HEADS) * HEAD_DIM),
    "o": (HEADS * HEAD_DIM, HIDDEN),
    "gate_up": (HIDDEN, 2 * INTERMEDIATE),
    "down": (INTERMEDIATE, HIDDEN),
}
BATCH_SIZES = (1, 4, 16, 32, 64, 128, 256, 512, 1024)


# --- the work ---------------------------------------------------------------------------------------------------------


def workload(num_requests: int = 32, seed: int = 0) -> list[Request]:
    """Prompts of 32 to 256 random tokens, outputs of 16 to 96."""
    rng = random.Random(seed)
    requests = []
    for _ in range(num_requests):
        prompt_len, output_len = rng.randint(32, 256), rng.randint(16, 96)
        requests.append(([rng.randrange(10, VOCAB_SIZE - 1000) for _ in range(prompt_len)], output_len))
    return requests


def warm_up() -> list[Request]:
    return [(prompt[:20], 3) for prompt, _ in workload(4)]


# --- the engines: each loads, and returns a function that does the work and counts the output tokens ------------------


def load_mini_vllm(args: argparse.Namespace) -> Callable[[list[Request]], int]:
    engine = make_engine(args)
    return partial(run_mini_vllm, engine)


def make_engine(args: argparse.Namespace, max_seqs: int = MAX_SEQS, num_slots: int = 16_384) -> Any:
    from mini_vllm import EngineConfig, LLMEngine

    return LLMEngine(
        EngineConfig(
            str(args.checkpoint),
            dtype="bfloat16",
            device="cpu",
            block_size=args.block_size,
            num_kv_blocks=num_slots // args.block_size + 1,
            max_num_seqs=max_seqs,
            max_num_batched_tokens=MAX_BATCHED_TOKENS,
            enable_prefix_caching=False,
        )
    )


def load_transformers_static(args: argparse.Namespace) -> Callable[[list[Request]], int]:
    """generate() over batches of 16, sorted by prompt length and padded; a batch runs until its longest output."""
    import torch

    model, config = load_transformers(args, "sdpa")

    def run(requests: list[Request]) -> int:
        by_length = sorted(requests, key=lambda request: len(request[0]))
        for first in range(0, len(by_length), 16):
            batch = by_length[first : first + 16]
            width = len(batch[-1][0])
            ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt, _ in batch])
            mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt, _ in batch])
            num_output = max(num_output for _, num_output in batch)
            model.generate(ids, attention_mask=mask, generation_config=config(num_output))
        return sum(num_output for _, num_output in requests)

    return torch.inference_mode()(run)


def load_transformers_continuous(args: argparse.Namespace) -> Callable[[list[Request]], int]:
    """transformers' continuous batching over a paged cache, attention "paged|sdpa"."""
    import torch
    from transformers import ContinuousBatchingConfig

    model, config = load_transformers(args, "paged|sdpa")
    pages = ContinuousBatchingConfig(
        num_blocks=64, page_size=256, max_batch_tokens=MAX_BATCHED_TOKENS, allow_block_sharing=False
    )

    return torch.inference_mode()(partial(run_continuous, model, config(96), pages))


def load_vllm(args: argparse.Namespace) -> Callable[[list[Request]], int]:
    """vLLM in this process, eager, without prefix caching."""
    os.environ |= {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_OMP_THREADS_BIND": f"0-{args.threads - 1}", "VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1",
        "DO_NOT_TRACK": "1",
    }  # fmt: skip
    from vllm import LLM, SamplingParams

    llm = LLM(
        model=str(args.checkpoint),
        dtype="bfloat16",
        skip_tokenizer_init=True,
        max_model_len=MAX_MODEL_LEN,
        max_num_seqs=MAX_SEQS,
        max_num_batched_tokens=MAX_BATCHED_TOKENS,
        enforce_eager=True,
        enable_prefix_caching=False,
    )

    def run(requests: list[Request]) -> int:
        prompts: Any = [{"prompt_token_ids": prompt} for prompt, _ in requests]
        params = [SamplingParams(temperature=0, max_tokens=n, ignore_eos=True, detokenize=False) for _, n in requests]
        outputs = llm.generate(prompts, params, use_tqdm=False)
        return sum(len(output.outputs[0].token_ids) for output in outputs)

    return run


STATIC, CONTINUOUS = "transformers generate, batches of 16", "transformers continuous batching"
ENGINES: dict[str, Callable[[argparse.Namespace], Callable[[list[Request]], int]]] = {
    "mini_vllm": load_mini_vllm,
    CONTINUOUS: load_transformers_continuous,
    STATIC: load_transformers_static,
    "vLLM": load_vllm,
}


def take_turn(args: argparse.Namespace) -> Turn:
    """One engine in this process: load, warm up, then the work `reps` times."""
    start = time.perf_counter()
    run = ENGINES[args.worker](args)
    run(warm_up())
    turn: Turn = {"load_s": time.perf_counter() - start, "runs": [], "version": find_version(args.worker)}
    requests = workload(args.requests)
    for _ in range(args.reps):
        wall, cpu = time.perf_counter(), time.process_time()
        count = run(requests)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        expected = sum(num_output for _, num_output in requests)
        if count != expected:
            raise RuntimeError(f"{args.worker} made {count} tokens, expected {expected}")
        turn["runs"].append({"wall_s": wall, "cpu_s": cpu, "tokens": count})
    return turn


# --- floors: what the hardware would allow ----------------------------------------------------------------------------


def measure_floors(args: argparse.Namespace) -> Turn:
    """Seconds that the work cannot undercut: reading weights and KV once a step, and the bare matrix products."""
    import torch

    from mini_vllm.models.layers.linear import linear, pack_weight

    with torch.inference_mode():
        data = torch.ones(1 << 28)  # 1 GiB, far beyond any cache
        bandwidth = data.numel() * 4 / fastest(data.sum, 5)
        del data
        seconds: dict[str, list[float]] = {}
        for name, (size_in, size_out) in LINEARS.items():
            copies = max(1, (256 << 20) // (2 * size_in * size_out))  # so that none is in a cache when its turn comes
            packed = [pack_weight(torch.randn(size_out, size_in).bfloat16()) for _ in range(copies)]
            seconds[name] = [time_products(linear, packed, rows) for rows in BATCH_SIZES]
        head = [pack_weight(torch.randn(VOCAB_SIZE, HIDDEN).bfloat16())]
        seconds["lm_head"] = [time_products(linear, head, rows) for rows in BATCH_SIZES[:5]]
    layer = [sum(seconds[name][i] for name in LINEARS) for i in range(len(BATCH_SIZES))]
    weight_bytes = 2 * (LAYERS * sum(a * b for a, b in LINEARS.values()) + VOCAB_SIZE * HIDDEN)
    kv_bytes = 2 * 2 * LAYERS * KV_HEADS * HEAD_DIM
    memory = matmul = 0.0
    limits = {"max_num_seqs": MAX_SEQS, "max_num_batched_tokens": MAX_BATCHED_TOKENS}
    for num_tokens, num_samples, context in replay(
        workload(args.requests), 16_384 // args.block_size + 1, args.block_size, **limits
    ):
        memory += (weight_bytes + kv_bytes * context) / bandwidth
        matmul += LAYERS * interpolate(layer, num_tokens) + interpolate(seconds["lm_head"], num_samples)
    flops = 2 * LAYERS * sum(a * b for a, b in LINEARS.values())
    rates = {rows: flops * rows / LAYERS / layer[i] / 1e9 for i, rows in enumerate(BATCH_SIZES)}
    return {"bandwidth": bandwidth / 1e9, "gflops": rates, "memory_s": memory, "matmul_s": matmul}


def measure_memory(args: argparse.Namespace) -> Turn:
    """GB a second that a process reads, in as many repetitions as a row of --spread has."""
    import torch

    import mini_vllm.models.layers.linear  # noqa: F401  asks for large pages, as the engine does

    data = torch.ones(1 << 28)
    data.sum()
    rates = []
    for _ in range(SPREAD_REPS):
        start = time.perf_counter()
        data.sum()
        rates.append(data.numel() * 4 / (time.perf_counter() - start) / 1e9)
    return {"rates": {MEMORY: statistics.median(rates)}}


def time_products(linear: Callable[..., Any], weights: list[Any], rows: int) -> float:
    import torch

    x = torch.randn(rows, weights[0].shape[1]).bfloat16()
    return fastest(lambda: [linear(x, weight) for weight in weights], 3) / len(weights)


def fastest(run: Callable[[], object], repeats: int) -> float:
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def interpolate(seconds: list[float], rows: int) -> float:
    """Seconds for a number of rows between (or beyond) the measured BATCH_SIZES."""
    if rows == 0:
        return 0.0
    sizes = BATCH_SIZES[: len(seconds)]
    i = next((i for i, size in enumerate(sizes) if size >= rows), len(sizes) - 1)
    if i == 0 or sizes[i] <= rows:
        return seconds[i] * max(1.0, rows / sizes[i])
    share = (rows - sizes[i - 1]) / (sizes[i] - sizes[i - 1])
    return seconds[i - 1] + share * (seconds[i] - seconds[i - 1])


# --- where the time goes ----------------------------------------------------------------------------------------------


class Stopwatch:
    """Wall seconds per part. A part inside another is taken out of the outer one, so the parts add up."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._inner = [0.0]

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        self._inner.append(0.0)
        yield
        elapsed = time.perf_counter() - start
        self.seconds[name] += elapsed - self._inner.pop()
        self._inner[-1] += elapsed

    def wrap(self, owner: Any, method: str, name: str) -> None:
        inner = getattr(owner, method)

        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.part(name):
                return inner(*args, **kwargs)

        setattr(owner, method, timed)


def profile(args: argparse.Namespace) -> Turn:
    """Seconds per part of one run of the work, then what the engine adds to a step around the runner."""
    engine = make_engine(args)
    run_mini_vllm(engine, warm_up())
    watch, model, runner = Stopwatch(), engine.executor.runner.model, engine.executor.runner
    for layer in model.layers:
        for norm in (layer.input_layernorm, layer.post_attention_layernorm):
            watch.wrap(norm, "forward", "norms")
            watch.wrap(norm, "add", "norms")
        watch.wrap(layer.self_attn, "forward", "q/k norm")
        watch.wrap(layer.self_attn.qkv_proj, "forward", "qkv")
        watch.wrap(layer.self_attn.o_proj, "forward", "o and MLP")
        watch.wrap(layer.mlp, "forward", "o and MLP")
    watch.wrap(runner.attention_backend, "rotate_and_write_kv", "attention: rotate and write")
    watch.wrap(runner.attention_backend, "write_kv", "attention: rotate and write")
    watch.wrap(runner.attention_backend, "attend", "attention: attend")
    watch.wrap(model, "compute_logits", "lm_head")
    watch.wrap(model, "forward", "embedding, last norm, angles")
    watch.wrap(runner.sampler, "launch", "sampling")
    watch.wrap(runner.sampler, "collect", "sampling")
    watch.wrap(runner, "execute", "packing")
    watch.wrap(engine, "step", "host: scheduler, snapshot, outputs")
    start = time.perf_counter()
    run_mini_vllm(engine, workload(args.requests))
    return {"wall_s": time.perf_counter() - start, "parts": dict(watch.seconds)}


def measure_host(args: argparse.Namespace) -> Turn:
    """Milliseconds of engine.step() at 32 and 256 decodes when the model takes no time at all."""
    from mini_vllm import SamplingParams
    from mini_vllm.step import SampledToken, StepOutput

    engine = make_engine(args, max_seqs=256, num_slots=256 * 128)
    engine.executor.runner.execute = lambda step: StepOutput(
        {request_id: [SampledToken(7, None)] for request_id in step.sample_req_ids}
    )
    milliseconds = {}
    for num_requests in (32, 256):
        for i in range(num_requests):
            engine.add_request(str(i), list(range(100, 150)), SamplingParams(max_tokens=75, ignore_eos=True))
        times: list[float] = []
        while engine.has_unfinished_requests():
            start = time.perf_counter()
            engine.step()
            times.append(time.perf_counter() - start)
        milliseconds[num_requests] = statistics.median(times[-50:]) * 1e3
    return {"milliseconds": milliseconds}


# --- rows -------------------------------------------------------------------------------------------------------------

GROUPS = {  # rows that one process measures
    "prefill": tuple(row for row in engine_rows.ROWS if row[0] == "prefill"),
    "decode": tuple(row for row in engine_rows.ROWS if row[0] == "decode" and row[2] < 10_000),
    "decode at length": tuple(row for row in engine_rows.ROWS if row[0] == "decode" and row[2] >= 10_000),
}
SPREAD, MEMORY = "spread", "memory, GB/s"
SPREAD_REPS = 5  # a process of --spread reports their median
GROUPS_OF_ONE = {SPREAD: (("decode", 8, 1024),)}


LLAMA = {"llama.cpp": "BF16", "llama.cpp Q8_0": "Q8_0"}


def measure_rows(args: argparse.Namespace, engine: str, group: str) -> Turn:
    """Tokens a second of the rows of a group."""
    rows = {**GROUPS, **GROUPS_OF_ONE}[group]
    reps = SPREAD_REPS if group == SPREAD else 1
    if engine in LLAMA:
        rows = tuple(row for row in rows if row[1] * row[2] <= engine_llama.MAX_TOKENS or row[0] == "prefill")
        rows = rows if LLAMA[engine] == "BF16" else tuple(row for row in rows if row[:2] == ("decode", 1))
        return engine_rows.take(engine_llama.llama_rows(args, rows, LLAMA[engine]), rows) if rows else {"rates": {}}
    if engine == "vLLM":
        return engine_rows.take(engine_rows.vllm_rows(args, rows, MAX_BATCHED_TOKENS), rows, reps)
    made = make_engine(args, num_slots=engine_rows.num_slots(rows, args.block_size))
    return engine_rows.take(engine_rows.mini_vllm_rows(made), rows, reps)


# --- the run ----------------------------------------------------------------------------------------------------------

MEASUREMENTS: dict[str, Callable[[argparse.Namespace], Turn]] = {
    "floors": measure_floors,
    f"{MEMORY}, {SPREAD}": measure_memory,
    "profile": profile,
    "host": measure_host,
}
ROWS = {
    f"{engine}, {group}": partial(measure_rows, engine=engine, group=group)
    for engine in ("mini_vllm", "vLLM", *LLAMA)
    for group in (*GROUPS, *GROUPS_OF_ONE)
}


def in_process(args: argparse.Namespace, worker: str) -> Turn:
    """Run a worker in a process of its own and return what it reports on its last line."""
    pythons = {"vLLM": args.vllm_python, "llama.cpp": args.llama_python}
    python = next((path for name, path in pythons.items() if worker.startswith(name)), sys.executable)
    environment = {**os.environ, "OMP_NUM_THREADS": str(args.threads), "PYTHONPATH": str(ROOT)}
    command = [
        python, __file__, "--worker", worker, "--checkpoint", str(args.checkpoint), "--threads", str(args.threads),
        "--requests", str(args.requests), "--reps", str(args.reps), "--block-size", str(args.block_size),
    ]  # fmt: skip
    start, busy = time.perf_counter(), seconds_of_others()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tempfile.gettempdir())
    if done.returncode:
        sys.exit(f"{worker} failed:\n{done.stderr[-4000:]}")
    report: Turn = json.loads(done.stdout.splitlines()[-1])
    capacity = (time.perf_counter() - start) * (os.cpu_count() or 1)
    return report | {"others": (seconds_of_others() - busy) / capacity}


def seconds_of_others() -> float:
    """Processor seconds since boot that neither idled nor went to this process's children; Linux only, else 0."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0.0
    user, nice, system, _, _, irq, softirq, steal = map(int, stat.read_text().split()[1:9])
    children = os.times()
    busy = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    return busy - children.children_user - children.children_system


def work(args: argparse.Namespace) -> None:
    """The child: one worker, its report as JSON on the last line."""
    if not args.worker.startswith("llama.cpp"):
        import torch

        torch.set_num_threads(args.threads)
    measure = {**MEASUREMENTS, **ROWS}.get(args.worker, take_turn)
    report = json.dumps(measure(args))
    print("\n" + report, flush=True)


def measure_all(args: argparse.Namespace) -> Turn:
    """All turns and measurements of a run, in the order told."""
    turns: defaultdict[str, list[Turn]] = defaultdict(list)
    for number in range(args.rounds):
        for name in ENGINES:
            if (name == "vLLM" and not args.vllm_python) or (name == STATIC and (number or args.quick)):
                continue  # static batches are slow, and nobody's yardstick: one turn is enough
            turns[name].append(in_process(args, name))
            rates = [run["tokens"] / run["wall_s"] for run in turns[name][-1]["runs"]]
            others = f"others {turns[name][-1]['others']:.0%}"
            print(f"round {number + 1}: {name:40} {', '.join(f'{r:.1f}' for r in rates)} tok/s, {others}", flush=True)
    report: Turn = {"turns": turns}
    for name in MEASUREMENTS:
        report[name] = in_process(args, name)
        print(f"{name}: done", flush=True)
    if not args.quick:
        report["rows"] = measure_all_rows(args)
    return report


def measure_all_rows(args: argparse.Namespace) -> dict[str, list[Turn]]:
    """The rows by engine, a turn for each round."""
    peers = [*(["vLLM"] if args.vllm_python else []), *(LLAMA if args.llama_python else [])]
    rows: dict[str, list[Turn]] = {name: [] for name in ("mini_vllm", *peers)}
    for number in range(args.rounds):
        for engine, turns in rows.items():
            if engine in LLAMA and number:
                continue  # a turn of llama.cpp takes longer than all others: one
            turns.append({"rates": {}, "others": 0.0})
            for group in GROUPS:
                turn = in_process(args, f"{engine}, {group}")
                turns[-1]["rates"] |= turn["rates"]
                turns[-1]["others"] = max(turns[-1]["others"], turn["others"])
            rates = ", ".join(f"{name} {rate:.1f}" for name, rate in turns[-1]["rates"].items())
            print(f"round {number + 1}: {engine}, others {turns[-1]['others']:.0%}: {rates}", flush=True)
    return rows


def measure_spread(args: argparse.Namespace) -> None:
    """One row in args.spread processes of each engine, which take turns."""
    rates: dict[str, list[float]] = {"mini_vllm": [], **({"vLLM": []} if args.vllm_python else {}), MEMORY: []}
    others, start = 0.0, time.perf_counter()
    for number in range(args.spread):
        time.sleep(args.pause)
        for engine, found in rates.items():
            turn = in_process(args, f"{engine}, {SPREAD}")
            found += turn["rates"].values()
            others = max(others, turn["others"])
            print(f"process {number + 1}: {engine} {found[-1]:.1f}, others {turn['others']:.0%}", flush=True)
    (row,), minutes = GROUPS_OF_ONE[SPREAD], (time.perf_counter() - start) / 60
    lines = [
        "# How far a process varies",
        "",
        f"{date.today()}, {processor()}, {args.threads} threads. {engine_rows.name_of(row)}, tokens a second, in "
        f"{args.spread} processes of each engine, which took turns over {minutes:.0f} minutes; a process reports the "
        f"median of {SPREAD_REPS} repetitions. The last row is the machine itself: what a process reads from memory. "
        f"Other processes took at most {others:.0%} of the processor.",
        "",
        f"    python benchmarks/bench_engine.py --spread {args.spread} --pause {args.pause:g} --vllm-python PATH",
        "",
        "| engine (tok/s), or memory (GB/s) | median | slowest | fastest | fastest / slowest | all, in order |",
        "|---|---|---|---|---|---|",
    ]
    for engine, found in rates.items():
        least, most, each = min(found), max(found), " ".join(f"{rate:.0f}" for rate in found)
        cells = (engine, f"{statistics.median(found):.1f}", f"{least:.1f}", f"{most:.1f}", f"{most / least:.2f}", each)
        lines.append(f"| {' | '.join(cells)} |")
    (RESULTS / "engine_spread.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


# --- the report -------------------------------------------------------------------------------------------------------


def write_report(args: argparse.Namespace, report: Turn, minutes: float) -> str:
    prompt_tokens = sum(len(prompt) for prompt, _ in workload(args.requests))
    output_tokens = sum(num_output for _, num_output in workload(args.requests))
    arguments = ["PATH" if argument in (args.vllm_python, args.llama_python) else argument for argument in sys.argv[1:]]
    lines = [
        "# Engine throughput on a CPU",
        "",
        f"{date.today()}, {processor()}, {args.threads} threads (OMP_NUM_THREADS for every engine, libgomp's default "
        f"waiting), Python {platform.python_version()}. {args.requests} requests, {prompt_tokens:,} prompt and "
        f"{output_tokens:,} output tokens, greedy; Qwen3-0.6B's shape with random weights, bfloat16; at most "
        f"{MAX_SEQS} requests and {MAX_BATCHED_TOKENS} tokens a step; mini_vllm with KV blocks of {args.block_size}. "
        f"Engines took turns (static batches and llama.cpp one only): {args.rounds} rounds of {args.reps} timed "
        f"repetitions; medians and the range. Run time {minutes:.0f} minutes.",
        "",
        f"    python benchmarks/bench_engine.py {' '.join(arguments)}".rstrip(),
        "",
        *engine_table(report["turns"]),
        "",
        *floor_lines(report),
        "",
        *profile_table(report["profile"]),
        "",
        "Around the runner, engine.step() costs "
        + " and ".join(f"{ms:.2f} ms at {n} decodes" for n, ms in report["host"]["milliseconds"].items())
        + " (measured with a model that takes no time).",
    ]
    if "rows" in report:
        lines += ["", *rows_table(report["rows"])]
    return "\n".join(lines) + "\n"


def engine_table(turns: dict[str, list[Turn]]) -> list[str]:
    lines = [
        "| engine | output, tok/s | range, tok/s | times transformers' continuous batching "
        "| CPU per output token, ms |",
        "|---|---|---|---|---|",
    ]
    for name, each in turns.items():
        rates = [run["tokens"] / run["wall_s"] for turn in each for run in turn["runs"]]
        cpu = statistics.median(run["cpu_s"] / run["tokens"] * 1e3 for turn in each for run in turn["runs"])
        spread = f"{statistics.median(rates):.1f} | {min(rates):.1f} to {max(rates):.1f}"
        ratio = paired_ratio(each, turns[CONTINUOUS])
        lines.append(f"| {name} ({each[0]['version']}) | {spread} | {ratio:.2f} | {cpu:.1f} |")
    others = max(turn["others"] for each in turns.values() for turn in each)
    lines += [
        "",
        "Ratios are taken within a round, whose turns share the machine's mood, and their median is given. Other "
        f"processes took at most {others:.0%} of the processor during a turn.",
    ]
    if "vLLM" in turns:
        share = paired_ratio(turns["mini_vllm"], turns["vLLM"])
        lines.append(f"mini_vllm reaches {share:.0%} of vLLM's figure (vllm-cpu is a third-party build, run eager).")
    return lines


def paired_ratio(turns: list[Turn], base: list[Turn]) -> float:
    """Median over the rounds of the ratio of two engines' speeds in that round."""
    pairs = zip(turns, base, strict=False)  # static batches have one round only
    return statistics.median(median_seconds(other) / median_seconds(turn) for turn, other in pairs)


def median_seconds(turn: Turn) -> float:
    return statistics.median(run["wall_s"] for run in turn["runs"])


def floor_lines(report: Turn) -> list[str]:
    floors = report["floors"]
    wall = min(run["wall_s"] for turn in report["turns"]["mini_vllm"] for run in turn["runs"])
    rates = ", ".join(f"{rate:.0f} at {rows}" for rows, rate in floors["gflops"].items())
    memory, matmul = (f"{seconds:.1f} s ({seconds / wall:.0%})" for seconds in (floors["memory_s"], floors["matmul_s"]))
    return [
        f"The work took mini_vllm {wall:.1f} s at best. Reading the weights and the KV of every step once, at the "
        f"measured {floors['bandwidth']:.1f} GB/s, takes {memory}; the bare matrix products take {matmul}, at "
        f"these GFLOP/s by tokens in the step: {rates}.",
    ]


def profile_table(parts: Turn) -> list[str]:
    total = parts["wall_s"]
    ranked = sorted(parts["parts"].items(), key=lambda item: -item[1])
    rows = [f"| {name} | {seconds:.2f} | {seconds / total:.1%} |" for name, seconds in ranked]
    return [
        f"Where {total:.1f} s go (one more run, with a stopwatch):",
        "",
        "| part | s | share |",
        "|---|---|---|",
        *rows,
    ]


def rows_table(turns: dict[str, list[Turn]]) -> list[str]:
    others = max(turn["others"] for each in turns.values() for turn in each)
    return [
        "Prompts alone, and outputs alone behind a context whose keys and values are made up. Engines took turns; "
        "medians, and the median of the ratios of each round with the least and the largest. Other processes took at "
        f"most {others:.0%} of the processor.",
        "",
        *engine_rows.table(turns),
    ]


def processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text() if cpuinfo.exists() else ""
    model = next((line.split(":")[1].strip() for line in text.splitlines() if line.startswith("model name")), "")
    features = [name for name in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if f" {name} " in f"{text} "]
    return f"{model or platform.processor() or platform.machine()} ({os.cpu_count()} cores, {' '.join(features)})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--checkpoint", type=Path, default=Path(tempfile.gettempdir()) / "mini_vllm_qwen3_0.6b_random")
    parser.add_argument("--rounds", type=int, help="default 3 on a CPU, 2 on a GPU")
    parser.add_argument("--requests", type=int, help="default 32 on a CPU, 256 on a GPU")
    parser.add_argument("--block-size", type=int, help="of mini_vllm; default 128, vLLM's on a CPU, and 16 on a GPU")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    cpu = parser.add_argument_group("on a CPU")
    cpu.add_argument(
        "--quick",
        action="store_true",
        help="one round of 12 requests, no rows, no static batches; nothing is written",
    )
    cpu.add_argument("--vllm-python", help="an interpreter that has vLLM; without it vLLM is left out")
    cpu.add_argument("--llama-python", help="an interpreter that has llama-cpp-python and gguf, for the rows")
    cpu.add_argument("--reps", type=int, default=1, help="timed repetitions in a turn")
    cpu.add_argument("--threads", type=int, default=2)
    cpu.add_argument("--spread", type=int, default=0, help="processes of one row, in place of all else")
    cpu.add_argument("--pause", type=float, default=60.0, help="seconds before each of them")
    cuda = parser.add_argument_group("on a GPU")
    cuda.add_argument("--temperature", type=float, default=0.0)
    cuda.add_argument("--results", type=Path, default=RESULTS, help="folder of the report")
    cuda.add_argument("--dry-run", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    rounds, requests, block_size = (3, 32, 128) if args.device == "cpu" else (2, 256, 16)
    args.rounds, args.requests = args.rounds or rounds, args.requests or requests
    args.block_size = args.block_size or block_size
    if args.device == "cuda":
        import engine_cuda

        return engine_cuda.main(args)
    return measure_on_cpu(args)


def measure_on_cpu(args: argparse.Namespace) -> None:
    if args.worker:
        return work(args)
    if args.quick:
        args.rounds, args.requests = 1, 12
    start = time.perf_counter()
    make_checkpoint(args.checkpoint)
    if args.spread:
        return measure_spread(args)
    report = measure_all(args)
    text = write_report(args, report, (time.perf_counter() - start) / 60)
    print("\n" + text)
    if not args.quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "engine.md").write_text(text)
    return None


if __name__ == "__main__":
    main()
