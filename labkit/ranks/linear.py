"""A linear layer, cut among ranks: by rows of its weight, or by columns.

The reference of lab 08.1. Source: Shoeybi et al., "Megatron-LM" (2019); vLLM: ColumnParallelLinear,
MergedColumnParallelLinear and RowParallelLinear in vllm/model_executor/layers/linear.py. The engine's own layers are in
mini_vllm/models/layers/linear.py.
"""

from collections.abc import Sequence
from typing import NamedTuple

from mini_vllm.errors import InvalidParameterError

MOST = 127  # of an integer, and -127 is the least

Vector = Sequence[float]


class Linear(NamedTuple):
    """y[n] = scale[n] * (sum over k of weight[n][k] * x[k]) + bias[n].

    weight: N rows of K numbers. scale: N numbers if those of the weight are integers of eight bits, else None. bias: N
    numbers, or None.
    """

    weight: Sequence[Vector]
    scale: Vector | None = None
    bias: Vector | None = None


def apply(layer: Linear, x: Vector) -> list[float]:
    """The N outputs for K inputs."""
    outputs = [sum(a * b for a, b in zip(row, x, strict=True)) for row in layer.weight]
    if layer.scale is not None:
        outputs = [scale * y for scale, y in zip(layer.scale, outputs, strict=True)]
    return outputs if layer.bias is None else [y + b for y, b in zip(outputs, layer.bias, strict=True)]


def quantized(layer: Linear) -> Linear:
    """The layer in integers of eight bits: the largest number of a row becomes 127. A row of zeros has scale 1."""
    scale = [max(map(abs, row), default=0.0) / MOST or 1.0 for row in layer.weight]
    weight = [[round(number / step) for number in row] for row, step in zip(layer.weight, scale, strict=True)]
    return Linear(weight, scale, layer.bias)


def own_part(length: int, rank: int, size: int) -> range:
    """Which of `length` rows or columns are those of a rank, if all ranks have equally many.

    Raises InvalidParameterError for a length that is no multiple of `size`, and for a rank outside [0, size).
    """
    if not 0 <= rank < size:
        raise InvalidParameterError(f"rank is {rank}, allowed is [0, {size})")
    if length % size:
        raise InvalidParameterError(f"{length} rows or columns cannot be cut into {size} equal parts")
    return range(rank * length // size, (rank + 1) * length // size)


def column_shard(layer: Linear, rank: int, size: int, *, int8: bool = False) -> Linear:
    """What a rank has of a layer whose outputs are shared out: rows of the weight. int8: quantize it, if it is not."""
    own = own_part(len(layer.weight), rank, size)
    start, stop = own.start, own.stop
    scale, bias = (part if part is None else part[start:stop] for part in (layer.scale, layer.bias))
    found = Linear(layer.weight[start:stop], scale, bias)
    return quantized(found) if int8 and scale is None else found


def merged_shard(layers: Sequence[Linear], rank: int, size: int, *, int8: bool = False) -> Linear:
    """What a rank has of several layers with the same input, as one layer: its part of each, one behind the other."""
    found = [column_shard(layer, rank, size, int8=int8) for layer in layers]
    return Linear(
        [row for part in found for row in part.weight],
        None if found[0].scale is None else [step for part in found for step in part.scale or ()],
        None if found[0].bias is None else [number for part in found for number in part.bias or ()],
    )


def row_shard(layer: Linear, rank: int, size: int, *, int8: bool = False) -> Linear:
    """What a rank has of a layer whose inputs are shared out: columns of the weight. The ranks' outputs are added up.

    int8: quantize it, if it is not.
    """
    own = own_part(len(layer.weight[0]), rank, size)
    if int8 and layer.scale is None:  # a row has one scale on all ranks, so it is found in the whole row
        layer = quantized(layer)
    weight = [row[own.start : own.stop] for row in layer.weight]
    return Linear(weight, layer.scale, layer.bias if rank == 0 else None)
