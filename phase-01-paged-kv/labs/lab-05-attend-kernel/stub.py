"""Lab 01.5: Attention, a kernel (90 minutes). What must hold is in contract.md."""

import triton
import triton.language as tl

from labkit import todo
from mini_vllm.attention.numerics import round_to


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
    todo("01.5")
