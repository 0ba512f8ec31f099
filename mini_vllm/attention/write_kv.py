"""Storing keys and values in the paged cache, as Triton kernels: alone, and fused with the turning
of both.

A token's slot says where it goes: slot = block_id * block_size + offset, so slot s of a contiguous
cache [num_blocks, block_size, num_kv_heads, head_dim] starts at element s * num_kv_heads *
head_dim. Source: reshape_and_cache_kernel_flash in
vllm/v1/attention/ops/triton_reshape_and_cache_flash.py.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from mini_vllm.attention.numerics import launch, round_to
from mini_vllm.attention.rotary import Rotation


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
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slot_mapping_ptr + token)
    if slot >= 0:
        lanes = tl.arange(0, BLOCK)
        mask = lanes < ROW
        key = tl.load(key_ptr + token * key_stride + lanes, mask=mask)
        value = tl.load(value_ptr + token * value_stride + lanes, mask=mask)
        tl.store(key_cache_ptr + slot * ROW + lanes, key, mask=mask)
        tl.store(value_cache_ptr + slot * ROW + lanes, value, mask=mask)


@triton.jit
def rotate_and_write_kv_kernel(
    rotated_ptr, query_ptr, key_ptr, value_ptr, cos_ptr, signed_sin_ptr,
    key_cache_ptr, value_cache_ptr, slot_mapping_ptr, query_stride, key_stride, value_stride,
    NUM_HEADS: tl.constexpr, NUM_KV_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr,
    BLOCK_HEADS: tl.constexpr, BLOCK_KV_HEADS: tl.constexpr, BLOCK_HALF: tl.constexpr,
):  # fmt: skip
    """Turn one token's query and key by its position; store key and value at its slot, unless that
    is negative.

    Grid (T,): one program a token; its heads are tiles [BLOCK_HEADS or BLOCK_KV_HEADS, BLOCK_HALF],
    once for the first half of the channels and once for the second, the BLOCKs being the next
    powers of two. query [T, NUM_HEADS, HEAD_DIM], key and value [T, NUM_KV_HEADS, HEAD_DIM], rows
    *_stride elements apart, contiguous within; rotated [T, NUM_HEADS, HEAD_DIM] contiguous; cos,
    signed_sin [T, HEAD_DIM]; caches and slot_mapping as for write_kv_kernel. All of one dtype;
    computed in float32, rounded once. Bytes moved: T * HEAD_DIM * itemsize * (2 * NUM_HEADS + 4 *
    NUM_KV_HEADS + 1) and 8 * T.
    """
    token = tl.program_id(0).to(tl.int64)
    half = tl.arange(0, BLOCK_HALF)
    is_half = half < HEAD_DIM // 2
    # cos is the same in both halves of the channels, and so is sin but for the sign.
    cos = tl.load(cos_ptr + token * HEAD_DIM + half, mask=is_half, other=0.0).to(tl.float32)
    sin = tl.load(
        signed_sin_ptr + token * HEAD_DIM + HEAD_DIM // 2 + half, mask=is_half, other=0.0
    ).to(tl.float32)
    turn(
        rotated_ptr + token * (NUM_HEADS * HEAD_DIM), query_ptr + token * query_stride, cos, sin,
        NUM_HEADS, HEAD_DIM, BLOCK_HEADS, BLOCK_HALF,
    )  # fmt: skip
    slot = tl.load(slot_mapping_ptr + token)
    if slot >= 0:
        row = slot * (NUM_KV_HEADS * HEAD_DIM)
        turn(
            key_cache_ptr + row, key_ptr + token * key_stride, cos, sin,
            NUM_KV_HEADS, HEAD_DIM, BLOCK_KV_HEADS, BLOCK_HALF,
        )  # fmt: skip
        numbers = tl.arange(0, BLOCK_KV_HEADS * BLOCK_HALF * 2)
        mask = numbers < NUM_KV_HEADS * HEAD_DIM
        value = tl.load(value_ptr + token * value_stride + numbers, mask=mask)
        tl.store(value_cache_ptr + row + numbers, value, mask=mask)


@triton.jit
def turn(
    to_ptr, from_ptr, cos, sin,
    NUM_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_HEADS: tl.constexpr,
    BLOCK_HALF: tl.constexpr,
):  # fmt: skip
    """Read the NUM_HEADS heads of a token, write their halves (a, b) as (a cos - b sin, b cos + a
    sin).
    """
    heads, half = tl.arange(0, BLOCK_HEADS)[:, None], tl.arange(0, BLOCK_HALF)[None, :]
    first = heads * HEAD_DIM + half
    second = first + HEAD_DIM // 2
    mask = (heads < NUM_HEADS) & (half < HEAD_DIM // 2)
    a = tl.load(from_ptr + first, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(from_ptr + second, mask=mask, other=0.0).to(tl.float32)
    tl.store(
        to_ptr + first,
        round_to(a * cos[None, :] - b * sin[None, :], to_ptr.dtype.element_ty),
        mask=mask,
    )
    tl.store(
        to_ptr + second,
        round_to(b * cos[None, :] + a * sin[None, :], to_ptr.dtype.element_ty),
        mask=mask,
    )


def write_kv(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor
) -> None:
    """Launch write_kv_kernel: key and value [T, num_kv_heads, head_dim] to their slots; -1 is
    skipped.
    """
    row = key.shape[1] * key.shape[2]
    if len(key):
        launch(
            write_kv_kernel, (len(key),),
            key, value, key_cache, value_cache, slot_mapping, key.stride(0), value.stride(0),
            ROW=row, BLOCK=triton.next_power_of_2(row),
        )  # fmt: skip


def rotate_and_write_kv(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    rotation: Rotation,
    key_cache: Tensor,
    value_cache: Tensor,
    slot_mapping: Tensor,
) -> Tensor:
    """Launch rotate_and_write_kv_kernel; returns the turned query [T, num_heads, head_dim].

    The torch form is apply_rotary of query and key, then write_kv: about ten kernels where this is
    one.
    """
    rotated = torch.empty(query.shape, dtype=query.dtype, device=query.device)
    num_tokens, num_heads, head_dim = query.shape
    num_kv_heads = key.shape[1]
    if num_tokens:
        launch(
            rotate_and_write_kv_kernel, (num_tokens,),
            rotated, query, key, value, rotation.cos, rotation.signed_sin, key_cache, value_cache,
            slot_mapping,
            query.stride(0), key.stride(0), value.stride(0),
            NUM_HEADS=num_heads, NUM_KV_HEADS=num_kv_heads, HEAD_DIM=head_dim,
            BLOCK_HEADS=triton.next_power_of_2(num_heads),
            BLOCK_KV_HEADS=triton.next_power_of_2(num_kv_heads),
            BLOCK_HALF=triton.next_power_of_2(head_dim // 2),
        )  # fmt: skip
    return rotated
