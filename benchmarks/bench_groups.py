"""What groups of layers cost the host in a step of decodes: packing the batch, and planning its attention.

    python benchmarks/bench_groups.py [--num-tokens 1000] [--rounds 7] [--repeats 100] [--write]

The same requests once with one block table and once with one for each of six groups, five of which have a window. Times
are CPU time of the thread, since the machine may be shared.
"""

import argparse
import datetime
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

from mini_vllm.attention import AttentionSpec, PagedAttention, get_backend
from mini_vllm.attention.backend import make_cache
from mini_vllm.offload.hybrid.layout import tensors_of_layers
from mini_vllm.params import SamplingParams
from mini_vllm.step import SamplingRow, StepInput
from mini_vllm.worker.input_batch import InputBatch

CPU, BLOCK_SIZE, NUM_LAYERS, WINDOW = torch.device("cpu"), 16, 24, 512
GROUPS, NUM_SEQS = (1, 6), (64, 256)
RESULT = Path(__file__).parent / "results" / "groups.md"
PAGE = """# Host cost of groups of layers

What a step of decodes costs the host before the model runs: "pack" lays the batch out, "plan" cuts its attention into
the C rung's tiles. Contexts of {num_tokens:,} tokens, {layers} layers. One group has layers that see all. Six groups
have five with a window and one that sees all, so there are two kinds of layers and six block tables. CPU time of the
thread in one process, medians over {rounds} rounds of the median of {repeats} steps, which the two take in turn.
"""


def step_of(num_seqs: int, num_tokens: int, num_groups: int, is_new: bool) -> StepInput:
    """A step of one token each; is_new: the one that brings the requests and their blocks."""
    ids = tuple(map(str, range(num_seqs)))
    table = tuple(range(1, num_tokens // BLOCK_SIZE + 2))
    return StepInput(
        req_ids=ids,
        num_computed_tokens=(num_tokens,) * num_seqs,
        num_scheduled_tokens=(1,) * num_seqs,
        token_ids=(5,) * num_seqs,
        sample_req_ids=ids,
        sample_rows=tuple(range(num_seqs)),
        new_rows={each: SamplingRow(SamplingParams(), i) for i, each in enumerate(ids)} if is_new else {},
        new_block_ids=dict.fromkeys(ids, (table,) * num_groups) if is_new else {},
    )


def host_work(num_seqs: int, num_tokens: int, num_groups: int) -> tuple[Callable[[], object], Callable[[], object]]:
    """Pack a step; and plan the attention of what was packed."""
    batch = InputBatch(BLOCK_SIZE, CPU, num_groups)
    batch.update(step_of(num_seqs, num_tokens, num_groups, True))
    step, backend = step_of(num_seqs, num_tokens, num_groups, False), get_backend("auto", CPU)
    layer_groups = [layer % num_groups for layer in range(NUM_LAYERS)]
    windows = [WINDOW] * (num_groups - 1) + [None]
    specs = [AttentionSpec(8, 2, 64, 0.125, windows[group]) for group in layer_groups]
    shape = num_tokens // BLOCK_SIZE + 3, BLOCK_SIZE, 2, 64
    tensors = tensors_of_layers(layer_groups, NUM_LAYERS)
    pairs = [(make_cache(shape, backend.stride_order),) * 2 for _ in range(max(tensors) + 1)]
    caches = [pairs[tensor] for tensor in tensors]
    metadata = batch.pack(step).metadata
    return (
        lambda: batch.pack(step),
        lambda: PagedAttention(backend, caches, metadata, specs, layer_groups),
    )


def measure(num_seqs: int, num_tokens: int, repeats: int) -> dict[str, tuple[float, float]]:
    """Microseconds of pack and plan, each with one group and with six: medians, taken in turn."""
    work = {n: host_work(num_seqs, num_tokens, n) for n in GROUPS}
    found = {}
    for i, name in enumerate(("pack", "plan")):
        times: dict[int, list[int]] = {n: [] for n in work}
        for _ in range(repeats):
            for n, each in work.items():
                start = time.thread_time_ns()
                each[i]()
                times[n].append(time.thread_time_ns() - start)
        one, six = (statistics.median(times[n]) / 1000 for n in GROUPS)
        found[name] = one, six
    return found


def page(num_tokens: int, rounds: int, repeats: int) -> Iterator[str]:
    """The report: of each figure the median over the rounds."""
    yield PAGE.format(num_tokens=num_tokens, layers=NUM_LAYERS, rounds=rounds, repeats=repeats)
    yield f"{datetime.date.today()}; {machine()}; Python {platform.python_version()}, torch {torch.__version__}\n"
    yield "Again: `python benchmarks/bench_groups.py --write`\n"
    yield "| decodes | of the host | one group, µs | six groups, µs | times |\n|---:|---|---:|---:|---:|"
    for num_seqs in NUM_SEQS:
        all_rounds = [measure(num_seqs, num_tokens, repeats) for _ in range(rounds)]
        rows = {name: [each[name] for each in all_rounds] for name in ("pack", "plan")}
        rows["both"] = [tuple(map(sum, zip(*each.values(), strict=True))) for each in all_rounds]
        for name, pairs in rows.items():
            one, six = (statistics.median(times) for times in zip(*pairs, strict=True))
            ratio = statistics.median(b / a for a, b in pairs)
            yield f"| {num_seqs} | {name} | {one:,.0f} | {six:,.0f} | {ratio:.2f} |"


def machine() -> str:
    """The processor's name and how many of it; where it does not say, the system's."""
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    names = [line.partition(": ")[2] for line in info.splitlines() if line.startswith("model name")]
    return f"{names[0] if names else platform.processor() or platform.machine()}, {os.cpu_count()} cores"


def main() -> None:
    """Print the page, and write it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, value in (("--num-tokens", 1000), ("--rounds", 7), ("--repeats", 100)):
        parser.add_argument(name, type=int, default=value)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/groups.md")
    args = parser.parse_args()
    lines = list(page(args.num_tokens, args.rounds, args.repeats))
    print("\n".join(lines))
    if args.write:
        RESULT.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
