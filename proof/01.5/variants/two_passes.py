"""Finds the maximum in a first walk over the keys, and sums in a second one, so nothing is ever scaled down."""

import triton
import triton.language as tl

from mini_vllm.attention.numerics import round_to


@triton.jit
def block_scores(
    query, key_cache_ptr, table_ptr, block, begin, end, kv_head, scale,
    NUM_KV_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_SIZE: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Scores of the keys of one block, where they begin, and which are visible."""
    dims, offsets = tl.arange(0, BLOCK_D), tl.arange(0, BLOCK_N)
    positions = block * BLOCK_SIZE + offsets
    visible = (offsets < BLOCK_SIZE) & (positions >= begin) & (positions < end)
    slots = tl.load(table_ptr + block).to(tl.int64) * BLOCK_SIZE + offsets
    at = (slots[:, None] * NUM_KV_HEADS + kv_head) * HEAD_DIM + dims[None, :]
    keys = tl.load(key_cache_ptr + at, mask=visible[:, None] & (dims < HEAD_DIM)[None, :], other=0.0).to(tl.float32)
    scores = tl.sum(keys * query[None, :], axis=1) * scale
    return tl.where(visible, scores, -float("inf")), at, visible


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
    end = 0
    if request >= 0:
        after = tl.load(query_start_loc_ptr + request + 1) - row
        end = (tl.load(seq_lens_ptr + request) + 1 - after).to(tl.int32)
    begin = 0
    if sliding_window > 0:
        begin = tl.maximum(end - sliding_window, 0)
    query = tl.load(query_ptr + row * query_stride + head * HEAD_DIM + dims, mask=in_head, other=0.0).to(tl.float32)
    table_ptr = block_tables_ptr + request * table_stride
    top = -float("inf")
    for block in range(begin // BLOCK_SIZE, tl.cdiv(end, BLOCK_SIZE)):
        scores, at, visible = block_scores(
            query, key_cache_ptr, table_ptr, block, begin, end, head // GROUP_SIZE, scale,
            NUM_KV_HEADS, HEAD_DIM, BLOCK_SIZE, BLOCK_D, BLOCK_N,
        )  # fmt: skip
        top = tl.maximum(top, tl.max(scores, axis=0))
    total = 0.0
    summed = tl.zeros([BLOCK_D], tl.float32)
    for block in range(begin // BLOCK_SIZE, tl.cdiv(end, BLOCK_SIZE)):
        scores, at, visible = block_scores(
            query, key_cache_ptr, table_ptr, block, begin, end, head // GROUP_SIZE, scale,
            NUM_KV_HEADS, HEAD_DIM, BLOCK_SIZE, BLOCK_D, BLOCK_N,
        )  # fmt: skip
        weights = tl.exp(scores - top)
        values = tl.load(value_cache_ptr + at, mask=visible[:, None] & in_head[None, :], other=0.0).to(tl.float32)
        total += tl.sum(weights, axis=0)
        summed += tl.sum(weights[:, None] * values, axis=0)
    if total > 0:
        summed = summed / total
    tl.store(to_ptr, round_to(summed, output_ptr.dtype.element_ty), mask=in_head)
