"""Lab 01.4: Writing the cache, a kernel (30 minutes). What must hold is in contract.md."""

import triton
import triton.language as tl

from labkit import todo


@triton.jit
def write_kv_kernel(
    key_ptr, value_ptr, key_cache_ptr, value_cache_ptr, slot_mapping_ptr, key_stride, value_stride,
    ROW: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Scatter one token's key and value, all KV heads of it, to its slot.

    A negative slot is padding: nothing happens.

    Grid (T,): one program a token; BLOCK is the power of two that holds its ROW = num_kv_heads *
    head_dim numbers. key, value [T, num_kv_heads, head_dim], any float dtype, rows key_stride and
    value_stride elements apart, contiguous within; key_cache, value_cache [num_blocks, block_size,
    num_kv_heads, head_dim], same dtype, contiguous; slot_mapping [T] int64. Bytes moved: 4 * ROW *
    T * itemsize (each number read once and written once) and 8 * T.
    """
    todo("01.4")
