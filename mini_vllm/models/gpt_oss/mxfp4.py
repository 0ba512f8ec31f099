"""Weights in four bits, in blocks of 32 that share a scale: MXFP4 of the OCP Microscaling formats
(2023).

    NAME_blocks  [E, N, K / 32, 16]  uint8    two numbers a byte, the first in the low half
    NAME_scales  [E, N, K / 32]      uint8    the exponent of a block's power of two, plus 127

A number has one bit of sign, two of exponent and one of mantissa. They are made numbers of the
model's dtype when they are loaded, which is exact in bfloat16 and float32. vLLM keeps four bits
where a GPU has kernels for them (mxfp4_utils.py), and does the same elsewhere (dequant_mxfp4).
"""

import torch
from torch import Tensor

BLOCK = 32  # numbers that share a scale
BIAS = 127
MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # behind the bit of the sign


def dequantise(blocks: Tensor, scales: Tensor) -> Tensor:
    """blocks [..., G, 16] and scales [..., G], both uint8, to [..., 32 * G] float32."""
    magnitudes = torch.tensor(MAGNITUDES, device=blocks.device)
    values = torch.cat((magnitudes, -magnitudes))
    numbers = torch.stack((blocks & 15, blocks >> 4), -1).flatten(-2)  # [..., G, 32]
    return torch.ldexp(values[numbers.int()], scales.int()[..., None] - BIAS).flatten(-2)
