"""The fused kernels of fused.py. All compute in float32 and round where the torch forms round."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from mini_vllm.attention.numerics import round_to

ELEMENTS = 1024  # that a program of the RMSNorm takes at least: narrow rows share one
SILU_BLOCK = 1024


@triton.jit(do_not_specialize=["num_rows"])
def rms_norm_kernel(
    output_ptr, x_ptr, residual_ptr, weight_ptr, eps, num_rows, outer_stride, inner_stride,
    INNER: tl.constexpr, SIZE: tl.constexpr, ADD: tl.constexpr, BLOCK_ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """RMSNorm of rows of SIZE numbers; with ADD, of residual + x, and residual is overwritten by
    that sum.

    Grid (cdiv(num_rows, BLOCK_ROWS),); the tile is [BLOCK_ROWS, BLOCK], BLOCK the power of two that
    holds SIZE. x [num_rows / INNER, INNER, SIZE], its first two dimensions outer_stride and
    inner_stride elements apart, the last contiguous; output and residual [num_rows, SIZE]
    contiguous; weight [SIZE]; all of one dtype. Bytes moved: 2 * num_rows * SIZE * itemsize, twice
    that with ADD.
    """
    rows = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS).to(tl.int64)
    numbers = tl.arange(0, BLOCK)
    mask = (rows < num_rows)[:, None] & (numbers < SIZE)[None, :]
    at = (rows // INNER * outer_stride + rows % INNER * inner_stride)[:, None] + numbers[None, :]
    to = rows[:, None] * SIZE + numbers[None, :]
    dtype: tl.constexpr = output_ptr.dtype.element_ty
    x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    if ADD:
        summed = round_to(
            x + tl.load(residual_ptr + to, mask=mask, other=0.0).to(tl.float32), dtype
        )
        tl.store(residual_ptr + to, summed, mask=mask)
        x = summed.to(tl.float32)
    mean_square = tl.sum(x * x, axis=1) / SIZE
    normalised = round_to(x * tl.rsqrt(mean_square + eps)[:, None], dtype).to(tl.float32)
    weight = tl.load(weight_ptr + numbers, mask=numbers < SIZE, other=0.0).to(tl.float32)
    tl.store(output_ptr + to, round_to(normalised * weight[None, :], dtype), mask=mask)


@triton.jit
def silu_mul_kernel(output_ptr, gate_up_ptr, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """silu(gate) * up. Grid (T, cdiv(SIZE, BLOCK)); a program takes BLOCK numbers of a row.

    gate_up [T, 2 * SIZE] contiguous, gate first; output [T, SIZE]. Bytes moved: 3 * T * SIZE *
    itemsize.
    """
    row = tl.program_id(0).to(tl.int64)
    numbers = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = numbers < SIZE
    dtype: tl.constexpr = output_ptr.dtype.element_ty
    gate = tl.load(gate_up_ptr + row * 2 * SIZE + numbers, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(gate_up_ptr + row * 2 * SIZE + SIZE + numbers, mask=mask, other=0.0).to(tl.float32)
    activated = round_to(gate / (1.0 + tl.exp(-gate)), dtype).to(tl.float32)
    tl.store(output_ptr + row * SIZE + numbers, round_to(activated * up, dtype), mask=mask)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """fused.rms_norm for x [..., size], at most two leading dimensions that are not contiguous."""
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    _launch_rms_norm(
        output, x if x.dim() == 3 else x.reshape(-1, 1, x.shape[-1]), None, weight, eps
    )
    return output


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """fused.add_rms_norm for x and residual [T, size]; residual is overwritten by the sum."""
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    _launch_rms_norm(output, x[:, None], residual, weight, eps)
    return output, residual


def _launch_rms_norm(
    output: Tensor, x: Tensor, residual: Tensor | None, weight: Tensor, eps: float
) -> None:
    outer, inner, size = x.shape
    block = triton.next_power_of_2(size)
    block_rows = max(1, ELEMENTS // block)
    if outer:
        rms_norm_kernel[(triton.cdiv(outer * inner, block_rows),)](
            output, x, output if residual is None else residual, weight, eps, outer * inner,
            x.stride(0), x.stride(1),
            INNER=inner, SIZE=size, ADD=residual is not None, BLOCK_ROWS=block_rows, BLOCK=block,
            num_warps=4 if block <= 4096 else 8,
        )  # fmt: skip


def silu_mul(gate_up: Tensor) -> Tensor:
    """fused.silu_mul for gate_up [T, 2 * size]."""
    num_rows, size = gate_up.shape[0], gate_up.shape[1] // 2
    output = torch.empty(num_rows, size, dtype=gate_up.dtype, device=gate_up.device)
    if num_rows:
        silu_mul_kernel[(num_rows, triton.cdiv(size, SILU_BLOCK))](
            output, gate_up, SIZE=size, BLOCK=SILU_BLOCK
        )
    return output
