#!/usr/bin/env python3
"""Preemption by recompute, by swap, and by whichever is cheaper: the same work in too little memory.

    python benchmarks/bench_swap.py [--model NAME] [--rounds N] [--write]

Two experiments, each with the modes in turn, so that all meet the same machine; medians over the rounds. Pressure:
requests that all wait from the start in a KV cache for about a quarter of them. Times are CPU time of the
thread, and torch has one, since the machine may be shared. Growth: one request alone, preempted by
force at a context of so many tokens; the cost is the time to its next token less that of an ordinary decode step. The
predictions are those of measure_preemption_cost(), as an engine has them when it starts. Writes results/swap.md.
"""

import argparse
import datetime
import os
import platform
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from mini_vllm import EngineConfig, LLMEngine, SamplingParams
from mini_vllm.offload.cost import PreemptionCost
from mini_vllm.worker.preemption_cost import measure_preemption_cost

RESULT = Path(__file__).resolve().parent / "results" / "swap.md"
MODES = ("recompute", "swap", "cheaper")
BLOCK_SIZE = 16
NUM_REQUESTS = 20
NUM_SLOTS = 1024
CONTEXTS = (8, 16, 32, 64, 128, 256, 512, 1024, 1920)


def make_engine(model: str, mode: str, *, num_slots: int, caching: bool) -> LLMEngine:
    num_blocks = num_slots // BLOCK_SIZE
    swapping = {} if mode == "recompute" else {"preemption_mode": mode, "num_cpu_blocks": 4 * num_blocks}
    return LLMEngine(
        EngineConfig(
            model,
            device="cpu",
            dtype="float32",
            block_size=BLOCK_SIZE,
            num_kv_blocks=num_blocks + 1,
            enable_prefix_caching=caching,
            **swapping,  # type: ignore[arg-type]
        )
    )


# --- under pressure ---------------------------------------------------------------------------------------------------


def workload(vocab_size: int) -> list[tuple[list[int], int]]:
    """Prompts of 32 to 256 tokens, outputs of 32 to 160."""
    rng = random.Random(0)
    draw = rng.randint
    return [([draw(3, vocab_size - 1) for _ in range(draw(32, 256))], draw(32, 160)) for _ in range(NUM_REQUESTS)]


