"""Lab 01.3: Attention of one query (60 minutes). What must hold is in contract.md."""

import torch
from torch import Tensor

from labkit import todo
from mini_vllm.attention.reference import OnlineSoftmax as ReferenceOnlineSoftmax


class OnlineSoftmax(ReferenceOnlineSoftmax):
    """What is not defined here is the reference's."""

    def add(self, scores: Tensor, values: Tensor) -> None:
        """Take in scores [num_kv_heads, group_size, n] of n keys, n >= 1, and their values [n,
        num_kv_heads, D].
        """
        todo("01.3")

    def result(self) -> Tensor:
        """The weighted mean of all values so far: [num_kv_heads, group_size, head_dim]."""
        todo("01.3")


def attend_one(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_table: list[int],
    begin: int,
    end: int,
    scale: float,
) -> Tensor:
    """One query [num_heads, head_dim] over positions [begin, end) of its sequence: [num_heads,
    head_dim].
    """
    todo("01.3")
