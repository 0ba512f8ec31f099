"""The fast rung on a CPU: native/paged_attention.c, built for a dtype at its first use, called by
ctypes.

The plan of a step is that of the Triton rung, tiles of queries over spans of keys (tiles.py); a
thread takes one tile and one KV head at a time, as a program of a GPU does.
"""

import ctypes
import math
from collections.abc import Callable
from ctypes import c_float, c_int64, c_void_p
from functools import cache
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from mini_vllm.attention.backend import AttentionBackend, KVCache
from mini_vllm.attention.metadata import AttentionMetadata, AttentionSpec
from mini_vllm.attention.rotary import Rotation
from mini_vllm.attention.tiles import Tiles, make_tiles
from mini_vllm.native import SOURCES
from mini_vllm.native.c_compiler import find_library, launch

SOURCE = SOURCES / "paged_attention.c"
DTYPES = {torch.float32: "FLOAT32", torch.bfloat16: "BFLOAT16", torch.float16: "FLOAT16"}
LOG2E = 1 / math.log(2)  # exp(x) = exp2(x * LOG2E)
ROWS = 64  # of a tile: queries times the heads of a group


def fields(pointers: str, numbers: str) -> list[tuple[str, type]]:
    """Those of a Structure: pointers, then int64, by their names."""
    kinds = (pointers, c_void_p), (numbers, c_int64)
    return [(name, kind) for names, kind in kinds for name in names.split()]


class PlanStruct(ctypes.Structure):
    """Plan in paged_attention.c."""

    _fields_: ClassVar = [
        *fields(
            "output query key_cache value_cache block_tables chunk_tiles short_tiles merges "
            "partial partial_sums sinks",
            "query_stride table_stride num_chunk_tiles num_short_tiles num_merges partial_rows "
            "num_kv_heads group_size head_dim block_size window num_threads batch_invariant",
        ),
        ("scale", c_float),
    ]


class WriteStruct(ctypes.Structure):
    """Write in paged_attention.c."""

    _fields_: ClassVar = fields(
        "rotated key_cache value_cache query key value cos signed_sin slot_mapping",
        "query_stride key_stride value_stride num_tokens num_heads num_kv_heads head_dim "
        "block_size num_threads",
    )


def load_kernels(dtype: torch.dtype) -> ctypes.CDLL | str:
    """The library for queries and caches of this dtype, or why there is none."""
    return find_library(SOURCE, f"DTYPE={DTYPES[dtype]}")


def find_kernel(name: str, dtype: torch.dtype) -> Callable[..., object]:
    """ "attention" or "write_kv" for this dtype."""
    kernels = load_kernels(dtype)
    assert not isinstance(kernels, str), kernels
    function = kernels[name]
    function.restype = None
    return function


def why_not(device: torch.device, dtype: torch.dtype) -> str | None:
    """What keeps this rung from running on the device; builds the library for the dtype if there is
    none yet.
    """
    if device.type != "cpu":
        return "it runs on a CPU"
    kernels = load_kernels(dtype)
    return kernels if isinstance(kernels, str) else None


class CPlan(NamedTuple):
    """One step's work as C takes it, and the tensors that its pointers lead to."""

    spec: AttentionSpec
    struct: PlanStruct  # its last call's layer, too
    num_rows: int  # rows of the batch that belong to a request
    tensors: tuple[Tiles, Tensor, Tensor, Tensor]


