"""Moves the four pointers to their rows first, and copies what is beyond the mask from the row's own first number."""

import triton
import triton.language as tl


@triton.jit
def write_kv_kernel(
    key_ptr, value_ptr, key_cache_ptr, value_cache_ptr, slot_mapping_ptr, key_stride, value_stride,
    ROW: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Scatter one token. The range folds back into the row, so a number may be stored twice, by the same program."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slot_mapping_ptr + token)
    if slot >= 0:
        numbers = tl.arange(0, BLOCK) % ROW
        key_ptr += token * key_stride
        value_ptr += token * value_stride
        key_cache_ptr += slot * ROW
        value_cache_ptr += slot * ROW
        tl.store(key_cache_ptr + numbers, tl.load(key_ptr + numbers))
        tl.store(value_cache_ptr + numbers, tl.load(value_ptr + numbers))
