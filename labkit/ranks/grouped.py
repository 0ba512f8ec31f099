"""The products of all experts, block by block.

The reference of lab 08.5. Source: fused_moe_kernel in vllm/model_executor/layers/fused_moe/fused_moe.py. The engine's
own is mini_vllm/models/moe/grouped_triton.py.
"""

from collections.abc import Callable, Sequence
from typing import Any

from labkit.ranks.routing import NO_EXPERT, Aligned

Row = Sequence[float]
Product = Callable[[Sequence[Row], Any], Sequence[Row]]  # rows and a weight: a row of outputs for each


def grouped_product(
    x: Sequence[Row], weights: Sequence[Any], aligned: Aligned, num_pairs: int, top_k: int, product: Product
) -> list[Row]:
    """What the expert of each pair makes of the pair's row: num_pairs rows.

    x: the rows; pair p reads row p // top_k. weights: of each expert. product: called once for each block that an
    expert has, with block_size rows, of which those of padding are zeros.
    """
    block_size = len(aligned.pairs) // max(1, len(aligned.experts))
    outputs: list[Row] = [()] * num_pairs
    for number, expert in enumerate(aligned.experts):
        if expert == NO_EXPERT:
            continue
        pairs = aligned.pairs[number * block_size : (number + 1) * block_size]
        rows = [x[pair // top_k] if pair < num_pairs else [0.0] * len(x[0]) for pair in pairs]
        for pair, output in zip(pairs, product(rows, weights[expert]), strict=True):
            if pair < num_pairs:
                outputs[pair] = output
    return outputs


def finalise(outputs: Sequence[Row], weights: Sequence[Row]) -> list[list[float]]:
    """The sum of each token's pairs, by their weights, in the order of the token's choices."""
    top_k = len(weights[0]) if weights else 1
    found = []
    for token, own in enumerate(weights):
        total = [0.0] * len(outputs[0])
        for weight, row in zip(own, outputs[token * top_k : (token + 1) * top_k], strict=True):
            total = [sum_so_far + weight * number for sum_so_far, number in zip(total, row, strict=True)]
        found.append(total)
    return found
