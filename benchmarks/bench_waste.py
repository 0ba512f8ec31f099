#!/usr/bin/env python3
"""How much of the KV memory holds tokens: contiguous stretches against blocks, on the lengths of a trace of requests.

    python benchmarks/bench_waste.py                          lengths drawn to look like a chat service's
    python benchmarks/bench_waste.py --csv FILE               columns ContextTokens and GeneratedTokens
    python benchmarks/bench_waste.py --csv FILE --write       and into results/waste.md

FILE: a trace of github.com/Azure/AzurePublicDataset (CC BY 4.0; Patel et al., Splitwise, ISCA 2024), such as
AzureLLMInferenceTrace_conv.csv. All requests wait from the start, so memory alone decides how many run. The schemes are
those of Kwon et al. 2023: a stretch as long as the model allows, the next power of two, or exactly as long as it will
be (which no server can know); and blocks. Counting is exact and needs no clock: the same on every machine.
"""

import argparse
import csv
import datetime
import random
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from labkit.waste import ContiguousMemory, Job, KVMemory, PagedMemory, Usage, measure

RESULT = Path(__file__).resolve().parent / "results" / "waste.md"
NUM_REQUESTS = 2_000
NUM_SLOTS = 65_536
MAX_MODEL_LEN = 8_192
BLOCK_SIZES = (1, 8, 16, 32, 64, 128, 256, 1_024)


def drawn() -> list[Job]:
    """Long-tailed lengths, from a fixed seed: medians of 1,000 and 130 tokens."""
    rng = random.Random(0)
    jobs = [Job(int(rng.lognormvariate(6.9, 0.9)) + 1, int(rng.lognormvariate(4.9, 0.7)) + 1) for _ in range(50_000)]
    return [job for job in jobs if job.num_tokens <= MAX_MODEL_LEN][:NUM_REQUESTS]


def read(file: Path) -> list[Job]:
    """The first NUM_REQUESTS requests that the model's length allows."""
    with file.open(newline="", encoding="utf-8") as lines:
        jobs = [Job(int(row["ContextTokens"]), int(row["GeneratedTokens"])) for row in csv.DictReader(lines)]
    return [job for job in jobs if job.num_tokens <= MAX_MODEL_LEN][:NUM_REQUESTS]


def contiguous(reserve: Callable[[Job], int]) -> tuple[KVMemory, Callable[[Job], int]]:
    return ContiguousMemory(NUM_SLOTS), reserve


def paged(block_size: int) -> tuple[KVMemory, Callable[[Job], int]]:
    return PagedMemory(NUM_SLOTS, block_size), lambda job: job.prompt_len


def schemes() -> dict[str, tuple[KVMemory, Callable[[Job], int]]]:
    return {
        f"a stretch of {MAX_MODEL_LEN:,} tokens": contiguous(lambda job: MAX_MODEL_LEN),
        "a stretch of the next power of two": contiguous(lambda job: 1 << (job.num_tokens - 1).bit_length()),
        "a stretch of exactly its length": contiguous(lambda job: job.num_tokens),
        **{f"blocks of {size:,}": paged(size) for size in BLOCK_SIZES},
    }


def row(name: str, jobs: Sequence[Job], usages: Sequence[Usage], num_slots: int) -> str:
    """Shares of the slots, averaged over the steps while requests wait: after that nothing is short."""
    total_steps = sum(job.output_len + 1 for job in jobs)
    busy = usages[: max(1, len(usages) * 9 // 10)]
    shares = [100 * statistics.fmean(usage[i] for usage in busy) / num_slots for i in range(5)]
    cells = " | ".join(f"{share:.1f}" for share in shares)
    return f"| {name} | {cells} | {total_steps / len(usages):.1f} | {len(usages):,} |"


def main() -> None:
    """Print the table, and write it if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    jobs = read(args.csv) if args.csv else drawn()
    prompts, outputs = (sorted(job[i] for job in jobs) for i in (0, 1))
    name = args.csv.name if args.csv else "drawn"
    medians = [round(statistics.median(lengths)) for lengths in (prompts, outputs)]
    lines = [
        "# What the KV memory holds",
        "",
        f"{len(jobs):,} requests, all waiting from the start, in {NUM_SLOTS:,} slots; max_model_len {MAX_MODEL_LEN:,}.",
        f"Lengths: {name}; prompts of {prompts[0]:,} to {prompts[-1]:,} tokens (median {medians[0]:,}), outputs of "
        f"{outputs[0]:,} to {outputs[-1]:,} (median {medians[1]:,}).",
        "",
        "Shares of the slots, averaged over the first nine tenths of the steps, and how many requests run at once.",
        "",
        "| each request holds | slots with a token, % | reserved, % | wasted, % | stranded, % | free, % "
        "| requests running | steps |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for scheme, (memory, reserve) in schemes().items():
        lines.append(row(scheme, jobs, measure(memory, jobs, reserve), memory.num_slots))
    print("\n".join(lines))
    if args.write:
        lines += ["", f"{datetime.date.today()}; counted, so any machine gives the same.", ""]
        lines += [
            "Again: `python benchmarks/bench_waste.py --csv FILE --write`; the script says where FILE is from.",
            "",
        ]
        RESULT.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
