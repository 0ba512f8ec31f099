"""The grouped product in Triton: each block of pairs times the matrix of its expert.

Source: the idea of vLLM's fused_moe_kernel (PR #2453), written for aligned pairs.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from mini_vllm.attention.numerics import matmul, round_to
from mini_vllm.models.moe.align import Aligned

BLOCK_SIZE = 16  # pairs of a block, the least that a matrix product takes
COLUMNS, DEPTH = 64, 64  # of a tile


@triton.jit(do_not_specialize=["num_pairs"])
def grouped_product_kernel(
    output_ptr, x_ptr, weight_ptr, pairs_ptr, experts_ptr, num_pairs,
    TOP_K: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    BLOCK_SIZE: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Rows of output for the pairs of one block, COLUMNS of their N numbers.

    Grid (blocks, cdiv(N, COLUMNS)). x [T, K], of which pair p has row p // TOP_K; weight [E, N, K];
    pairs [blocks * BLOCK_SIZE] int64, from num_pairs on padding; experts [blocks] int64, -1 for
    none; output [num_pairs, N]. All contiguous. Sums in float32.
    """
    block = tl.program_id(0)
    expert = tl.load(experts_ptr + block)
    pairs = tl.load(pairs_ptr + block * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE))
    is_pair = (pairs < num_pairs) & (expert >= 0)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    is_column = columns < N
    rows = pairs // TOP_K
    total = tl.zeros((BLOCK_SIZE, COLUMNS), tl.float32)
    for start in range(0, K, DEPTH):
        numbers = start + tl.arange(0, DEPTH)
        is_number = numbers < K
        x = tl.load(
            x_ptr + rows[:, None] * K + numbers[None, :],
            mask=is_pair[:, None] & is_number[None, :], other=0.0,
        )  # fmt: skip
        weight = tl.load(
            weight_ptr + expert * N * K + columns[None, :] * K + numbers[:, None],
            mask=is_column[None, :] & is_number[:, None] & (expert >= 0), other=0.0,
        )  # fmt: skip
        total += matmul(x, weight)
    dtype: tl.constexpr = output_ptr.dtype.element_ty
    tl.store(
        output_ptr + pairs[:, None] * N + columns[None, :], round_to(total, dtype),
        mask=is_pair[:, None] & is_column[None, :],
    )  # fmt: skip


def grouped_product(
    x: Tensor, weight: Tensor, aligned: Aligned, num_pairs: int, top_k: int
) -> Tensor:
    """x [num_pairs / top_k, K] and weight [E, N, K] to [num_pairs, N]: pair p is row p // top_k
    times the matrix of its expert, transposed; 0 for a pair in no block. aligned: in blocks of
    BLOCK_SIZE.
    """
    _, size_out, size_in = weight.shape
    output = torch.zeros(num_pairs, size_out, dtype=x.dtype, device=x.device)
    if num_pairs:
        grid = len(aligned.experts), triton.cdiv(size_out, COLUMNS)
        grouped_product_kernel[grid](
            output, x, weight, aligned.pairs, aligned.experts, num_pairs,
            TOP_K=top_k, N=size_out, K=size_in,
            BLOCK_SIZE=BLOCK_SIZE, COLUMNS=COLUMNS, DEPTH=DEPTH,
        )  # fmt: skip
    return output
