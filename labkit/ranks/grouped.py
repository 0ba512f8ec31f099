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
    x: Sequence[Row], weights: Sequence[Any], aligned: Aligned, top_k: int, out: list[Row], product: Product
) -> None:
    """Write into out, at the place of each pair, what the pair's expert makes of the pair's row.

    x: the rows; pair p reads row p // top_k. weights: of each expert. product: called once for each block that an
    expert has, with block_size rows, of which those of padding are zeros.
    """
    block_size = len(aligned.pairs) // max(1, len(aligned.experts))
    blocks = [
        (expert, aligned.pairs[number * block_size : (number + 1) * block_size])
        for number, expert in enumerate(aligned.experts)
        if expert != NO_EXPERT
    ]
    places = range(len(out))
    own = [pair // top_k for _, pairs in blocks for pair in pairs if pair in places]
    zeros = [0.0] * len(x[own[0]]) if own else []
    for expert, pairs in blocks:
        rows = [x[pair // top_k] if pair in places else zeros for pair in pairs]
        for pair, output in zip(pairs, product(rows, weights[expert]), strict=True):
            if pair in places:
                out[pair] = output


def finalise(outputs: Sequence[Row], weights: Sequence[Row]) -> list[list[float]]:
    """The sum of each token's pairs, by their weights, in the order of the token's choices.

    outputs: of T * k pairs. weights: k for each of T tokens.
    """
    found, pairs = [], iter(outputs)
    for own in weights:
        total = [0.0] * len(outputs[0])
        for weight in own:
            total = [so_far + weight * number for so_far, number in zip(total, next(pairs), strict=True)]
        found.append(total)
    return found
