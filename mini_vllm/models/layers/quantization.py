"""Weights in eight bits: a decode step reads every weight once, so half the bytes are almost half
the time.

Weights only: activations, norms, the embedding and the KV cache keep the model's dtype. Row n of a
weight, which makes output channel n, is stored as integers in [-127, 127] and one scale, and stands
for values[n] * scale[n]. The scale is symmetric, so there is no zero point. vLLM:
CompressedTensorsW8A16Int8; llama.cpp's Q8_0 has a scale for 32 weights.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mini_vllm.models.layers.int8_linear import STEP, int8_linear, load_kernels

MOST = 127  # -128 is left out, so that the range is symmetric
# Rows up to which a kernel that widens in registers is faster than tiles. A weight of 6,144 x 1,024
# in bfloat16, on one core of an AMD EPYC with AVX-512 BF16 that is shared: 0.31 ms against 1.36 for
# 1 row (0.47 without quantisation), 0.51 against 1.47 for 8 (0.68), 3.75 against 4.69 for 96
# (3.17), 4.87 against 5.66 for 128 (4.07). For 1,024 x 3,072 the two meet at 96. In float32 the
# kernel wins up to 256, and against a weight in full precision, too.
FEW_ROWS = {torch.bfloat16: 96, torch.float32: 256, torch.float16: 96}
TORCH_ROWS = 16  # of torch's operator
TILE = 2048  # output channels that are in the model's dtype at a time; 1,024 and 8,192 took as long


class Int8Weight(nn.Module):
    """A weight [N, K] of N output channels: values [N, K] int8, scale [N] float32.

    No copy in full precision is kept. What needs one makes it in tiles, which the next tile
    overwrites.
    """

    def __init__(self, values: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.values = nn.Parameter(values, requires_grad=False)
        self.scale = nn.Parameter(scale, requires_grad=False)
        if values.device.type == "cpu":
            load_kernels()  # not in the first step

    @classmethod
    def quantize(cls, weight: Tensor) -> "Int8Weight":
        """The nearest integers.

        A row's largest weight is 127 steps, so each weight moves by half a step at most.

        The scale of a bfloat16 weight is a bfloat16 number, which torch's operator wants. It is
        rounded before anything is divided by it, so that adds no error.
        """
        values = torch.empty_like(weight, dtype=torch.int8)
        scale = torch.empty(len(weight), device=weight.device)
        if weight.is_meta:  # its tiles have nothing to compute, and there may be thousands
            return cls(values, scale)
        for rows, target, steps in zip(
            *(torch.split(x, TILE) for x in (weight, values, scale)), strict=True
        ):
            exact = rows.float()
            largest = (exact.abs().amax(dim=1) / MOST).clamp_min(torch.finfo(torch.float32).tiny)
            steps.copy_(largest.bfloat16() if weight.dtype == torch.bfloat16 else largest)
            target.copy_((exact / steps[:, None]).round().clamp(-MOST, MOST))
        return cls(values, scale)

    def forward(self, x: Tensor) -> Tensor:
        """[T, K] to [T, N]: x times the dequantised weight, transposed."""
        if (
            x.device.type == "cpu"
            and 0 < len(x) <= FEW_ROWS[x.dtype]
            and self.values.shape[1] % STEP == 0
        ):
            kernels = load_kernels()
            if not isinstance(kernels, str):
                return int8_linear(kernels, x, self.values, self.scale)
            # Without a compiler torch's operator serves. It crashes on sizes that are no multiples
            # of its own tiles.
            if x.dtype == torch.bfloat16 and len(x) <= TORCH_ROWS and len(self.values) % STEP == 0:
                product: Tensor = torch.ops.aten._weight_int8pack_mm(
                    x, self.values, self.scale.bfloat16()
                )
                return product
        # An int8 is exact in every dtype here. The scale belongs to a column of the product, so it
        # waits until then.
        tiles = [F.linear(x, tile.to(x.dtype)) for tile in torch.split(self.values, TILE)]
        return torch.cat(tiles, dim=-1).mul_(self.scale)
