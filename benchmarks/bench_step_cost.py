#!/usr/bin/env python3
"""What a step costs on a CPU: where each millisecond of a decode goes, beside what the hardware would allow.

    python benchmarks/bench_step_cost.py             print the tables
    python benchmarks/bench_step_cost.py --write     and into results/step_cost.md

The model has Qwen3-0.6B's shape and random weights, in bfloat16. The KV cache is filled with numbers, and prompts count
as computed, so that no time goes into prefills. A round measures the bandwidth and then one decode step of each row, so
the ratio of a step to its floor is one of the same moment. What counts is the median of the rounds.
"""

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from datetime import date
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench_engine import LINEARS, Stopwatch, fastest, make_engine, processor, time_products
from bench_scheduler import ROOT
from engine_common import HEAD_DIM, HIDDEN, KV_HEADS, LAYERS, VOCAB_SIZE, make_checkpoint

RESULT = ROOT / "benchmarks" / "results" / "step_cost.md"
STEPS = [*((n, context) for context in (128, 1024) for n in (1, 8, 32)), (8, 4096)]  # requests, and the context of each
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
LAYER_BYTES = 2 * sum(size_in * size_out for size_in, size_out in LINEARS.values())
WEIGHT_BYTES = LAYERS * LAYER_BYTES + 2 * VOCAB_SIZE * HIDDEN
KV_BYTES = 2 * 2 * LAYERS * KV_HEADS * HEAD_DIM  # of a token: keys and values, 2 bytes a number
PARTS = ("linear layers", "attention", "norms", "rotary, cache write", "activation", "sampler", "rest of the model")
PARTS += ("packing, planning", "scheduler, outputs")

HEAD = """# What a step costs on a CPU

{facts}. Medians of {rounds} rounds; each measures the bandwidth, then every step.

Again: `python benchmarks/bench_step_cost.py --write`

Qwen3-0.6B's shape, random weights, bfloat16. A step reads {weights:,.0f} MB of weights, and {kv:,} bytes of keys and
values for each token of context. A sum over a tensor of 1 GiB reads {read:.1f} GB/s (the median of the rounds; the best
is {best_read:.1f}). A copy of 512 MiB moves {copy:.1f} GB/s (best {best_copy:.1f}), reads and writes counted. The floor
of a step, in each round, is the number of bytes that the step reads, divided by the faster of that round's two rates.

## A step and its floor

{steps}

Linear layers and attention by themselves, each beside the floor of its own bytes:

{floors}

## Where each millisecond goes

Medians, in ms, with a stopwatch around each part. The linear layers include the head. A part that lies inside another
one is taken out of it, so a column adds up to its step, but for the difference between medians and means.

{parts}

## The roofline

The linear layers of one decoder layer, by rows, that is, tokens in the step. Weights are not in a cache. A weight of 2
bytes takes part in one product and one sum for each row, so the intensity is as many operations a byte as there are
rows. The roof is the smaller of intensity times the best bandwidth, {best:.1f} GB/s, and the highest rate that was
measured, {peak:,.0f} GFLOP/s. The two meet at {ridge:.0f} rows.

{roofline}
"""


# --- what the hardware would allow ------------------------------------------------------------------------------------


class Memory:
    """Bandwidth in bytes a second, each as the fastest of three."""

    def __init__(self) -> None:
        import torch

        self.data, self.half = torch.ones(1 << 28), torch.empty(1 << 27)
        self.num_bytes = self.data.numel() * 4

    def read(self) -> float:
        return self.num_bytes / fastest(self.data.sum, 3)

    def copy(self) -> float:
        return self.num_bytes / fastest(lambda: self.half.copy_(self.data[: len(self.half)]), 3)


