"""Key and value are the two rows of one tile of pointers."""

import triton
import triton.language as tl


@triton.jit
def write_kv_kernel(
    key_ptr, value_ptr, key_cache_ptr, value_cache_ptr, slot_mapping_ptr, key_stride, value_stride,
    ROW: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Scatter one token."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slot_mapping_ptr + token)
    numbers = tl.arange(0, BLOCK)[None, :]
    is_key = tl.arange(0, 2)[:, None] == 0
    source = tl.where(is_key, key_ptr + token * key_stride, value_ptr + token * value_stride) + numbers
    target = tl.where(is_key, key_cache_ptr, value_cache_ptr) + slot * ROW + numbers
    mask = (numbers < ROW) & (is_key | True) & (slot >= 0)
    tl.store(target, tl.load(source, mask=mask), mask=mask)
