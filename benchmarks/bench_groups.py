"""What groups of layers cost the host in a step of decodes: packing the batch, and planning its attention.

    python benchmarks/bench_groups.py [--num-seqs 64] [--num-tokens 1000] [--repeats 200]

The same requests once with one block table and once with one for each of six groups, five of which have a window. Each
figure is a median, and the ratio is that of the two in the same run, which take turns.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

from mini_vllm.attention import AttentionSpec, PagedAttention, get_backend
from mini_vllm.attention.backend import make_cache
from mini_vllm.params import SamplingParams
from mini_vllm.step import SamplingRow, StepInput
from mini_vllm.worker.input_batch import InputBatch

CPU, BLOCK_SIZE, NUM_LAYERS, WINDOW = torch.device("cpu"), 16, 24, 512


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
    caches = [(make_cache(shape, backend.stride_order),) * 2] * NUM_LAYERS
    metadata = batch.pack(step).metadata
    return (
        lambda: batch.pack(step),
        lambda: PagedAttention(backend, caches, metadata, specs, layer_groups),
    )


def main() -> None:
    """Print both figures for one group and for six, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, value in (("--num-seqs", 64), ("--num-tokens", 1000), ("--repeats", 200)):
        parser.add_argument(name, type=int, default=value)
    args = parser.parse_args()
    work = {n: host_work(args.num_seqs, args.num_tokens, n) for n in (1, 6)}
    for i, name in enumerate(("pack", "plan")):
        times: dict[int, list[float]] = {n: [] for n in work}
        for _ in range(args.repeats):
            for n, each in work.items():
                start = time.perf_counter()
                each[i]()
                times[n].append(time.perf_counter() - start)
        one, six = (statistics.median(times[n]) for n in (1, 6))
        print(f"{name}: {one * 1e6:,.0f} us with one group, {six * 1e6:,.0f} us with six: {six / one:.2f} times")


if __name__ == "__main__":
    main()
