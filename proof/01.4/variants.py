# === both_in_one_tile
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


# === number_by_number
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


# === padding_in_the_mask
"""No branch: padding makes the mask of both stores empty."""

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
    numbers = tl.arange(0, BLOCK)
    mask = (numbers < ROW) & (slot >= 0)
    to = slot * ROW + numbers
    tl.store(key_cache_ptr + to, tl.load(key_ptr + token * key_stride + numbers, mask), mask)
    tl.store(value_cache_ptr + to, tl.load(value_ptr + token * value_stride + numbers, mask), mask)


# === pointers_move_on
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


# === powers_of_two
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


# === tiles_and_a_helper
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
