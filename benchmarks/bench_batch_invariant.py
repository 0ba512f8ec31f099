#!/usr/bin/env python3
"""What the same bits in every batch cost: seconds with batch_invariant=True, and with draft_model="self", which
verifies what it has decoded freely, beside those without.

    python benchmarks/bench_batch_invariant.py                  print the table
    python benchmarks/bench_batch_invariant.py --write          and into results/batch_invariant.md
    ... --models tiny                                           the bundled model alone

Each round without it is followed by one with it, on the same requests, and the median of their ratios counts.
"""

import argparse
import datetime
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench_scheduler import ROOT, machine
from engine_common import make_checkpoint

from mini_vllm import LLM, SamplingParams

RESULT = ROOT / "benchmarks" / "results" / "batch_invariant.md"
SHAPES = {"tiny": "the bundled model", "qwen": "Qwen3-0.6B's shape, a quarter of the tokens"}
FEWER = {"tiny": 1, "qwen": 4}  # times, tokens of an answer: a token of it takes a quarter of a second
WORK = {  # requests, tokens of a prompt, tokens of an answer
    "prompts": (4, 256, 1),
    "1 answer": (1, 16, 32),
    "2 answers": (2, 16, 32),
    "8 answers": (8, 16, 32),
    "1 answer behind 500 tokens": (1, 500, 32),
}
WAYS = {  # to the same bits, by what the table calls them
    "batch_invariant": {"batch_invariant": True},
    "verify and roll back, 4 drafts": {"speculative": "draft_model", "draft_model": "self"},
    "verify and roll back, 15 drafts": {
        "speculative": "draft_model", "draft_model": "self", "num_speculative_tokens": 15,
    },
}  # fmt: skip
ROUNDS = 3

HEAD = """# The same bits in every batch

How many times as long work takes with `batch_invariant=True`, and with `draft_model="self"`, which decodes freely and
verifies in products of one shape, on the CPU with the back end `c`. Each round without it is followed by one with it on
the same requests; the median of {rounds} ratios. The last column has the rows of a matrix product: a multiple of the
first number, so that so many are computed where there is one, and at most the second.

{facts}

Again: `python benchmarks/bench_batch_invariant.py --write`

"""


def seconds(llm: LLM, work: tuple[int, int, int], number: int) -> float:
    """Of one round, with prompts that no earlier round had."""
    num_requests, num_prompt, num_tokens = work
    prompts = [[(number * 31 + i * 7 + j * j) % 2000 + 8 for j in range(num_prompt)] for i in range(num_requests)]
    start = time.perf_counter()
    llm.generate(prompts, SamplingParams(temperature=0, max_tokens=num_tokens, ignore_eos=True))
    return time.perf_counter() - start


def row(model: str, name: str, fewer: int, dtype: str, way: str) -> str:
    """A line of the table. fewer: times, tokens of an answer."""
    options = {"device": "cpu", "dtype": dtype, "num_kv_blocks": 200, "max_model_len": 1024}
    options |= {"attention_backend": "c", "enable_prefix_caching": False}
    plain, invariant = (LLM(model, **options, **more) for more in ({}, WAYS[way]))
    found = []
    for num_requests, num_prompt, num_tokens in WORK.values():
        work, ratios = (num_requests, num_prompt, max(1, num_tokens // fewer)), []
        for number in range(ROUNDS + 1):
            before = seconds(plain, work, number)
            ratios.append(seconds(invariant, work, number) / before)
        found.append(f"{statistics.median(ratios[1:]):.2f}")  # the first one measures the products
    products = invariant.engine.core.executor.products
    pieces = ", ".join(f"{multiple} to {most}" for multiple, most in sorted({*products.found.values()}))
    return f"| {name}, {dtype}, {way} | {' | '.join(found)} | {pieces} |\n"


def page(models: list[str]) -> Iterator[str]:
    """The result page."""
    import torch

    facts = f"{datetime.date.today()}; {machine()}; Python {platform.python_version()}, torch {torch.__version__}, "
    facts += f"{torch.get_num_threads()} threads"
    yield HEAD.format(rounds=ROUNDS, facts=facts)
    yield f"| | {' | '.join(WORK)} | rows |\n|---|{'---:|' * (len(WORK) + 1)}\n"
    with tempfile.TemporaryDirectory() as folder:
        for model in models:
            if model != "tiny":
                make_checkpoint(Path(folder) / model)
            path = "tiny" if model == "tiny" else f"{folder}/{model}"
            # with 15 drafts the large one takes five minutes a line
            for dtype, way in product(("float32", "bfloat16"), [*WAYS][: 3 if model == "tiny" else 2]):
                yield row(path, SHAPES[model], FEWER[model], dtype, way)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    text = ""
    for part in page(options.models):
        print(part, end="", flush=True)
        text += part
    if options.write:
        RESULT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
