"""A loop over single numbers, which needs neither a range nor a mask."""

import triton
import triton.language as tl


@triton.jit
def write_kv_kernel(
    key_ptr, value_ptr, key_cache_ptr, value_cache_ptr, slot_mapping_ptr, key_stride, value_stride,
    ROW: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Scatter one token, a number at a time."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slot_mapping_ptr + token)
    if slot >= 0:
        for i in range(ROW):
            tl.store(key_cache_ptr + slot * ROW + i, tl.load(key_ptr + token * key_stride + i))
            tl.store(value_cache_ptr + slot * ROW + i, tl.load(value_ptr + token * value_stride + i))
