"""Lab 08.1: Shard a linear layer (30 minutes). What must hold is in contract.md."""

from collections.abc import Sequence

from labkit import todo
from labkit.ranks.linear import Linear, quantized
from mini_vllm.errors import InvalidParameterError


def column_shard(layer: Linear, rank: int, size: int, *, int8: bool = False) -> Linear:
    """What a rank has of a layer whose outputs are shared out: rows of the weight. int8: quantize it, if it is not."""
    todo("08.1")


def merged_shard(layers: Sequence[Linear], rank: int, size: int, *, int8: bool = False) -> Linear:
    """What a rank has of several layers with the same input, as one layer: its part of each, one behind the other."""
    todo("08.1")


def row_shard(layer: Linear, rank: int, size: int, *, int8: bool = False) -> Linear:
    """What a rank has of a layer whose inputs are shared out: columns of the weight. The ranks' outputs are added up.

    int8: quantize it, if it is not.
    """
    todo("08.1")
