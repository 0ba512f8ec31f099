"""A helper copies one row in tiles of four numbers, and the kernel calls it twice; it ends early for padding."""

import triton
import triton.language as tl


@triton.jit
def copy_row(to_ptr, from_ptr, ROW: tl.constexpr):
    """ROW numbers, four at a time."""
    for start in range(0, ROW, 4):
        at = start + tl.arange(0, 4)
        tl.store(to_ptr + at, tl.load(from_ptr + at, mask=at < ROW), mask=at < ROW)


@triton.jit
def write_kv_kernel(
    key_ptr, value_ptr, key_cache_ptr, value_cache_ptr, slot_mapping_ptr, key_stride, value_stride,
    ROW: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Scatter one token."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slot_mapping_ptr + token)
    if slot < 0:
        return
    copy_row(key_cache_ptr + slot * ROW, key_ptr + token * key_stride, ROW)
    copy_row(value_cache_ptr + slot * ROW, value_ptr + token * value_stride, ROW)
