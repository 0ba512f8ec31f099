# === dims_by_keys_backwards
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


# === no_infinity
"""No number is infinite: the maximum starts at the first key's score, and weights out of sight are made 0 by hand."""

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
    kv_head = head // GROUP_SIZE
    top, total = 0.0, 0.0
    summed = tl.zeros([BLOCK_D], tl.float32)
    if end > 0:
        table = block_tables_ptr + request * table_stride
        first = tl.load(table + begin // BLOCK_SIZE).to(tl.int64) * BLOCK_SIZE + begin % BLOCK_SIZE
        key = tl.load(key_cache_ptr + (first * NUM_KV_HEADS + kv_head) * HEAD_DIM + dims, mask=in_head, other=0.0)
        top = tl.sum(key.to(tl.float32) * query, axis=0) * scale
        offsets = tl.arange(0, BLOCK_N)
        for column in range(begin // BLOCK_SIZE, (end + BLOCK_SIZE - 1) // BLOCK_SIZE):
            slots = tl.load(table + column).to(tl.int64) * BLOCK_SIZE + offsets
            past = column * BLOCK_SIZE + offsets
            visible = (offsets < BLOCK_SIZE) & (past < end) & (past >= begin)
            at = (slots[:, None] * NUM_KV_HEADS + kv_head) * HEAD_DIM + dims[None, :]
            mask = visible[:, None] & in_head[None, :]
            keys = tl.load(key_cache_ptr + at, mask=mask, other=0.0).to(tl.float32)
            scores = tl.where(visible, tl.sum(keys * query[None, :], axis=1) * scale, top)
            higher = tl.maximum(top, tl.max(scores, axis=0))
            weights = tl.where(visible, tl.exp(scores - higher), 0.0)
            values = tl.load(value_cache_ptr + at, mask=mask, other=0.0).to(tl.float32)
            total = total * tl.exp(top - higher) + tl.sum(weights, axis=0)
            summed = summed * tl.exp(top - higher) + tl.sum(weights[:, None] * values, axis=0)
            top = higher
        summed = summed / total
    to_ptr = output_ptr + (row * NUM_KV_HEADS * GROUP_SIZE + head) * HEAD_DIM + dims
    tl.store(to_ptr, round_to(summed, output_ptr.dtype.element_ty), mask=in_head)


# === one_key_at_a_time
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


# === tiles_from_the_window_on
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


# === two_passes
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
