"""A linear layer that may stand for several.

Projections that share an input (q, k and v; gate and up) are stacked into one matrix when they are loaded, so that one
large matrix product replaces two or three small ones. vLLM: QKVParallelLinear, MergedColumnParallelLinear.
"""

from collections.abc import Mapping

import torch.nn.functional as F
from torch import Tensor, nn

from mini_vllm.checkpoint import WeightLoader


class Linear(nn.Module):
    """y = x W^T + b, where W is the stack of the checkpoint's matrices `name`.weight of `out_features` rows each."""

    def __init__(
        self, loader: WeightLoader, out_features: Mapping[str, int], in_features: int, *, bias: bool = False
    ) -> None:
        super().__init__()
        self.weight = loader.load({f"{name}.weight": (rows, in_features) for name, rows in out_features.items()})
        self.bias = loader.load({f"{name}.bias": (rows,) for name, rows in out_features.items()}) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """[T, in_features] to [T, sum of out_features]."""
        return F.linear(x, self.weight, self.bias)
