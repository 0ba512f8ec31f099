#!/usr/bin/env python3
"""What top-p costs: the selection by digits, beside a sort and beside a guess of how many tokens it takes.

    python benchmarks/bench_sampling.py               print the table
    python benchmarks/bench_sampling.py --write       and into results/sampling.md

All three run in one process on the same scores, one after the other, as many rows at a time as the sampler takes. The
time of a process counts, on one thread, and the median of the ratios, so a busy machine slows all of them alike.
"""

import argparse
import datetime
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from bench_scheduler import ROOT, machine
from torch import Tensor

from mini_vllm.worker.sampler import LOGITS_AT_ONCE, race
from mini_vllm.worker.sampling.candidates import keep_top_p

RESULT = ROOT / "benchmarks" / "results" / "sampling.md"
SIZES = [(2048, 64), (32_000, 64), (151_936, 4), (151_936, 64)]  # tokens of the vocabulary, rows
TOP_P = 0.9
GUESS = 256
ROUNDS = 9

HEAD = """# What top-p costs

top_p {top_p}, temperature 1, of normal logits with a deviation of 3: milliseconds of each row, and how many times as
long the other ways take. A sort is that of all tokens; a guess takes the {guess} most likely ones, looks whether they
were enough, and else takes eight times as many. "noise" is the draw that follows, as a measure. One thread, time of
the process, medians of {rounds} rounds.

{facts}

Again: `python benchmarks/bench_sampling.py --write`

| vocabulary | rows | by digits, ms a row | sort | guess | noise |
|---:|---:|---:|---:|---:|---:|
"""


def by_sort(scores: Tensor, top_p: Tensor) -> Tensor:
    """What a sort of all tokens keeps."""
    values, order = scores.sort(dim=-1, descending=True)
    mass = values.softmax(-1).cumsum(-1, dtype=torch.float64)
    before = torch.cat((torch.zeros_like(mass[:, :1]), mass[:, :-1]), 1)
    return torch.zeros_like(scores, dtype=torch.bool).scatter_(1, order, before < top_p)


def by_guess(scores: Tensor, top_p: Tensor) -> Tensor:
    """What the most likely tokens reach; asks the device after each guess. Equals of the edge stay."""
    peak, guess = scores.softmax(-1).amax(-1, keepdim=True), min(GUESS, scores.shape[1])
    while True:
        values = scores.topk(guess).values
        mass = (values.exp() * peak).cumsum(-1, dtype=torch.float64)
        if guess == scores.shape[1] or bool((mass[:, -1:] >= top_p).all()):
            num_kept = ((mass < top_p).sum(-1, keepdim=True) + 1).clamp_(max=guess)
            return scores >= values.gather(1, num_kept - 1)
        guess = min(8 * guess, scores.shape[1])


def row(vocab_size: int, num_rows: int) -> str:
    """A line of the table."""
    scores = 3 * torch.randn(num_rows, vocab_size, generator=torch.Generator().manual_seed(0))
    scores -= scores.amax(-1, keepdim=True)
    parts = scores.split(max(1, LOGITS_AT_ONCE["cpu"] // vocab_size))

    def seconds(way: Callable[[Tensor, Tensor], Tensor]) -> float:
        start = time.process_time()
        for part in parts:
            way(part, torch.full((len(part), 1), TOP_P, dtype=torch.float64))
        return time.process_time() - start

    ways = (keep_top_p, by_sort, by_guess, lambda part, _: race(part, torch.arange(len(part))))
    found = [[seconds(way) for way in ways] for _ in range(ROUNDS + 1)][1:]
    own = statistics.median(each[0] for each in found) * 1e3 / num_rows
    ratios = (statistics.median(each[i] / each[0] for each in found) for i in (1, 2, 3))
    return f"| {vocab_size:,} | {num_rows} | {own:.3f} | {' | '.join(f'{ratio:.2f}' for ratio in ratios)} |\n"


def page() -> Iterator[str]:
    """The result page."""
    torch.set_num_threads(1)
    facts = f"{datetime.date.today()}; {machine()}; Python {platform.python_version()}, torch {torch.__version__}"
    yield HEAD.format(top_p=TOP_P, guess=GUESS, rounds=ROUNDS, facts=facts)
    for size in SIZES:
        yield row(*size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    text = ""
    for part in page():
        print(part, end="", flush=True)
        text += part
    if options.write:
        RESULT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
