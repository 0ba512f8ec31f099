"""Tokens sorted by expert, in blocks that belong to one expert each."""

from typing import NamedTuple

import torch
from torch import Tensor


class Aligned(NamedTuple):
    """Pairs of a token and an expert, sorted by expert; each expert's begin at a block.

    pairs [P] int64: numbers of pairs, t * k + j for choice j of token t; T * k is padding. experts
    [P / block_size] int64: whose the pairs of each block are; -1: no expert's.
    """

    pairs: Tensor
    experts: Tensor


def align(chosen: Tensor, num_experts: int, block_size: int) -> Aligned:
    """From the experts [T, k] that each token has chosen; -1 is elsewhere, and in no block.

    P depends on the shape alone, so nothing waits for the device: each expert may waste a block.
    Source: vLLM's moe_align_block_size.
    """
    flat = chosen.flatten()
    num_pairs, device = len(flat), flat.device
    most = (num_pairs + min(num_pairs, num_experts) * (block_size - 1)) // block_size
    flat = flat.where(flat >= 0, num_experts)
    order = flat.argsort(stable=True)
    counts = count(flat, num_experts + 1)
    num_blocks = (counts + block_size - 1) // block_size
    ends = num_blocks.cumsum(0)
    begins = (ends - num_blocks) * block_size  # where the pairs of each expert are put
    begins[-1] = most * block_size  # behind all blocks
    rank = torch.arange(num_pairs, device=device) - (counts.cumsum(0) - counts)[flat[order]]
    pairs = torch.full((most * block_size + num_pairs,), num_pairs, device=device)
    pairs[begins[flat[order]] + rank] = order
    block = torch.arange(most, device=device)
    experts = torch.searchsorted(ends[:-1], block, right=True)
    return Aligned(pairs[: most * block_size], experts.where(block < ends[-2], -1))


def count(numbers: Tensor, size: int) -> Tensor:
    """How often each of [0, size) is among the numbers [N] int64: [size] int64. Nothing waits for
    the device, as it would for torch.bincount.
    """
    return numbers.new_zeros(size).scatter_add_(0, numbers, torch.ones_like(numbers))
