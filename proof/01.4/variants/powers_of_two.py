"""Cuts the row into pieces whose lengths are powers of two, the largest first, so that no range is padded."""

import triton
import triton.language as tl


@triton.jit
def write_kv_kernel(
    key_ptr, value_ptr, key_cache_ptr, value_cache_ptr, slot_mapping_ptr, key_stride, value_stride,
    ROW: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Scatter one token: ROW = 6 is 4 numbers and 2."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slot_mapping_ptr + token)
    if slot < 0:
        return
    for bit in tl.static_range(12, -1, -1):
        if (ROW >> bit) & 1:
            numbers = (ROW >> (bit + 1) << (bit + 1)) + tl.arange(0, 1 << bit)
            tl.store(key_cache_ptr + slot * ROW + numbers, tl.load(key_ptr + token * key_stride + numbers))
            tl.store(value_cache_ptr + slot * ROW + numbers, tl.load(value_ptr + token * value_stride + numbers))
