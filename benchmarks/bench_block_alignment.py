#!/usr/bin/env python3
"""What it brings to end the chunks of a prompt at the edges of blocks: block_aligned_chunks on and off, counted.

    python benchmarks/bench_block_alignment.py             print the tables
    python benchmarks/bench_block_alignment.py --write     and into results/block_alignment.md

Workloads are drawn from seeds, the model is fake, and everything is counted: the same on every machine. Prompts share
prefixes that end anywhere in a block, and the budget is no multiple of the block size, so chunks are cut anywhere.
"""

import argparse
import datetime
import os
import platform
import random
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mini_vllm.observe.trace import run_trace
from mini_vllm.policies.registry import SCHEDULERS, get_scheduler_cls, options_of

RESULT = Path(__file__).resolve().parent / "results" / "block_alignment.md"
BLOCK_SIZE, NUM_SEEDS = 16, 11
CONFIG = {"block_size": BLOCK_SIZE, "max_num_seqs": 96, "max_num_batched_tokens": 250, "vocab_size": 32_000}
COLUMNS = ("hits", "steps", "tokens", "preempted", "first token", "uneven")

Request = dict[str, Any]


def request(name: str, prompt: list[int], max_tokens: int, step: int) -> Request:
    return {
        "id": name,
        "prompt": prompt,
        "max_tokens": max_tokens,
        "ignore_eos": True,
        "arrival_step": step,
        "arrival_time": float(step),
        "sample_seed": sum(map(ord, name)),
    }


def shared_prefixes(rng: random.Random, num_requests: int = 120) -> list[Request]:
    """Eight prefixes of 100 to 700 tokens, in turn; each prompt goes on for 20 to 200 tokens of its own."""
    prefixes = [[rng.randrange(32_000) for _ in range(rng.randint(100, 700))] for _ in range(8)]
    return [
        request(
            f"shared-{i}",
            rng.choice(prefixes) + [rng.randrange(32_000) for _ in range(rng.randint(20, 200))],
            rng.randint(8, 40),
            rng.randint(0, 75),
        )
        for i in range(num_requests)
    ]


def beside_decodes(rng: random.Random) -> list[Request]:
    """The same arrivals while 64 streams decode from beginning to end and take 64 tokens of every step's budget."""
    streams = [request(f"stream-{i}", [rng.randrange(32_000) for _ in range(16)], 400, 0) for i in range(64)]
    return streams + shared_prefixes(rng, 60)


WORKLOADS: dict[str, tuple[str, Callable[[random.Random], list[Request]], int]] = {
    "shared": ("shared prefixes, room for all", shared_prefixes, 4_000),
    "tight": ("shared prefixes, a pool that preempts", shared_prefixes, 130),
    "decodes": ("shared prefixes beside 64 decodes", beside_decodes, 4_000),
}


def figures(trace: dict[str, Any]) -> dict[str, float]:
    """One run: tokens found and computed, steps, preemptions, median steps to the first token, uneven chunks."""
    totals, length = trace["totals"], {r["id"]: len(r["prompt"]) for r in trace["requests"]}
    first: dict[str, int] = {}
    num_uneven = 0
    for record in trace["steps"]:
        for request_id, n in record["sched"]:
            end = record["computed"][request_id] + n
            num_uneven += request_id not in record["sampled"] and end < length[request_id] and end % BLOCK_SIZE > 0
        for request_id in record["sampled"]:
            first.setdefault(request_id, record["step"])
    waits = [first[r["id"]] - r["arrival_step"] for r in trace["requests"] if r["id"].startswith("shared")]
    return {
        "hits": totals["prefix_hits"] + totals["preempted_hits"],
        "steps": totals["steps"],
        "tokens": totals["scheduled_tokens"],
        "preempted": totals["preemptions"],
        "first token": statistics.median(waits),
        "uneven": num_uneven,
    }


def row(name: str, workload: str) -> Iterator[str]:
    """Both ways on the same seeds: the medians, and the median of the differences."""
    _, draw, num_blocks = WORKLOADS[workload]
    runs: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    for seed in range(NUM_SEEDS):
        requests = draw(random.Random(seed))
        for aligned in runs:
            config = CONFIG | {"num_blocks": num_blocks, "scheduler": name, "block_aligned_chunks": aligned}
            runs[aligned].append(figures(run_trace({"name": "", "config": config, "requests": requests})))
    for aligned, found in runs.items():
        cells = [statistics.median(each[column] for each in found) for column in COLUMNS]
        yield f"| {name} | {'on' if aligned else 'off'} | " + " | ".join(f"{cell:,.0f}" for cell in cells) + " |"
    pairs = list(zip(runs[False], runs[True], strict=True))
    changes = [
        statistics.median((on[column] - off[column]) / max(off[column], 1) for off, on in pairs) for column in COLUMNS
    ]
    yield f"| {name} | change | " + " | ".join(f"{100 * change:+.2f} %" for change in changes) + " |"


HEAD = """# Chunks that end at the edges of blocks

`block_aligned_chunks` on and off. Block size {block_size}, token budget {budget} (no multiple of it), prefix caching
on; medians over {num_seeds} drawn workloads, and below them the median of the changes, workload by workload.

- hits: tokens found in the prefix cache. tokens: tokens computed. preempted: preemptions.
- first token: median number of steps from arrival to the first token, of the requests that share prefixes.
- uneven: inner chunks of prompts that end inside a block.

{facts}. Counted, so any machine gives the same.

Again: `python benchmarks/bench_block_alignment.py --write`
"""

READING = """## Reading it

For attention over a paged cache alignment brings next to nothing. With room for all no more tokens are found, no step
is saved, and the policies that mix prompts with decodes give the first token later. A block that is cut is published
by the next chunk of the same request, so whoever comes later finds it all the same. What an aligned chunk leaves of
the budget, less than a block, admits or continues somebody with a crumb; crumbs are the uneven chunks of the rows
"on". Admitted a step too early, that request computes what it would have found, and when memory is short it is one
more to preempt. There the hits rise with the preemptions, since a request that comes back finds its own blocks, and
the tokens computed do not fall; warm_first, which brings such a request back first, ends a little sooner, with many
times the preemptions. prefill_first cuts one prompt a step and fills the rest with whole ones, so there only the
place of the cuts changes. The option is for layers whose state can be cached at the edges of blocks alone (Mamba),
which is what vLLM aligns for.
"""


def page() -> Iterator[str]:
    """The result page."""
    facts = f"{datetime.date.today()}; {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    yield HEAD.format(block_size=BLOCK_SIZE, budget=CONFIG["max_num_batched_tokens"], num_seeds=NUM_SEEDS, facts=facts)
    for workload, (title, _, num_blocks) in WORKLOADS.items():
        yield f"## {title[0].upper()}{title[1:]} ({num_blocks:,} blocks)\n"
        yield "| policy | aligned | " + " | ".join(COLUMNS) + " |"
        yield "|---|---|" + "---:|" * len(COLUMNS)
        for name in SCHEDULERS:
            if "block_aligned_chunks" in options_of(get_scheduler_cls(name)):
                yield from row(name, workload)
        yield ""
    yield READING


def main() -> None:
    """Parse the command line; print the page, and write it if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    lines = []
    for line in page():
        print(line, flush=True)
        lines.append(line)
    if args.write:
        RESULT.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
