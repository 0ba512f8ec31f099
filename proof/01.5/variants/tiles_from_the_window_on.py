"""Tiles begin at the start of the window and not at a block: each position of a tile looks up its own block."""

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
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    dims = tl.arange(0, BLOCK_D)
    in_head = dims < HEAD_DIM
    request = tl.load(request_of_row_ptr + row)
    begin, end = 0, 0
    if request >= 0:
        later = tl.load(query_start_loc_ptr + request + 1) - row - 1
        end = tl.maximum(tl.load(seq_lens_ptr + request) - later, 0).to(tl.int32)
        if sliding_window > 0:
            begin = tl.maximum(end - sliding_window, 0)
    query = tl.load(query_ptr + row * query_stride + head * HEAD_DIM + dims, mask=in_head, other=0.0).to(tl.float32)
    top, total = -float("inf"), 0.0
    summed = tl.zeros([BLOCK_D], tl.float32)
    for start in range(begin, end, BLOCK_N):
        positions = start + tl.arange(0, BLOCK_N)
        visible = positions < end
        table = block_tables_ptr + request * table_stride
        blocks = tl.load(table + positions // BLOCK_SIZE, mask=visible, other=0).to(tl.int64)
        slots = blocks * BLOCK_SIZE + positions % BLOCK_SIZE
        at = (slots * NUM_KV_HEADS + head // GROUP_SIZE)[:, None] * HEAD_DIM + dims[None, :]
        mask = visible[:, None] & in_head[None, :]
        keys = tl.load(key_cache_ptr + at, mask=mask, other=0.0).to(tl.float32)
        values = tl.load(value_cache_ptr + at, mask=mask, other=0.0).to(tl.float32)
        scores = tl.where(visible, tl.sum(keys * query[None, :], axis=1) * scale, -float("inf"))
        higher = tl.maximum(top, tl.max(scores, axis=0))
        weights, factor = tl.exp(scores - higher), tl.exp(top - higher)
        total = total * factor + tl.sum(weights, axis=0)
        summed = summed * factor + tl.sum(weights[:, None] * values, axis=0)
        top = higher
    if end > 0:
        summed = summed / total
    to_ptr = output_ptr + (row * NUM_KV_HEADS * GROUP_SIZE + head) * HEAD_DIM + dims
    tl.store(to_ptr, round_to(summed, output_ptr.dtype.element_ty), mask=in_head)
