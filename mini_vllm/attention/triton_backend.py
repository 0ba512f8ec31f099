"""The fast rung: Triton kernels on a GPU, or in Triton's interpreter on a CPU.

The kernels are in paged_attention.py and write_kv.py; here stand the sizes of their tiles and the
plan of the step.
"""

from typing import Any

import torch
import triton
from torch import Tensor

from mini_vllm.attention.backend import KVCache
from mini_vllm.attention.metadata import AttentionMetadata, AttentionSpec
from mini_vllm.attention.numerics import INTERPRETED
from mini_vllm.attention.paged_attention import TilePlan, TileShape, paged_attention
from mini_vllm.attention.rotary import Rotation
from mini_vllm.attention.tiles import make_tiles
from mini_vllm.attention.triton_simple import SimpleTritonBackend
from mini_vllm.attention.write_kv import rotate_and_write_kv

# What a program holds grows with the width of a head, so by the head_dim that is rounded up to:
# keys a step, warps and stages; a chunk's begin with the rows. benchmarks/results/kernels.md has
# the registers and shared memory of each. The tiles of width 128 were the fastest on an H200.
# Before Hopper operands are in registers: more of them spill.
SHORT_TILES = {64: (64, 4, 3), 128: (128, 4, 2), 256: (32, 4, 3)}  # rows follow the group
CHUNK_TILES = {64: (128, 64, 8, 3), 128: (128, 128, 8, 2), 256: (64, 32, 8, 2)}
TILES_BEFORE_HOPPER = SHORT_TILES | {128: (64, 4, 3)}, CHUNK_TILES | {128: (128, 32, 8, 2)}
FLOAT32_SHORT_TILES = {64: (32, 4, 2), 128: (16, 4, 2), 256: (16, 4, 2)}
FLOAT32_CHUNK_TILES = {64: (32, 32, 4, 2), 128: (16, 16, 4, 2), 256: (16, 16, 4, 2)}
HOPPER = 9  # major number of the compute capability
MIN_ROWS = 16  # of a matrix product on a GPU
# of so many rows, as with one KV head for 64 query heads, the sums need the registers of more warps
MANY_ROWS = 64


def tile_shapes(
    head_dim: int, group_size: int, dtype: torch.dtype, generation: int
) -> tuple[TileShape, TileShape]:
    """The tiles for short requests and for chunks.

    They depend on model and GPU, never on the batch: see tiles.py.
    """
    width = max(64, triton.next_power_of_2(head_dim))
    rows = max(MIN_ROWS, triton.next_power_of_2(group_size))
    short, chunk = (SHORT_TILES, CHUNK_TILES) if generation >= HOPPER else TILES_BEFORE_HOPPER
    if dtype == torch.float32:
        short, chunk = FLOAT32_SHORT_TILES, FLOAT32_CHUNK_TILES
    of_short, (chunk_rows, *of_chunk) = [*short[width]], chunk[width]
    if rows >= MANY_ROWS:
        of_short = [min(of_short[0], MANY_ROWS), 8, 2]
        if dtype == torch.float32:  # keys that wait in registers spill
            of_short = of_chunk = [of_short[0], 8, 1]
    return TileShape(rows, *of_short), TileShape(max(rows, chunk_rows), *of_chunk)


class TritonBackend(SimpleTritonBackend):
    """Tensor-core attention over pages, keys split for decodes; rotation and cache write in one
    kernel.

    generation: of the GPU that the tiles are chosen for, the major number of its compute
    capability; None for the one that the tensors are on.
    """

    name = "triton"
    cudagraph_support = "ALWAYS"  # all that a launch needs to know of the batch is in its tiles
    supports_sinks = True

    def __init__(self, generation: int | None = None) -> None:
        self.generation = generation

    def plan(self, metadata: AttentionMetadata, spec: AttentionSpec) -> Any:
        """Choose tiles for the layer and the GPU, cut the batch into them, send the cut to the
        device.
        """
        device = metadata.block_tables.device
        if self.generation is None:
            self.generation = (
                torch.cuda.get_device_capability(device)[0] if device.type == "cuda" else HOPPER
            )
        short, chunk = shapes = tile_shapes(
            spec.head_dim, spec.group_size, spec.dtype, self.generation
        )
        # the interpreter's product of NumPy has other bits for a row at another place of a tile
        has_places = self.batch_invariant and INTERPRETED
        tiles = make_tiles(
            metadata,
            short_queries=short.queries(spec.group_size),
            chunk_queries=1 if has_places else chunk.queries(spec.group_size),
            key_steps=(short.keys, chunk.keys),
            sliding_window=spec.sliding_window,
            batch_invariant=self.batch_invariant,
        )
        return TilePlan(spec, shapes, tiles, metadata.block_tables)

    def rotate_and_write_kv(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        rotation: Rotation,
        cache: KVCache,
        metadata: AttentionMetadata,
    ) -> Tensor:
        """One kernel for all of it."""
        return rotate_and_write_kv(query, key, value, rotation, *cache, metadata.slot_mapping)

    def attend(self, query: Tensor, key_cache: Tensor, value_cache: Tensor, plan: Any) -> Tensor:
        """Chunks, decodes and the merge of split decodes: at most three launches."""
        return paged_attention(query, key_cache, value_cache, plan)
