"""Lab 08.4: Route tokens to experts and align (30 minutes). What must hold is in contract.md."""

from collections.abc import Sequence
from math import exp

from labkit import todo
from labkit.ranks.routing import Aligned, NO_EXPERT


def route(
    logits: Sequence[Sequence[float]], top_k: int, *, renormalize: bool
) -> tuple[list[list[float]], list[list[int]]]:
    """Weights and experts of each token, T lists of top_k each, the largest weight first, from T rows of E logits."""
    todo("08.4")


def align(
    experts: Sequence[Sequence[int]], num_experts: int, block_size: int, expert_map: Sequence[int] | None = None
) -> Aligned:
    """From the experts that each token has chosen. The number of blocks depends on the numbers T, k and E alone.

    expert_map: by expert, its place among those of this rank, or NO_EXPERT; the blocks then have places.
    """
    todo("08.4")
