"""Lab 08.5: The grouped product (25 minutes). What must hold is in contract.md."""

from collections.abc import Sequence
from typing import Any

from labkit import todo
from labkit.ranks.grouped import Product, Row
from labkit.ranks.routing import Aligned, NO_EXPERT


def grouped_product(
    x: Sequence[Row], weights: Sequence[Any], aligned: Aligned, top_k: int, out: list[Row], product: Product
) -> None:
    """Write into out, at the place of each pair, what the pair's expert makes of the pair's row.

    x: the rows; pair p reads row p // top_k. weights: of each expert. product: called once for each block that an
    expert has, with block_size rows, of which those of padding are zeros.
    """
    todo("08.5")


def finalise(outputs: Sequence[Row], weights: Sequence[Row]) -> list[list[float]]:
    """The sum of each token's pairs, by their weights, in the order of the token's choices.

    outputs: of T * k pairs. weights: k for each of T tokens.
    """
    todo("08.5")
