"""Turning queries and keys by their positions: the torch form. How the angles come about is
layers/rotary.py's matter.

It stands here, below the layers, because on a GPU a key is turned and stored in the cache by one
kernel.
"""

from typing import NamedTuple

from torch import Tensor


class Rotation(NamedTuple):
    """The angles of one step's tokens, shared by all layers: [T, 1, head_dim], in the dtype of the
    activations.
    """

    cos: Tensor
    # the first half negated, so that one roll of the channels makes the rotation
    signed_sin: Tensor


def apply_rotary(x: Tensor, rotation: Rotation) -> Tensor:
    """Turn x [T, heads, head_dim], queries and keys alike: (a, b) becomes (a cos - b sin, b cos + a
    sin).
    """
    return x * rotation.cos + x.roll(x.shape[-1] // 2, dims=-1) * rotation.signed_sin