def rates() -> dict[int, float]:
    """Operations a second of a layer's matrix products, by rows."""
    import torch

    from mini_vllm.models.layers.linear import linear, pack_weight

    seconds: defaultdict[int, float] = defaultdict(float)
    for size_in, size_out in LINEARS.values():
        copies = max(1, (256 << 20) // (2 * size_in * size_out))
        weights = [pack_weight(torch.randn(size_out, size_in).bfloat16()) for _ in range(copies)]
        for rows in ROWS:
            seconds[rows] += time_products(linear, weights, rows)
    return {rows: LAYER_BYTES * rows / seconds[rows] for rows in ROWS}  # 2 operations for each weight of 2 bytes


# --- the steps --------------------------------------------------------------------------------------------------------


class Steps:
    """Decode steps of an engine whose prompts count as computed."""

    def __init__(self, args: argparse.Namespace) -> None:
        slots = max(n * (-(-(context + 64) // args.block_size) * args.block_size) for n, context in STEPS)
        self.engine = make_engine(args, num_slots=slots)
        self.runner = self.engine.executor.runner
        for caches in self.runner.kv_caches:
            for cache in caches:
                cache.fill_(0.1)  # zeros that nothing has written may be one page of memory that all addresses share
        self.watch = watch_of(self.engine)
        self.execute = self.runner.execute

    def skip(self, step: Any) -> Any:
        """In place of the model: note what is new, and sample anything."""
        from mini_vllm.step import SampledToken, StepOutput

        self.runner.batch.update(step)
        return StepOutput({request_id: [SampledToken(7, None)] for request_id in step.sample_req_ids})

    def time(self, num_requests: int, context: int) -> dict[str, float]:
        """Seconds by part of one step, in which each request computes the last token of its context."""
        from mini_vllm import SamplingParams

        self.runner.execute = self.skip
        for i in range(num_requests):
            params = SamplingParams(temperature=0, max_tokens=64, ignore_eos=True)  # it outlives the prompts
            self.engine.add_request(str(i), [100 + i] * (context - 2), params)
        while any(request.num_computed_tokens < context - 2 for request in self.requests()):
            self.engine.step()
        self.runner.execute = self.execute
        self.engine.step()
        self.watch.seconds.clear()
        self.engine.step()
        parts = dict(self.watch.seconds)
        self.engine.reset()
        return parts

    def requests(self) -> list[Any]:
        scheduler = self.engine.scheduler
        return [*scheduler.waiting, *scheduler.running]


def watch_of(engine: Any) -> Stopwatch:
    """A stopwatch around the parts of a step, named as in PARTS."""
    from mini_vllm.models.layers import mlp

    watch, runner, model = Stopwatch(), engine.executor.runner, engine.executor.runner.model
    for layer in model.layers:
        attention, feed_forward = layer.self_attn, layer.mlp
        for linear in (attention.qkv_proj, attention.o_proj, feed_forward.gate_up_proj, feed_forward.down_proj):
            watch.wrap(linear, "forward", "linear layers")
        for norm in (layer.input_layernorm, layer.post_attention_layernorm, attention.q_norm, attention.k_norm):
            watch.wrap(norm, "forward", "norms")
            watch.wrap(norm, "add", "norms")
    watch.wrap(model.norm, "add", "norms")
    watch.wrap(mlp, "silu_mul", "activation")
    watch.wrap(runner.attention_backend, "rotate_and_write_kv", "rotary, cache write")
    watch.wrap(runner.attention_backend, "attend", "attention")
    watch.wrap(model, "compute_logits", "linear layers")
    watch.wrap(model, "forward", "rest of the model")
    watch.wrap(runner.sampler, "launch", "sampler")
    watch.wrap(runner.sampler, "collect", "sampler")
    watch.wrap(runner, "execute", "packing, planning")
    watch.wrap(engine, "step", "scheduler, outputs")
    return watch


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Lists with a number for each round, by what they are of."""
    memory, steps = Memory(), Steps(args)
    found: dict[str, Any] = {"read": [], "copy": [], "parts": defaultdict(list)}
    for each in STEPS:  # the first step with a number of rows prepares its products
        steps.time(*each)
    for number in range(args.rounds):
        found["read"].append(memory.read())
        found["copy"].append(memory.copy())
        for each in STEPS:
            found["parts"][each].append(steps.time(*each))
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
    return found


# --- the report -------------------------------------------------------------------------------------------------------


def table(head: str, rows: list[str]) -> str:
    return "\n".join([head, "|" + "---|" * (head.count("|") - 1), *rows])


def step_tables(found: dict[str, Any]) -> dict[str, str]:
    """The tables of steps, floors and parts."""
    rates = [max(each) for each in zip(found["read"], found["copy"], strict=True)]
    steps, floors, columns = [], [], {}
    for (n, context), rounds in found["parts"].items():
        kv, name = KV_BYTES * n * context, f"{n} at {context:,}"
        totals = [sum(parts.values()) for parts in rounds]
        bytes_of = {"step": WEIGHT_BYTES + kv, "linear layers": WEIGHT_BYTES, "attention": kv}
        took = {part: [parts[part] for parts in rounds] for part in ("linear layers", "attention")} | {"step": totals}
        milliseconds = {part: statistics.median(took[part]) * 1e3 for part in took}
        floor = {part: statistics.median(bytes_of[part] / rate for rate in rates) * 1e3 for part in took}
        share = {
            part: statistics.median(bytes_of[part] / rate / t for rate, t in zip(rates, took[part], strict=True))
            for part in took
        }
        speed = n / milliseconds["step"] * 1e3
        steps.append(
            f"| {name} | {kv / 1e6:,.0f} | {milliseconds['step']:.1f} | {speed:,.1f} | {floor['step']:.1f} "
            f"| {share['step']:.0%} |"
        )
        cells = [f"{milliseconds[p]:.1f} | {floor[p]:.1f} | {share[p]:.0%}" for p in ("linear layers", "attention")]
        floors.append(f"| {name} | {' | '.join(cells)} |")
        columns[name] = {part: statistics.median(parts[part] for parts in rounds) * 1e3 for part in PARTS}
    parts = [f"| {part} | " + " | ".join(f"{column[part]:.1f}" for column in columns.values()) + " |" for part in PARTS]
    sums = " | ".join(f"{sum(column.values()):.1f}" for column in columns.values())
    return {
        "steps": table("| requests at context | KV, MB | step, ms | tok/s | floor, ms | floor / step |", steps),
        "floors": table(
            "| requests at context | linear, ms | linear: floor, ms | linear: floor / time "
            "| attention, ms | attention: floor, ms | attention: floor / time |",
            floors,
        ),
        "parts": table(f"| part, ms | {' | '.join(columns)} |", [*parts, f"| together | {sums} |"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, default=Path(tempfile.gettempdir()) / "mini_vllm_qwen3_0.6b_random")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--block-size", type=int, default=128)
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.relative_to(ROOT)}")
    args = parser.parse_args()
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    facts = f"{date.today()}, {processor()}, {args.threads} threads, Python {platform.python_version()}"
    facts += f"; load average at the start {load}"
    make_checkpoint(args.checkpoint)

    import torch

    torch.set_num_threads(args.threads)
    start = time.perf_counter()
    with torch.inference_mode():
        by_rows, found = rates(), measure(args)
    best, peak = max(found["read"] + found["copy"]), max(by_rows.values())
    roofline = [
        f"| {rows} | {rate / 1e9:,.0f} | {min(peak, rows * best) / 1e9:,.0f} | {rate / min(peak, rows * best):.0%} |"
        for rows, rate in by_rows.items()
    ]
    text = HEAD.format(
        **{"facts": facts, "rounds": args.rounds},
        **{"weights": WEIGHT_BYTES / 1e6, "kv": KV_BYTES, "best": best / 1e9, "peak": peak / 1e9, "ridge": peak / best},
        **{key: statistics.median(found[key]) / 1e9 for key in ("read", "copy")},
        **{f"best_{key}": max(found[key]) / 1e9 for key in ("read", "copy")},
        **step_tables(found),
        roofline=table("| rows | GFLOP/s | roof, GFLOP/s | share of the roof |", roofline),
    )
    print(text)
    print(f"{time.perf_counter() - start:.0f} s", file=sys.stderr)
    if args.write:
        RESULT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
