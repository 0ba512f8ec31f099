"""RMSNorm (Zhang and Sennrich 2019): scale a vector to unit mean square, then each channel by its weight."""

import torch.nn.functional as F
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
        # The weight stays outside the fused call: transformers rounds before it multiplies, and so do the checkpoints'
        # reference results in bfloat16.
        return self.weight * F.rms_norm(x, self.weight.shape, eps=self.eps)
