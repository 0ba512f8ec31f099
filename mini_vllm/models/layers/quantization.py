"""Weights in eight bits: a decode step reads every weight once, so half the bytes are almost half the time.

Weights only: activations, norms, the embedding and the KV cache keep the model's dtype. Row n of a weight, which makes
output channel n, is stored as integers in [-127, 127] and one scale, and stands for values[n] * scale[n]. The scale is
symmetric, so there is no zero point. vLLM: CompressedTensorsW8A16Int8; llama.cpp's Q8_0 has a scale for 32 weights.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

MOST = 127  # -128 is left out, so that the range is symmetric
FEW_ROWS = 16
TILE = 512  # output channels that are in the model's dtype at a time, where no kernel reads int8


class Int8Weight(nn.Module):
    """A weight [N, K] of N output channels: values [N, K] int8, and scale [N] in bfloat16, float32 for other models.

    No copy in full precision is kept. What needs one makes it in tiles, which the next tile overwrites.
    """

    def __init__(self, values: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.values = nn.Parameter(values, requires_grad=False)
        self.scale = nn.Parameter(scale, requires_grad=False)

    @classmethod
    def quantize(cls, weight: Tensor) -> "Int8Weight":
        """The nearest integers. A row's largest weight is 127 steps, so each weight moves by half a step at most.

        The scale is rounded to the dtype it is kept in before anything is divided by it: it adds no error of its own.
        """
        dtype = torch.bfloat16 if weight.dtype == torch.bfloat16 else torch.float32
        values = torch.empty_like(weight, dtype=torch.int8)
        scale = torch.empty(len(weight), dtype=dtype, device=weight.device)
        for rows, target, steps in zip(*(torch.split(x, TILE) for x in (weight, values, scale)), strict=True):
            exact = rows.float()
            steps.copy_((exact.abs().amax(dim=1) / MOST).clamp_min(torch.finfo(dtype).tiny))
            target.copy_((exact / steps[:, None].float()).round().clamp(-MOST, MOST))
        return cls(values, scale)

    def forward(self, x: Tensor) -> Tensor:
        """[T, K] to [T, N]: x times the dequantised weight, transposed."""
        is_whole = self.values.shape[0] % 32 == self.values.shape[1] % 32 == 0  # torch's kernel crashes on others
        if x.dtype == torch.bfloat16 and x.device.type == "cpu" and 0 < len(x) <= FEW_ROWS and is_whole:
            product: Tensor = torch.ops.aten._weight_int8pack_mm(x, self.values, self.scale)
            return product
        # An int8 is exact in every dtype here. The scale belongs to a column of the product, so it waits until then.
        tiles = [F.linear(x, tile.to(x.dtype)) for tile in torch.split(self.values, TILE)]
        return torch.cat(tiles, dim=-1).mul_(self.scale)
