"""Lab 05.3: Rejection sampling (30 minutes). What must hold is in contract.md."""

import torch
from torch import Tensor

from labkit import todo


def rejection_weights(p: Tensor, q: Tensor, drafts: Tensor, coins: Tensor) -> Tensor:
    """Weights [R, V] by which a token is drawn where a draft was drawn from q: those of the draft
    alone if it is taken.

    p, q [R, V]: distributions of the target and of the draft; drafts [R, 1]: token ids; coins [R,
    1], in (0, 1).
    """
    todo("05.3")
