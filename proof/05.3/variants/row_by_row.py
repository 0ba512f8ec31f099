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
