"""A linear layer that may stand for several.

Projections that share an input (q, k and v; gate and up) are stacked into one matrix when they are
loaded, so that one large matrix product replaces two or three small ones. shard.py tells which
layers are cut in which way. vLLM: QKVParallelLinear, MergedColumnParallelLinear, RowParallelLinear.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mini_vllm.models.layers.quantization import Int8Weight
from mini_vllm.models.weights import WeightLoader
from mini_vllm.parallel.shard import ALONE, WHOLE

# oneDNN and torch keep 1,024 products that they have prepared, each for one number of rows. Steps
# have every number, so a server grew by gigabytes; 64 of each are as fast. The two read this at the
# first product.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
os.environ.setdefault("LRU_CACHE_CAPACITY", "64")
# Large tensors lie in pages of 2 MiB where the system has them, so weights and keys take fewer
# lookups of pages: the products of one row took 7 % less. torch reads this when it makes its first
# tensor.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")


class Linear(nn.Module):
    """y = x W^T + b, where W is the stack of the checkpoint's matrices `name`.weight of
    `out_features` rows each.

    out_features and in_features are those of the whole layer, of which every shard holds all.
    """

    cut: ClassVar[int | None] = None  # the dimension in which the shards cut each weight

    def __init__(
        self,
        loader: WeightLoader,
        out_features: Mapping[str, int],
        in_features: int,
        *,
        bias: bool = False,
    ) -> None:
        super().__init__()
        weights = {f"{name}.weight": (rows, in_features) for name, rows in out_features.items()}
        self.weight = load_weight(loader, weights, self.cut)
        self.bias = self.load_bias(loader, out_features) if bias else None

    def load_bias(
        self, loader: WeightLoader, out_features: Mapping[str, int]
    ) -> nn.Parameter | None:
        """The stack of the checkpoint's vectors `name`.bias."""
        return loader.load(
            {f"{name}.bias": (rows,) for name, rows in out_features.items()}, self.cut
        )

    def forward(self, x: Tensor) -> Tensor:
        """[T, in_features] to [T, sum of out_features], of which a shard may hold a part."""
        return linear(x, self.weight, self.bias)


class ColumnParallelLinear(Linear):
    """Each shard computes its part of every output: each W is cut by rows, each bias with it."""

    cut = 0


class RowParallelLinear(Linear):
    """Each shard takes its part of the input, W is cut by columns: the sum of all shards' outputs
    is the output.

    reduce: whether forward() adds the outputs up. A layer that sums several of these adds up once,
    behind the sum.
    """

    cut = 1

    def __init__(
        self,
        loader: WeightLoader,
        out_features: Mapping[str, int],
        in_features: int,
        *,
        bias: bool = False,
        reduce: bool = True,
    ) -> None:
        super().__init__(loader, out_features, in_features, bias=bias)
        self.communicator = loader.shard.communicator if reduce else ALONE

    def forward(self, x: Tensor) -> Tensor:
        """[T, this shard's part of in_features] to [T, sum of out_features]."""
        return self.communicator.all_reduce(super().forward(x))

    def load_bias(
        self, loader: WeightLoader, out_features: Mapping[str, int]
    ) -> nn.Parameter | None:
        """The whole bias on rank 0, none on the other ranks: in the sum it must count once."""
        bias = loader.load({f"{name}.bias": (rows,) for name, rows in out_features.items()})
        return bias if loader.shard.rank == 0 else None


def load_weight(
    loader: WeightLoader, parts: Mapping[str, tuple[int, ...]], cut: int | None = None
) -> Tensor | Int8Weight:
    """The stack of the named weights as `linear` takes it, from a checkpoint that has them plainly
    or quantised.
    """
    stored = loader.load_stored(parts, cut)
    if stored is None:
        if cut == 1 and loader.quantization:  # a row has one scale in all shards
            whole = Int8Weight.quantize(replace(loader, shard=WHOLE).load(parts))
            own = whole.values.chunk(loader.shard.size, 1)[loader.shard.rank]
            return Int8Weight(own.contiguous(), whole.scale)
        return pack_weight(loader.load(parts, cut), loader.quantization)
    if loader.stored and loader.stored.has_input_scales:
        for name in parts:
            loader.checkpoint.take(f"{loader.prefix}{name.removesuffix('weight')}input_scale")
    weight, scale = stored
    if weight.dtype == torch.int8:
        return Int8Weight(weight, scale[:, 0])
    return pack_weight(weight.mul_(scale))


def pack_weight(weight: Tensor, quantization: str | None = None) -> Tensor | Int8Weight:
    """The weight as `linear` takes it best: for bfloat16 on a CPU a copy in the tiled layout of
    oneDNN, else itself.

    quantization: "int8" makes an Int8Weight of it instead. A matrix product on a CPU reads its
    weight in tiles. A plain weight is rearranged into them again in every call, which for a few
    tokens costs as much as the product (vLLM: dispatch_cpu_unquantized_gemm).
    """
    if quantization == "int8":
        return Int8Weight.quantize(weight)
    if is_packed(weight.device, weight.dtype):
        return torch.ops.mkldnn._reorder_linear_weight(weight)  # type: ignore[no-any-return]
    return weight


def is_packed(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether pack_weight() makes a copy of a weight there."""
    mkldnn = torch.ops.mkldnn  # what torch.compile calls for the same purpose
    return bool(
        device.type == "cpu"
        and dtype == torch.bfloat16
        and hasattr(mkldnn, "_linear_pointwise")
        and mkldnn._is_mkldnn_bf16_supported()
    )


def linear(x: Tensor, weight: Tensor | Int8Weight, bias: Tensor | None = None) -> Tensor:
    """F.linear, for a weight from `pack_weight`."""
    if isinstance(weight, Int8Weight):
        output: Tensor = weight(x)
        return output if bias is None else output.add_(bias)
    if weight.is_mkldnn:
        return torch.ops.mkldnn._linear_pointwise(  # type: ignore[no-any-return]
            x, weight, bias, "none", [], ""
        )
    return F.linear(x, weight, bias)
