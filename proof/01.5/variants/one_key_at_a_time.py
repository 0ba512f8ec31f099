"""Walks position by position with one key in hand, so nothing is padded but the head; ends early for empty rows."""

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
    length, start = 0, 0
    if request >= 0:
        first_row = tl.load(query_start_loc_ptr + request)
        num_rows = tl.load(query_start_loc_ptr + request + 1) - first_row
        length = (tl.load(seq_lens_ptr + request) - num_rows + (row - first_row) + 1).to(tl.int32)
        if sliding_window > 0 and length > sliding_window:
            start = length - sliding_window
    if length <= 0:
        tl.store(to_ptr, round_to(tl.zeros([BLOCK_D], tl.float32), output_ptr.dtype.element_ty), mask=in_head)
        return
    query = tl.load(query_ptr + row * query_stride + head * HEAD_DIM + dims, mask=in_head, other=0.0).to(tl.float32)
    top, total = -float("inf"), 0.0
    mean = tl.zeros([BLOCK_D], tl.float32)
    for position in range(start, length):
        block = tl.load(block_tables_ptr + request * table_stride + position // BLOCK_SIZE).to(tl.int64)
        slot = block * BLOCK_SIZE + position % BLOCK_SIZE
        at = (slot * NUM_KV_HEADS + head // GROUP_SIZE) * HEAD_DIM + dims
        key = tl.load(key_cache_ptr + at, mask=in_head, other=0.0).to(tl.float32)
        value = tl.load(value_cache_ptr + at, mask=in_head, other=0.0).to(tl.float32)
        score = tl.sum(query * key, axis=0) * scale
        higher = tl.maximum(top, score)
        total = total * tl.exp(top - higher) + tl.exp(score - higher)
        mean += (value - mean) * (tl.exp(score - higher) / total)
        top = higher
    tl.store(to_ptr, round_to(mean, output_ptr.dtype.element_ty), mask=in_head)
