"""The first Triton rung: reference.py again, with a GPU's programs in the place of its loops over
rows and heads.

Each program takes one row of the batch and one query head, walks the block table of that row's
request and builds the softmax up as the blocks come by. Every key is read once per query head and
row, so it is slow (a KV head's group reads the same keys several times, and no matrix unit is
used); it is here to be read, and what phase 01 starts from.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from mini_vllm.attention.backend import AttentionBackend
from mini_vllm.attention.metadata import AttentionMetadata, AttentionSpec, ragged, to_device
from mini_vllm.attention.numerics import round_to
from mini_vllm.attention.write_kv import write_kv


@triton.jit
def attend_row_kernel(
    output_ptr, query_ptr, key_cache_ptr, value_cache_ptr,
    request_of_row_ptr, query_start_loc_ptr, seq_lens_ptr, block_tables_ptr,
    scale, sliding_window, query_stride, table_stride,
    NUM_KV_HEADS: tl.constexpr, GROUP_SIZE: tl.constexpr, HEAD_DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """One query head of one row over the positions that it sees.

    Grid (T, num_heads). The tile is one KV block of one head, [BLOCK_N, BLOCK_D]: BLOCK_SIZE keys
    of HEAD_DIM numbers, each rounded up to a power of two. query [T, num_heads, HEAD_DIM], rows
    query_stride elements apart; output the same, contiguous; caches [num_blocks, BLOCK_SIZE,
    NUM_KV_HEADS, HEAD_DIM] contiguous; all of one float dtype, computed in float32. request_of_row
    [T] int64, -1 for rows of no request, which become 0; query_start_loc [B + 1], seq_lens [B],
    block_tables [B, table_stride] int32. sliding_window: 0 for none. Bytes moved: each program
    reads HEAD_DIM * 2 * itemsize for every key in sight.
    """
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    # grouped-query attention: the query heads of one group share a KV head
    kv_head = head // GROUP_SIZE
    dims = tl.arange(0, BLOCK_D)
    is_dim = dims < HEAD_DIM
    query = tl.load(
        query_ptr + row * query_stride + head * HEAD_DIM + dims, mask=is_dim, other=0.0
    ).to(tl.float32)

    begin, end, request = 0, 0, tl.load(request_of_row_ptr + row)
    if request >= 0:
        # this row and those of the request behind it
        rows_after = tl.load(query_start_loc_ptr + request + 1) - row
        end = (tl.load(seq_lens_ptr + request) - rows_after + 1).to(
            tl.int32
        )  # causal: a token sees itself and the past
        if sliding_window > 0:
            begin = tl.maximum(end - sliding_window, 0)

    maximum, normaliser = -float("inf"), 0.0
    weighted_sum = tl.zeros([BLOCK_D], tl.float32)
    for block in range(begin // BLOCK_SIZE, tl.cdiv(end, BLOCK_SIZE)):
        block_id = tl.load(block_tables_ptr + request * table_stride + block).to(tl.int64)
        offsets = tl.arange(0, BLOCK_N)
        positions = block * BLOCK_SIZE + offsets
        visible = (offsets < BLOCK_SIZE) & (positions >= begin) & (positions < end)
        slots = block_id * BLOCK_SIZE + offsets
        numbers = (slots[:, None] * NUM_KV_HEADS + kv_head) * HEAD_DIM + dims[None, :]
        mask = visible[:, None] & is_dim[None, :]
        keys = tl.load(key_cache_ptr + numbers, mask=mask, other=0.0).to(tl.float32)
        values = tl.load(value_cache_ptr + numbers, mask=mask, other=0.0).to(tl.float32)

        scores = tl.sum(keys * query[None, :], axis=1) * scale
        scores = tl.where(visible, scores, -float("inf"))

        # Online softmax: what was summed before is scaled down when a block raises the maximum.
        new_maximum = tl.maximum(maximum, tl.max(scores, axis=0))
        correction = tl.exp(maximum - new_maximum)
        weights = tl.exp(scores - new_maximum)
        normaliser = normaliser * correction + tl.sum(weights, axis=0)
        weighted_sum = weighted_sum * correction + tl.sum(weights[:, None] * values, axis=0)
        maximum = new_maximum

    # 0 for a row that sees nothing
    result = weighted_sum / tl.where(normaliser > 0.0, normaliser, 1.0)
    output_ptr += (row * NUM_KV_HEADS * GROUP_SIZE + head) * HEAD_DIM
    tl.store(output_ptr + dims, round_to(result, output_ptr.dtype.element_ty), mask=is_dim)


class RowsPlan(NamedTuple):
    """One step, row by row: whose each is, and what its request has in the cache."""

    spec: AttentionSpec
    request_of_row: Tensor  # [T] int64, -1 for rows of no request
    query_start_loc: Tensor  # [B + 1] int32
    seq_lens: Tensor  # [B] int32
    block_tables: Tensor  # [B, max_blocks] int32


def plan_rows(metadata: AttentionMetadata, spec: AttentionSpec) -> RowsPlan:
    """Find the request of each row of the batch."""
    request_of_row = np.full(len(metadata.slot_mapping), -1, np.int64)
    owner, _ = ragged(metadata.query_lens_cpu)
    request_of_row[: len(owner)] = owner
    on_device = to_device(request_of_row, metadata.slot_mapping.device)
    return RowsPlan(
        spec, on_device, metadata.query_start_loc, metadata.seq_lens, metadata.block_tables
    )


def attend_rows(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    plan: RowsPlan,
    output: Tensor | None = None,
) -> Tensor:
    """Launch attend_row_kernel for every row and head. output: where to write, contiguous and like
    query.
    """
    spec, *tables = plan
    if output is None:
        output = torch.empty(query.shape, dtype=query.dtype, device=query.device)
    if len(query):
        attend_row_kernel[(len(query), spec.num_heads)](
            output, query, key_cache, value_cache, *tables,
            spec.scale, spec.sliding_window or 0, query.stride(0), plan.block_tables.stride(0),
            NUM_KV_HEADS=spec.num_kv_heads, GROUP_SIZE=spec.group_size, HEAD_DIM=spec.head_dim,
            BLOCK_SIZE=key_cache.shape[1], BLOCK_D=triton.next_power_of_2(spec.head_dim),
            BLOCK_N=triton.next_power_of_2(key_cache.shape[1]),
        )  # fmt: skip
    return output


class SimpleTritonBackend(AttentionBackend):
    """One query row and one head a program."""

    name = "triton-simple"

    def plan(self, metadata: AttentionMetadata, spec: AttentionSpec) -> RowsPlan:
        """The request of each row."""
        return plan_rows(metadata, spec)

    def update_block_table(
        self, plan: Any, metadata: AttentionMetadata, spec: AttentionSpec
    ) -> Any:
        """All else is the same, in the plans of the rungs above, too."""
        return plan._replace(block_tables=metadata.block_tables)

    def write_kv(
        self,
        key: Tensor,
        value: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        metadata: AttentionMetadata,
    ) -> None:
        """One program a token."""
        write_kv(key, value, key_cache, value_cache, metadata.slot_mapping)

    def attend(
        self, query: Tensor, key_cache: Tensor, value_cache: Tensor, plan: RowsPlan
    ) -> Tensor:
        """One program a row and head."""
        return attend_rows(query, key_cache, value_cache, plan)
