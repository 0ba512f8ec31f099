"""Tiles lie the other way round, [BLOCK_D, BLOCK_N], and blocks come from the last to the first, in powers of two."""

import triton
import triton.language as tl

from mini_vllm.attention.numerics import round_to


@triton.jit
def attend_row_kernel(
    output_ptr, query_ptr, key_cache_ptr, value_cache_ptr,
    request_of_row_ptr, query_start_loc_ptr, seq_lens_ptr, block_tables_ptr,
    scale, sliding_window, query_stride, table_stride,
    NUM_KV_HEADS: tl.constexpr, GROUP_SIZE: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_SIZE: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """One query head of one row."""
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    dims = tl.arange(0, BLOCK_D)
    in_head = dims < HEAD_DIM
    request = tl.load(request_of_row_ptr + row)
    to_ptr = output_ptr + (row * NUM_KV_HEADS * GROUP_SIZE + head) * HEAD_DIM + dims
    dims = dims[:, None]
    begin, end = 0, 0
    if request >= 0:
        end = (tl.load(seq_lens_ptr + request) - tl.load(query_start_loc_ptr + request + 1) + row + 1).to(tl.int32)
        begin = tl.where(sliding_window > 0, tl.maximum(end - sliding_window, 0), 0)
    query = tl.load(query_ptr + row * query_stride + head * HEAD_DIM + dims, mask=in_head[:, None], other=0.0)
    query = query.to(tl.float32) * scale
    offsets = tl.arange(0, BLOCK_N)
    last = (end - 1) // BLOCK_SIZE
    top, total = -float("inf"), 0.0
    summed = tl.zeros([BLOCK_D], tl.float32)
    if end > 0:
        for step in range(0, last - begin // BLOCK_SIZE + 1):
            column = last - step
            block = tl.load(block_tables_ptr + request * table_stride + column).to(tl.int64)
            first, behind = begin - column * BLOCK_SIZE, tl.minimum(end - column * BLOCK_SIZE, BLOCK_SIZE)
            visible = (offsets >= first) & (offsets < behind)
            at = ((block * BLOCK_SIZE + offsets)[None, :] * NUM_KV_HEADS + head // GROUP_SIZE) * HEAD_DIM + dims
            mask = visible[None, :] & in_head[:, None]
            scores = tl.sum(tl.load(key_cache_ptr + at, mask=mask, other=0.0).to(tl.float32) * query, axis=0)
            scores = tl.where(visible, scores * 1.4426950408889634, -float("inf"))
            higher = tl.maximum(top, tl.max(scores, axis=0))
            weights, factor = tl.exp2(scores - higher), tl.exp2(top - higher)
            values = tl.load(value_cache_ptr + at, mask=mask, other=0.0).to(tl.float32)
            total = total * factor + tl.sum(weights, axis=0)
            summed = summed * factor + tl.sum(values * weights[None, :], axis=1)
            top = higher
        summed = summed / total
    tl.store(to_ptr, round_to(summed, output_ptr.dtype.element_ty), mask=in_head)
