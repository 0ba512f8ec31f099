#!/usr/bin/env python3
"""Host cost of every policy's step against the length of the waiting queue, which it must not depend on.

    python benchmarks/bench_policy_host_cost.py             print the tables
    python benchmarks/bench_policy_host_cost.py --write     and into results/policy_host_cost.md

schedule() + update_from_output() of 64 requests that decode, without a model, while 10 to 100,000 others wait: because
all places are taken, or because the first of them does not get its blocks. CPU time of the thread, since the machine
may be shared. The law is also a test that counts instead of timing: mini_vllm/policies/test_policies.py.
"""

import argparse
import datetime
import gc
import platform
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench_scheduler import BLOCK_SIZE, CONTEXT, ROOT, WARM_UP, Ours, config, machine, request

RESULT = ROOT / "benchmarks" / "results" / "policy_host_cost.md"
NUM_WAITING = (10, 100, 1_000, 10_000, 100_000)
NUM_RUNNING, NUM_STEPS = 64, 120
LIMIT = 1.5  # between the least and the most of a row

HEAD = """# Host cost of the policies

`schedule()` + `update_from_output()` without a model, in µs a request and step: {num_running} requests decode at a
context of about 500 tokens, and others wait. Short of places: max_num_seqs is {num_running}. Short of blocks: a place
is free, and in every step the first waiting request is looked up, and the watermark refuses it its blocks. Block size
16, prefix caching on. CPU time of the thread; the least of {num_rounds} rounds, each the median of {num_steps} steps: a
busy neighbour on the same core can only add, and did, up to twofold. The requests are taken out of garbage collection
before the steps that count.

{facts}

Again: `python benchmarks/bench_policy_host_cost.py --write`
"""


def measure(engine: Ours, name: str, short_of: str, num_waiting: int) -> float:
    """Microseconds a running request and step."""
    num_places = NUM_RUNNING if short_of == "places" else 2 * NUM_RUNNING
    num_blocks = NUM_RUNNING * (-(-(CONTEXT + NUM_STEPS + 2 * WARM_UP) // BLOCK_SIZE)) + 1
    engine.start(config(NUM_RUNNING, num_blocks, scheduler=name, max_num_seqs=num_places))
    for i in range(NUM_RUNNING):
        engine.add(request(i, CONTEXT - WARM_UP + i % BLOCK_SIZE))
    engine.step()
    engine.scheduler.num_watermark_blocks = num_blocks  # from here on no request is admitted, for want of blocks
    for i in range(num_waiting):
        engine.add(request(NUM_RUNNING + i, BLOCK_SIZE))
    gc.collect()
    gc.freeze()
    rows = [engine.step() for _ in range(WARM_UP + NUM_STEPS)][WARM_UP:]
    gc.unfreeze()
    assert all(n == NUM_RUNNING for _, _, n in rows), "the running requests are in every step, and no others"
    return statistics.median(schedule + update for schedule, update, _ in rows) / NUM_RUNNING


def page(num_rounds: int) -> Iterator[str]:
    """The result page."""
    sys.path.insert(0, str(ROOT))
    from mini_vllm.policies.registry import SCHEDULERS

    facts = f"{datetime.date.today()}; {machine()}; Python {platform.python_version()}"
    yield HEAD.format(num_running=NUM_RUNNING, num_rounds=num_rounds, num_steps=NUM_STEPS, facts=facts)
    yield "| policy | short of | " + " | ".join(f"{n:,} wait" for n in NUM_WAITING) + " | most / least |"
    yield "|---|---|" + "---:|" * (len(NUM_WAITING) + 1)
    engine = Ours()
    measure(engine, "v1", "places", 10)
    found: dict[tuple[str, str], dict[int, list[float]]] = {
        (name, short_of): {n: [] for n in NUM_WAITING} for name in SCHEDULERS for short_of in ("places", "blocks")
    }
    for i in range(num_rounds):  # outermost, so that a noisy neighbour spoils a round and not a row
        for (name, short_of), row in found.items():
            for n in NUM_WAITING:
                row[n].append(measure(engine, name, short_of, n))
        print(f"round {i + 1} of {num_rounds}", file=sys.stderr, flush=True)
    worst = 0.0
    for (name, short_of), row in found.items():
        least = [min(values) for values in row.values()]
        ratio = max(least) / min(least)
        worst = max(worst, ratio)
        yield f"| {name} | {short_of} | " + " | ".join(f"{value:.2f}" for value in least) + f" | {ratio:.2f} |"
    verdict = "flat" if worst <= LIMIT else "NOT flat"
    yield f"\nThe worst row spans a factor of {worst:.2f}: {verdict} within {LIMIT} times."


def main() -> None:
    """Parse the command line; print the page, and write it if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    lines = []
    for line in page(args.rounds):
        print(line, flush=True)
        lines.append(line)
    if args.write:
        RESULT.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
