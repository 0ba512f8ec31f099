"""RMSNorm (Zhang and Sennrich 2019): scale a vector to unit mean square, then each channel by its
weight.
"""

from torch import Tensor, nn

from mini_vllm.models.layers.fused import add_rms_norm, rms_norm
from mini_vllm.models.weights import WeightLoader


class RMSNorm(nn.Module):
    """Normalise the last dimension in float32, round to the input's dtype, multiply by the
    weight.
    """

    def __init__(self, loader: WeightLoader, size: int, eps: float) -> None:
        super().__init__()
        self.weight = loader.load({"weight": (size,)})
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """[..., size] to the same shape and dtype."""
        return rms_norm(x, self.weight, self.eps)

    def add(self, x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        """The norm of residual + x, and residual + x; all [T, size].

        Neither argument may be used afterwards.
        """
        return add_rms_norm(x, residual, self.weight, self.eps)
