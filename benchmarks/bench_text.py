#!/usr/bin/env python3
"""Cost of text per token against the length of the answer, on which it must not depend.

    python benchmarks/bench_text.py             print the table
    python benchmarks/bench_text.py --write     and into results/text.md

OutputProcessor.process() with one new token for each of 64 requests a step, whose outputs are deltas, as for 64
streams: no model, the tokenizer of the bundled one, the text of the glossary. CPU time of the thread, since the machine
may be shared. The law is also a test that counts bytes instead of time: mini_vllm/frontend/test_output_processor.py.
"""

import argparse
import datetime
import gc
import platform
import statistics
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from time import thread_time_ns
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench_scheduler import ROOT, machine

RESULT = ROOT / "benchmarks" / "results" / "text.md"
NUM_REQUESTS, NUM_LOGPROBS = 64, 5
LENGTHS = (100, 1_000, 4_000)  # the first is the length of a turn, and the last a multiple of all
LIMIT = 1.3  # between a row's other lengths and its first
STOP = ("\n\n\n\n", "the KV cache of another planet", "</answer>")  # never complete; the beginning of one is often held
CASES = [(stop, num_logprobs) for stop in ((), STOP) for num_logprobs in (None, NUM_LOGPROBS)]

HEAD = """# Cost of text

`OutputProcessor.process()` with one new token a step for each of {num_requests} requests, whose outputs are deltas, as
{num_requests} streams ask for: µs a token, averaged over answers of the length at the top. There is no
model; the tokenizer is that of the bundled one, the text is the glossary. Of the three stop strings none is ever
complete; the {num_logprobs} log-probabilities beside each token are decoded, too. CPU time of the thread, without
garbage collection. The lengths of a row take turns of {turn} steps until the longest answer is there, so that all
meet the same machine; rounds: {num_rounds}, of which the median counts.

{facts}

Again: `python benchmarks/bench_text.py --write`
"""


def answers(tokenizer: Any, length: int) -> list[list[int]]:
    """Token ids of real text; every request begins at another place in it."""
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    ids = tokenizer.encode(text, add_special_tokens=False)
    ids *= 2 + length // len(ids)
    return [ids[i * 97 : i * 97 + length] for i in range(NUM_REQUESTS)]


def steps(tokenizer: Any, length: int, stop: tuple[str, ...], num_logprobs: int | None) -> Iterator[int]:
    """Answer after answer of this length; yields the nanoseconds of each step."""
    from mini_vllm.frontend.output_processor import OutputProcessor
    from mini_vllm.frontend.tokenizer import HFTokenizer
    from mini_vllm.params import SamplingParams
    from mini_vllm.request import Request
    from mini_vllm.step import Logprob, SampledToken, TokenDelta

    processor = OutputProcessor(HFTokenizer(tokenizer))
    params = SamplingParams(max_tokens=length, stop=stop, logprobs=num_logprobs, output_kind="delta")
    names = [f"request-{i}" for i in range(NUM_REQUESTS)]
    rows = answers(tokenizer, length)
    while True:
        for name in names:
            processor.add_request(name, None, [Request(name, [1, 2, 3], params)])
        first: list[str] = []  # the text of one answer, piece by piece
        for i in range(length):
            deltas = []
            for name, row in zip(names, rows, strict=True):
                near = [*row[i : i + 1], *range(100 + i % 100, 100 + i % 100 + NUM_LOGPROBS)]
                logprobs = None if num_logprobs is None else {t: Logprob(-1.5, rank) for rank, t in enumerate(near, 1)}
                deltas.append(TokenDelta(name, [SampledToken(row[i], logprobs)], "length" if i == length - 1 else None))
            start = thread_time_ns()
            outputs, stopped = processor.process(deltas)
            yield thread_time_ns() - start
            first.append(outputs[0].outputs[0].text)
            assert (len(outputs), stopped) == (NUM_REQUESTS, []), "every request is to get its token in every step"
        assert "".join(first) == tokenizer.decode(rows[0], skip_special_tokens=True), "the text is to be whole"


def measure(tokenizer: Any, stop: tuple[str, ...], num_logprobs: int | None) -> dict[int, float]:
    """Microseconds a token, by length."""
    sources = {n: steps(tokenizer, n, stop, num_logprobs) for n in LENGTHS}
    total = dict.fromkeys(LENGTHS, 0)
    gc.collect()
    gc.disable()
    for _ in range(LENGTHS[-1] // LENGTHS[0]):
        for n, source in sources.items():
            total[n] += sum(islice(source, LENGTHS[0]))
    gc.enable()
    return {n: nanoseconds / 1000 / LENGTHS[-1] / NUM_REQUESTS for n, nanoseconds in total.items()}


def page(num_rounds: int) -> Iterator[str]:
    """The result page."""
    sys.path.insert(0, str(ROOT))
    from mini_vllm.models.checkpoint import load_tokenizer, resolve_model

    tokenizer = load_tokenizer(resolve_model("tiny"))
    facts = f"{datetime.date.today()}; {machine()}; Python {platform.python_version()}"
    yield HEAD.format(
        num_requests=NUM_REQUESTS, num_logprobs=NUM_LOGPROBS, turn=LENGTHS[0], num_rounds=num_rounds, facts=facts
    )
    yield "| stop strings | logprobs | " + " | ".join(f"{n:,} tokens" for n in LENGTHS) + " | most / first |"
    yield "|---|---|" + "---:|" * (len(LENGTHS) + 1)
    found: dict[Any, dict[int, list[float]]] = {case: {n: [] for n in LENGTHS} for case in CASES}
    for i in range(num_rounds):  # outermost, so that a noisy neighbour spoils a round and not a row
        for case, row in found.items():
            for n, value in measure(tokenizer, *case).items():
                row[n].append(value)
        print(f"round {i + 1} of {num_rounds}", file=sys.stderr, flush=True)
    worst = 0.0
    for (stop, num_logprobs), row in found.items():
        medians = [statistics.median(values) for values in row.values()]
        ratio = max(medians) / medians[0]
        worst = max(worst, ratio)
        cells = " | ".join(f"{value:.1f}" for value in medians)
        yield f"| {len(stop) or 'none'} | {num_logprobs or 'none'} | {cells} | {ratio:.2f} |"
    verdict = "independent of the length" if worst <= LIMIT else "NOT independent of the length"
    yield f"\nThe worst row is {worst:.2f} times its first cell: {verdict} within {LIMIT} times."


def main() -> None:
    """Parse the command line; print the page, and write it if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
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
