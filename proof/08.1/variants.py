# === by_indices
"""The places of a part are listed, and one function picks them from anything."""

from labkit.ranks.linear import Linear, quantized
from mini_vllm.errors import InvalidParameterError


def places(length, rank, size):
    if rank not in range(size) or length % size != 0:
        raise InvalidParameterError(f"rank {rank} of {size} cannot have a part of {length}")
    return [place for place in range(length) if place // (length // size) == rank]


def pick(sequence, chosen):
    return None if sequence is None else [sequence[place] for place in chosen]


def column_shard(layer, rank, size, *, int8=False):
    chosen = places(len(layer.weight), rank, size)
    own = Linear(*(pick(part, chosen) for part in layer))
    return quantized(own) if int8 and own.scale is None else own


def merged_shard(layers, rank, size, *, int8=False):
    weight, scale, bias = [], [], []
    for layer in layers:
        own = column_shard(layer, rank, size, int8=int8)
        weight += own.weight
        scale += own.scale or []
        bias += own.bias or []
    return Linear(weight, scale or None, bias or None)


def row_shard(layer, rank, size, *, int8=False):
    chosen = places(len(layer.weight[0]), rank, size)
    if int8 and layer.scale is None:
        layer = quantized(layer)
    return layer._replace(weight=[pick(row, chosen) for row in layer.weight], bias=None if rank else layer.bias)


# === scales_first
"""The scales of whole rows are found first, and the integers of a rank are made with them."""

from labkit.ranks.linear import MOST, Linear
from mini_vllm.errors import InvalidParameterError


def part(length, rank, size):
    share, rest = divmod(length, size)
    if rest or rank < 0 or rank >= size:
        raise InvalidParameterError(f"{length} among {size} ranks, of which {rank} is asked for")
    return slice(rank * share, rank * share + share)


def rounded(row, step):
    return [round(number / step) for number in row]


def step_of(row):
    largest = max(abs(number) for number in row)
    return largest / MOST if largest else 1.0


def column_shard(layer, rank, size, *, int8=False):
    own = part(len(layer.weight), rank, size)
    weight, bias = list(layer.weight[own]), None if layer.bias is None else list(layer.bias[own])
    if layer.scale is not None:
        return Linear(weight, list(layer.scale[own]), bias)
    if not int8:
        return Linear(weight, None, bias)
    scale = [step_of(row) for row in weight]
    return Linear([rounded(row, step) for row, step in zip(weight, scale)], scale, bias)  # noqa: B905


def merged_shard(layers, rank, size, *, int8=False):
    first, *rest = (column_shard(layer, rank, size, int8=int8) for layer in layers)
    for own in rest:
        first = Linear(*(None if a is None else [*a, *b] for a, b in zip(first, own)))  # noqa: B905
    return first


def row_shard(layer, rank, size, *, int8=False):
    own = part(len(layer.weight[0]), rank, size)
    scale = layer.scale
    if int8 and scale is None:
        scale = [step_of(row) for row in layer.weight]
        weight = [rounded(row[own], step) for row, step in zip(layer.weight, scale)]  # noqa: B905
    else:
        weight = [list(row[own]) for row in layer.weight]
    return Linear(weight, scale, None if rank > 0 else layer.bias)
