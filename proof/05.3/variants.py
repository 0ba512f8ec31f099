# === by_arithmetic
"""p less what both have in common is the rest; a mask that is 0 or 1 mixes it with a one-hot row."""

import torch
from torch import Tensor


def rejection_weights(p: Tensor, q: Tensor, drafts: Tensor, coins: Tensor) -> Tensor:
    rows = torch.arange(len(p))
    rest = p - torch.minimum(p, q)
    ratio = p[rows, drafts[:, 0]] / q[rows, drafts[:, 0]]
    taken = ((coins[:, 0] < ratio) | (rest.amax(-1) <= 0)).to(p.dtype)[:, None]
    one_hot = torch.nn.functional.one_hot(drafts[:, 0], p.shape[1]).to(p.dtype)
    return taken * one_hot + (1 - taken) * rest


# === row_by_row
"""One row after the other, with Python's decisions."""

import torch
from torch import Tensor


def rejection_weights(p: Tensor, q: Tensor, drafts: Tensor, coins: Tensor) -> Tensor:
    weights = torch.zeros_like(p)
    for row, (target, draft_model, draft, coin) in enumerate(zip(p, q, drafts[:, 0].tolist(), coins[:, 0].tolist())):
        missing = torch.relu(target - draft_model)
        if coin < (target[draft] / draft_model[draft]).item() or not missing.any():
            weights[row, draft] = 1
        else:
            weights[row] = missing / missing.sum()
    return weights
