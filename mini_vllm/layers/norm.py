"""RMSNorm (Zhang and Sennrich 2019): scale a vector to unit mean square, then each channel by its weight."""

import torch
from torch import Tensor, nn

from mini_vllm.checkpoint import WeightLoader


class RMSNorm(nn.Module):
    """Normalise the last dimension in float32, round to the input's dtype, multiply by the weight."""

    def __init__(self, loader: WeightLoader, size: int, eps: float) -> None:
        super().__init__()
        self.weight = loader.load({"weight": (size,)})
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """[..., size] to the same shape and dtype."""
        # In place on one float32 copy: on a CPU memory is what a norm costs. The weight comes after the rounding, as in
        # transformers and in the checkpoints' reference results.
        wide = x.to(torch.float32, copy=True)
        mean_square = torch.linalg.vector_norm(wide, dim=-1, keepdim=True).square_().div_(x.shape[-1])
        return wide.mul_(mean_square.add_(self.eps).rsqrt_()).to(x.dtype).mul_(self.weight)
