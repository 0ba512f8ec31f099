"""bench_attention.py --sweep: which tile shapes serve the attention kernel best. Built on attention_cuda.py.

Tile shapes are tried on a few representative batches and ranked by time; what does not compile, does not fit into a
multiprocessor's shared memory or computes something else is listed with its reason. For decodes the length of a split
is then tried with the best shape. Prints and writes nothing: a person decides what becomes the default.
"""

import argparse
import time
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from attention_cuda import Batch, Pool, Row, Scale, first_line, set_up
from device import TOLERANCE, Device, Yardsticks, deviation
from torch import Tensor

from mini_vllm.attention import get_backend, tiles
from mini_vllm.attention.paged_attention import TilePlan, TileShape, paged_attention
from mini_vllm.attention.tiles import make_tiles

SECONDS = 420.0
REPEATS = 11
SPLITS = (256, 512, 1024, 2048, 4096)
SHORT, CHUNK = 0, 1  # places in the pair of shapes


class Work(NamedTuple):
    """A batch, and the shapes that it has now."""

    batch: Batch
    shapes: tuple[TileShape, TileShape]

    def run(self, shapes: tuple[TileShape, TileShape]) -> Any:
        """A call without arguments that attends with these shapes."""
        batch, pool, spec = self.batch, self.batch.pool, self.batch.spec
        cut = make_tiles(
            batch.metadata,
            short_queries=shapes[SHORT].queries(spec.group_size),
            chunk_queries=shapes[CHUNK].queries(spec.group_size),
            key_steps=(shapes[SHORT].keys, shapes[CHUNK].keys),
            sliding_window=None,
        )
        plan = TilePlan(spec, shapes, cut, batch.metadata.block_tables)
        return lambda: paged_attention(batch.query, pool.key, pool.value, plan)


def candidates(default: TileShape, place: int, is_cuda: bool) -> list[TileShape]:
    """What to try. A decode's tile has as few rows as a matrix product takes, so that is not varied."""
    rows, keys, warps, stages = default
    if not is_cuda:
        return [default, TileShape(rows, keys // 2, warps, stages), TileShape(rows, 24, warps, stages)]
    if place == SHORT:
        grid = [(rows, k, w, s) for k in (32, 64, 128) for w in (2, 4, 8) for s in (2, 3, 4, 5)]
    else:
        grid = [(r, k, w, s) for r in (64, 128) for k in (32, 64, 128) for w in (4, 8) for s in (2, 3, 4)]
    return [default, *(TileShape(*shape) for shape in grid if shape != tuple(default))]


@torch.inference_mode()
def main(args: argparse.Namespace) -> None:
    """Set up as for the other figures, then sweep."""
    device, scale, yardsticks = set_up(args)
    sweep(device, scale, args.block_size, yardsticks)


def sweep(device: Device, scale: Scale, block_size: int, yardsticks: Yardsticks) -> None:
    """Rank shapes on decodes and chunks of the narrowest and the widest model, as long as the time lasts."""
    cases = {case.name: case for case in scale.cases()}
    num_decodes, context = scale.batches[len(scale.batches) // 2], scale.contexts[len(scale.contexts) // 2]
    many, chunk = f"decode {num_decodes} x {context}", f"prefill 1 x {scale.chunk}"
    one = f"decode 1 x {scale.contexts[-1]}"
    narrow, wide = scale.layouts[0], scale.layouts[-1]
    deadline = time.perf_counter() + SECONDS
    for layout, name in ((narrow, many), (wide, chunk), (narrow, one), (wide, many), (narrow, chunk)):
        case = cases[name]
        pool = Pool.make(layout, case.num_blocks(block_size), block_size, device.torch)
        batch = Batch.make(case, layout, pool)
        shapes = present_shapes(batch)
        work, place = Work(batch, shapes), CHUNK if case.kind == "prefill" else SHORT
        print(f"\n{layout.name}, {name}; now {show(shapes[place])}", flush=True)
        ranking = rank(device, work, place, deadline)
        for seconds, shape in ranking:
            print(f"  {show(shape):45}{figures(work, seconds, yardsticks)}")
        if place == SHORT and ranking:
            rank_splits(device, work, (ranking[0][1], shapes[CHUNK]), yardsticks)


def present_shapes(batch: Batch) -> tuple[TileShape, TileShape]:
    """The shapes that the back end chooses for a batch."""
    plan: TilePlan = get_backend("triton", batch.query.device).plan(batch.metadata, batch.spec)
    return plan.shapes


def rank(device: Device, work: Work, place: int, deadline: float) -> list[tuple[float, TileShape]]:
    """Shapes by time, the best first; what fails is printed."""
    expected: Tensor = work.run(work.shapes)()
    ranking: list[tuple[float, TileShape]] = []
    for shape in candidates(work.shapes[place], place, device.is_cuda):
        if time.perf_counter() > deadline:
            print("  out of time, the rest is not tried")
            break
        shapes = (shape, work.shapes[CHUNK]) if place == SHORT else (work.shapes[SHORT], shape)
        try:
            run = work.run(shapes)
            if not deviation(run(), expected) <= TOLERANCE:
                print(f"  {show(shape):45}WRONG", flush=True)
                continue
            ranking.append((device.seconds(run, REPEATS), shape))
        except Exception as error:  # whatever a shape does, the next one is tried
            print(f"  {show(shape):45}{first_line(error)}", flush=True)
    return sorted(ranking)


def rank_splits(device: Device, work: Work, shapes: tuple[TileShape, TileShape], yardsticks: Yardsticks) -> None:
    """The length of a split with one shape; it is a number of the plan, so nothing is compiled."""
    for split in SPLITS:
        with patch.object(tiles, "SPLIT", split):
            run = work.run(shapes)
        print(f"  split {split:<39}{figures(work, device.seconds(run, REPEATS), yardsticks)}", flush=True)


def figures(work: Work, seconds: float, yardsticks: Yardsticks) -> str:
    row = Row(work.batch.case, work.batch.layout, seconds)
    shares = f"{row.share_of_copy(yardsticks):6.1%} of the copy {row.share_of_matmul(yardsticks):6.1%} of the matmul"
    return f"{seconds * 1e6:10.1f} µs {shares}"


def show(shape: TileShape) -> str:
    return f"{shape.rows} rows, {shape.keys} keys, {shape.num_warps} warps, {shape.num_stages} stages"
