"""What a product shows of the order in which it adds up.

The results of two orders differ in the last bits of a float32, and bfloat16 rounds them away but in
one of thousands. A sum whose terms cancel is rounding alone, so every order has its own.
"""

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

NUM_SUMS = 16
Product = Callable[[Tensor], Tensor]


def cancelling_sums(run: Product, like: Tensor) -> Callable[[int], Tensor]:
    """A function of a number of rows: what the sums [NUM_SUMS] become among so many rows, NaN if a
    sum depends on its place there.

    run: a product with a weight. like [T, K]: has the size, the dtype and the device of its rows.
    Row i of a trial has the numbers of row i of the weight, two by two in each other's place, one
    of them negative.
    """
    size_in = like.shape[1]
    units = torch.split(torch.eye(size_in).to(like), 64)
    weight = torch.cat([run(part)[:, :NUM_SUMS] for part in units])  # as columns
    num_sums = weight.shape[1]
    order = torch.randperm(size_in, generator=torch.Generator().manual_seed(0))
    first, second = order[: size_in // 2 * 2].view(2, -1)
    rows = torch.zeros_like(weight)
    rows[first], rows[second] = weight[second], -weight[first]

    @cache
    def among(number: int) -> Tensor:
        many = rows.T.repeat(number // num_sums + 2, 1)
        found = torch.cat([run(many[at : at + number]) for at in range(0, num_sums, number)])
        places = torch.arange(len(found), device=found.device)
        sums = found[places, places % num_sums]
        return sums[:num_sums] if torch.equal(sums, sums[places % num_sums]) else sums * torch.nan

    return among