def run(engine: LLMEngine) -> dict[str, Any]:
    """All requests to their end: seconds, counts, the gaps between the tokens of a request, and what was said."""
    engine.scheduler.kv_cache_manager.reset_prefix_cache()
    for i, (prompt, num_output) in enumerate(workload(engine.vocab_size)):
        engine.add_request(str(i), prompt, SamplingParams(temperature=0, max_tokens=num_output, ignore_eos=True))
    counts = dict.fromkeys(("preemptions", "computed", "out", "in"), 0)
    times: dict[str, list[float]] = {}
    said: dict[str, tuple[int, ...]] = {}
    start = time.thread_time()
    while engine.has_unfinished_requests():
        for output in engine.step():
            times.setdefault(output.request_id, []).append(time.thread_time())
            if output.finished:
                said[output.request_id] = tuple(output.outputs[0].token_ids)
        stats = engine.stats
        assert stats is not None
        counts["preemptions"] += stats.num_preempted_reqs
        counts["computed"] += stats.num_scheduled_tokens
        counts["out"] += stats.num_swapped_out_blocks
        counts["in"] += stats.num_swapped_in_blocks
    gaps = sorted(b - a for stamps in times.values() for a, b in pairwise(stamps))
    return {
        **counts,
        "makespan": time.thread_time() - start,
        "itl_p50": gaps[len(gaps) // 2],
        "itl_p99": gaps[len(gaps) * 99 // 100],
        "said": said,
    }


def pressure(model: str, caching: bool, num_rounds: int) -> Iterator[str]:
    engines = {mode: make_engine(model, mode, num_slots=NUM_SLOTS, caching=caching) for mode in MODES}
    rounds: dict[str, list[dict[str, Any]]] = {mode: [] for mode in MODES}
    for mode in MODES:  # a warm-up, and the tokens
        rounds[mode].append(run(engines[mode]))
    assert all(rounds[mode][0]["said"] == rounds["recompute"][0]["said"] for mode in MODES)
    for _ in range(num_rounds):
        for mode in MODES:
            rounds[mode].append(run(engines[mode]))
    minimum = sum(len(prompt) + num_output - 1 for prompt, num_output in workload(engines["swap"].vocab_size))
    yield f"## Under pressure, prefix caching {'on' if caching else 'off'}\n"
    yield f"Each token computed once would be {minimum:,} tokens. The tokens said are equal (asserted).\n"
    yield "| mode | makespan s | to recompute | preemptions | tokens computed | blocks out | in | ITL p50 ms | p99 ms |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    for mode in MODES:
        timed, first = rounds[mode][1:], rounds[mode][0]
        seconds = statistics.median(each["makespan"] for each in timed)
        ratio = statistics.median(
            each["makespan"] / plain["makespan"] for each, plain in zip(timed, rounds["recompute"][1:], strict=True)
        )
        itl = [1e3 * statistics.median(each[name] for each in timed) for name in ("itl_p50", "itl_p99")]
        yield (
            f"| {mode} | {seconds:.2f} | {ratio:.2f} | {first['preemptions']:,} | {first['computed']:,} "
            f"| {first['out']:,} | {first['in']:,} | {itl[0]:.1f} | {itl[1]:.1f} |"
        )
    yield ""


# --- how it grows -----------------------------------------------------------------------------------------------------


def cost_of_preemption(engine: LLMEngine, context: int) -> float:
    """Seconds by which the next token is late because its request was preempted at this context."""
    engine.add_request("0", [5] * (context - 4), SamplingParams(temperature=0, max_tokens=8, ignore_eos=True))

    def step() -> float:
        start = time.thread_time()
        engine.step()
        return time.thread_time() - start

    step()
    plain = statistics.median(step() for _ in range(4))  # their tokens make up the context
    scheduler = engine.scheduler
    scheduler._preempt(scheduler.running.pop())
    late = step()
    engine.abort("0")
    return late - plain


def growth(model: str, num_rounds: int) -> Iterator[str]:
    engines = {mode: make_engine(model, mode, num_slots=2048, caching=False) for mode in ("recompute", "swap")}
    predicted = measure_preemption_cost(engines["swap"].executor, engines["swap"].kv_cache_plan, clock=time.thread_time)
    measured: dict[str, list[float]] = {mode: [] for mode in engines}
    for context in CONTEXTS:
        seconds: dict[str, list[float]] = {mode: [] for mode in measured}
        for _ in range(num_rounds):
            for mode in measured:
                seconds[mode].append(cost_of_preemption(engines[mode], context))
        for mode, values in seconds.items():
            measured[mode].append(statistics.median(values))
    yield "## One preemption against the context\n"
    yield "Milliseconds by which the next token is late.\n"
    yield "| context | recompute | predicted | swap | predicted | swap / recompute |"
    yield "|---:|---:|---:|---:|---:|---:|"
    for i, context in enumerate(CONTEXTS):
        recompute, swap = measured["recompute"][i], measured["swap"][i]
        ratio = f"{swap / recompute:.2f}" if recompute > 0 and swap > 0 else "-"
        yield (
            f"| {context:,} | {1e3 * recompute:.2f} | {1e3 * predicted.recompute(context):.2f} "
            f"| {1e3 * swap:.2f} | {1e3 * predicted.swap(context):.2f} | {ratio} |"
        )
    yield ""
    yield f"Crossover, in tokens: measured {crossover(measured)}, predicted {predicted.crossover:.1f}.\n"
    yield figures(predicted)


def crossover(measured: dict[str, list[float]]) -> str:
    """Where the measured curves meet for the last time, on a straight line between two contexts."""
    gaps = [swap - recompute for swap, recompute in zip(measured["swap"], measured["recompute"], strict=True)]
    for (x0, y0), (x1, y1) in reversed(list(pairwise(zip(CONTEXTS, gaps, strict=True)))):
        if y0 >= 0 > y1:
            return f"{x0 + (x1 - x0) * y0 / (y0 - y1):.1f}"
    return f"below {CONTEXTS[0]}" if gaps[-1] < 0 else f"above {CONTEXTS[-1]:,}"


def figures(cost: PreemptionCost) -> str:
    return (
        f"What measure_preemption_cost() found, on up to 512 tokens: {cost.seconds_per_token * 1e6:.1f} us a token and "
        f"{cost.seconds_per_pair * 1e9:.2f} ns a pair to compute; {cost.bytes_per_token:,.0f} bytes a token, "
        f"{cost.bandwidth / 1e9:.2f} GB/s one way and {cost.seconds_per_copy * 1e6:.0f} us a copy to swap.\n"
    )


# --- the page ---------------------------------------------------------------------------------------------------------

HEAD = """# Preemption: recompute, swap, or the cheaper

{num_requests} requests (prompts of 32 to 256 tokens, outputs of 32 to 160) that all wait from the start, in
{num_slots:,} slots, blocks of {block_size}; model {model}, float32, one thread. The modes run in turn; medians over
{rounds} rounds, ratios within a round. Times are CPU time of the thread, since the machine may be shared. Here both
pools are main memory, so that swapping costs memory bandwidth and the calls of torch; beside a GPU it costs the bus. So
the shape of the curves carries over, the crossover does not: the docstring of PreemptionCost has an H100's.

{facts}

Again: `python benchmarks/bench_swap.py --write`
"""

READING = """## Reading it

Swapping computes each token once. Without prefix caching that saves the chunks of recomputed prompts, behind which all
others of a step wait: the longest gaps between tokens shrink. With it a victim finds some of its blocks still on the
device, and the modes differ by noise. The makespan moves little either way: most steps only decode, and they are the
same. "cheaper" swaps every victim here, since the crossover lies below all contexts. The predictions stem from the
fastest of three repeats on up to 512 tokens, the costs are medians in steps of an engine; they differ by up to a factor
of two.
"""


def machine() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    return f"{model}, {os.cpu_count()} cores, load average at the start {load}"


def page(model: str, num_rounds: int) -> Iterator[str]:
    facts = f"{datetime.date.today()}; {machine()}; Python {platform.python_version()}; torch {torch.__version__}"
    yield HEAD.format(
        num_requests=NUM_REQUESTS,
        num_slots=NUM_SLOTS,
        block_size=BLOCK_SIZE,
        model=model,
        rounds=num_rounds,
        facts=facts,
    )
    for caching in (False, True):
        yield from pressure(model, caching, num_rounds)
    yield from growth(model, max(2 * num_rounds + 1, 9))
    yield READING


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="tiny", help="of at least 2,048 positions")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/swap.md")
    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    lines = []
    for line in page(args.model, args.rounds):
        print(line, flush=True)
        lines.append(line)
    if args.write:
        RESULT.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