class CBackend(AttentionBackend):
    """Tiles of queries over spans of keys on the threads of torch; rotation and cache write in one
    call.

    Keys of a head lie side by side in a block, so that a tile reads memory in long runs.
    """

    name = "c"
    cudagraph_support = "UNIFORM_BATCH"
    supports_sinks = True
    stride_order = (0, 2, 1, 3)

    def __init__(self) -> None:
        self._kernel = cache(find_kernel)

    def plan(self, metadata: AttentionMetadata, spec: AttentionSpec) -> CPlan:
        """Cut the batch into tiles.

        Keys come to a tile in any number, so a span begins where it must.
        """
        queries = max(1, ROWS // spec.group_size)
        tiles = make_tiles(
            metadata,
            short_queries=queries,
            chunk_queries=queries,
            key_steps=(1, 1),
            sliding_window=spec.sliding_window,
            batch_invariant=self.batch_invariant,
        )
        partial_rows = tiles.max_short_queries * spec.group_size
        places = tiles.num_partials, spec.num_kv_heads, partial_rows
        partial, partial_sums = (torch.empty(*places, size) for size in (spec.head_dim, 2))
        block_tables = metadata.block_tables
        struct = PlanStruct(
            **addresses(
                block_tables=block_tables,
                chunk_tiles=tiles.chunk_tiles,
                short_tiles=tiles.short_tiles,
                merges=tiles.merges,
                partial=partial,
                partial_sums=partial_sums,
            ),
            table_stride=block_tables.stride(0),
            num_chunk_tiles=len(tiles.chunk_tiles),
            num_short_tiles=len(tiles.short_tiles),
            num_merges=len(tiles.merges),
            partial_rows=partial_rows,
            num_kv_heads=spec.num_kv_heads,
            group_size=spec.group_size,
            head_dim=spec.head_dim,
            block_size=metadata.block_size,
            window=spec.sliding_window or 0,
            num_threads=torch.get_num_threads(),
            batch_invariant=self.batch_invariant,
            scale=spec.scale * LOG2E,
        )
        return CPlan(spec, struct, tiles.num_rows, (tiles, block_tables, partial, partial_sums))

    def update_block_table(
        self, plan: CPlan, metadata: AttentionMetadata, spec: AttentionSpec
    ) -> CPlan:
        """Another struct with the same tiles; layers run in turn, so partial results share their
        memory.
        """
        tables, (tiles, _, partial, sums) = metadata.block_tables, plan.tensors
        struct = PlanStruct.from_buffer_copy(plan.struct)
        struct.block_tables, struct.table_stride = tables.data_ptr(), tables.stride(0)
        return plan._replace(struct=struct, tensors=(tiles, tables, partial, sums))

    def write_kv(
        self,
        key: Tensor,
        value: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        metadata: AttentionMetadata,
    ) -> None:
        """One call for keys and values."""
        self._write(WriteStruct(), key, value, (key_cache, value_cache), metadata)

    def rotate_and_write_kv(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        rotation: Rotation,
        cache: KVCache,
        metadata: AttentionMetadata,
    ) -> Tensor:
        """One call for all of it."""
        query, rotated = with_plain_rows(query), torch.empty(query.shape, dtype=query.dtype)
        cos, signed_sin = rotation.cos.contiguous(), rotation.signed_sin.contiguous()
        pointers = addresses(rotated=rotated, query=query, cos=cos, signed_sin=signed_sin)
        turning = WriteStruct(**pointers, query_stride=query.stride(0), num_heads=query.shape[1])
        self._write(turning, key, value, cache, metadata)
        return rotated

    def _write(
        self,
        call: WriteStruct,
        key: Tensor,
        value: Tensor,
        cache: KVCache,
        metadata: AttentionMetadata,
    ) -> None:
        key, value = with_plain_rows(key), with_plain_rows(value)
        call.key, call.value = key.data_ptr(), value.data_ptr()
        call.key_stride, call.value_stride = key.stride(0), value.stride(0)
        call.key_cache, call.value_cache = (each.data_ptr() for each in cache)
        call.slot_mapping = metadata.slot_mapping.data_ptr()
        call.num_tokens, call.num_kv_heads, call.head_dim = key.shape
        call.block_size, call.num_threads = metadata.block_size, torch.get_num_threads()
        launch.get()(self._kernel("write_kv", key.dtype), call)

    def attend(self, query: Tensor, key_cache: Tensor, value_cache: Tensor, plan: CPlan) -> Tensor:
        """One call: chunks, decodes, and the merge of decodes whose keys were split."""
        query, output = with_plain_rows(query), torch.empty(query.shape, dtype=query.dtype)
        if plan.num_rows < len(output):
            output[plan.num_rows :] = 0
        call = plan.struct
        call.output = output.data_ptr()
        call.query = query.data_ptr()
        call.query_stride = query.stride(0)
        sinks = plan.spec.sinks
        call.sinks = None if sinks is None else sinks.data_ptr()
        call.key_cache, call.value_cache = key_cache.data_ptr(), value_cache.data_ptr()
        launch.get()(self._kernel("attention", query.dtype), call)
        return output


def addresses(**tensors: Tensor) -> dict[str, int]:
    """Where the tensors begin, by name."""
    return {name: tensor.data_ptr() for name, tensor in tensors.items()}


def with_plain_rows(x: Tensor) -> Tensor:
    """x [T, heads, head_dim], each of whose rows is one piece of memory: itself, as a model's views
    are, or a copy.
    """
    return x if x.stride()[1:] == (x.shape[2], 1) else x.contiguous()
