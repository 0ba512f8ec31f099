"""A linear layer that may stand for several.

Projections that share an input (q, k and v; gate and up) are stacked into one matrix when they are loaded, so that one
large matrix product replaces two or three small ones. vLLM: QKVParallelLinear, MergedColumnParallelLinear.
"""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mini_vllm.models.checkpoint import WeightLoader


class Linear(nn.Module):
    """y = x W^T + b, where W is the stack of the checkpoint's matrices `name`.weight of `out_features` rows each."""

    def __init__(
        self, loader: WeightLoader, out_features: Mapping[str, int], in_features: int, *, bias: bool = False
    ) -> None:
        super().__init__()
        weight = loader.load({f"{name}.weight": (rows, in_features) for name, rows in out_features.items()})
        self.weight = pack_weight(weight)
        self.bias = loader.load({f"{name}.bias": (rows,) for name, rows in out_features.items()}) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """[T, in_features] to [T, sum of out_features]."""
        return linear(x, self.weight, self.bias)


def pack_weight(weight: Tensor) -> Tensor:
    """The weight as `linear` takes it best: for bfloat16 on a CPU a copy in the tiled layout of oneDNN, else itself.

    A matrix product on a CPU reads its weight in tiles. A plain weight is rearranged into them again in every call,
    which for a few tokens costs as much as the product (vLLM: dispatch_cpu_unquantized_gemm).
    """
    mkldnn = torch.ops.mkldnn  # what torch.compile calls for the same purpose
    if (
        weight.device.type == "cpu"
        and weight.dtype == torch.bfloat16
        and hasattr(mkldnn, "_linear_pointwise")
        and mkldnn._is_mkldnn_bf16_supported()
    ):
        packed: Tensor = mkldnn._reorder_linear_weight(weight)
        return packed
    return weight


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """F.linear, for a weight from `pack_weight`."""
    if weight.is_mkldnn:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
        return product
    return F.linear(x, weight, bias)
