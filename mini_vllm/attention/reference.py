"""The plain rung: one query at a time, one block at a time.

This is paged attention as the papers tell it. A query walks the block table of its request; each
block is read where it lies, and the softmax is built up as the blocks come by, so no score of the
past is ever kept. It is slow, it is the oracle of the tests, and the faster rungs compute the same.

Sources: PagedAttention (Kwon et al. 2023) for the block table; online softmax (Milakov and
Gimelshein 2018), the heart of FlashAttention (Dao et al. 2022).
"""

from typing import NamedTuple

import torch
from torch import Tensor

from mini_vllm.attention.backend import AttentionBackend
from mini_vllm.attention.metadata import AttentionMetadata, AttentionSpec


class OnlineSoftmax:
    """A softmax-weighted sum of values that sees its scores in pieces.

    After any number of pieces: maximum = max(s), normaliser = sum(exp(s - maximum)) and
    weighted_sum = sum(exp(s - maximum) * v) over all scores s seen so far. Subtracting the maximum
    keeps exp() finite; when a later piece raises it, what was summed before is scaled down by
    exp(old maximum - new maximum).
    """

    def __init__(
        self, num_kv_heads: int, group_size: int, head_dim: int, device: torch.device
    ) -> None:
        self.maximum = torch.full((num_kv_heads, group_size), -torch.inf, device=device)
        self.normaliser = torch.zeros(num_kv_heads, group_size, device=device)
        self.weighted_sum = torch.zeros(num_kv_heads, group_size, head_dim, device=device)

    def add(self, scores: Tensor, values: Tensor) -> None:
        """Take in scores [num_kv_heads, group_size, n] of n keys, n >= 1, and their values [n,
        num_kv_heads, D].
        """
        maximum = torch.maximum(self.maximum, scores.amax(dim=-1))
        correction = torch.exp(self.maximum - maximum)
        weights = torch.exp(scores - maximum[..., None])
        self.normaliser = self.normaliser * correction + weights.sum(dim=-1)
        self.weighted_sum = self.weighted_sum * correction[..., None] + torch.einsum(
            "hgn,nhd->hgd", weights, values
        )
        self.maximum = maximum

    def result(self) -> Tensor:
        """The weighted mean of all values so far: [num_kv_heads, group_size, head_dim]."""
        return self.weighted_sum / self.normaliser[..., None]


class ReferenceBackend(AttentionBackend):
    """Paged attention in float32, written to be read."""

    name = "reference"

    def write_kv(
        self,
        key: Tensor,
        value: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        metadata: AttentionMetadata,
    ) -> None:
        """Store row t of key and value in slot slot_mapping[t].

        The slot -1 is padding: that row is stored nowhere.
        """
        for token, slot in enumerate(metadata.slot_mapping.tolist()):
            if slot >= 0:
                block_id, offset = divmod(slot, metadata.block_size)
                key_cache[block_id, offset] = key[token]
                value_cache[block_id, offset] = value[token]

    def plan(self, metadata: AttentionMetadata, spec: AttentionSpec) -> "ReferencePlan":
        """What each row of the batch sees, request by request."""
        rows = []
        starts = metadata.query_start_loc.tolist()
        for i, (seq_len, block_table) in enumerate(
            zip(metadata.seq_lens.tolist(), metadata.block_tables.tolist(), strict=True)
        ):
            num_computed_tokens = seq_len - (starts[i + 1] - starts[i])
            for row in range(starts[i], starts[i + 1]):
                # causal: a token sees itself and what came before
                end = num_computed_tokens + (row - starts[i]) + 1
                begin = 0 if spec.sliding_window is None else max(0, end - spec.sliding_window)
                if end > 0:  # else a padding row, before position 0 of its request
                    rows.append(Row(row, block_table, begin, end))
        return ReferencePlan(rows, spec.scale)

    def attend(
        self, query: Tensor, key_cache: Tensor, value_cache: Tensor, plan: "ReferencePlan"
    ) -> Tensor:
        """Every query of every request on its own; a row that sees nothing stays 0."""
        output = torch.zeros_like(query)
        for row, block_table, begin, end in plan.rows:
            output[row] = attend_one(
                query[row], key_cache, value_cache, block_table, begin, end, plan.scale
            )
        return output


class Row(NamedTuple):
    """A row of the batch sees positions [begin, end) of the sequence whose blocks are in
    block_table.
    """

    row: int
    block_table: list[int]
    begin: int
    end: int


class ReferencePlan(NamedTuple):
    """What the rows of one step see."""

    rows: list[Row]
    scale: float


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
    _, block_size, num_kv_heads, head_dim = key_cache.shape
    # Grouped-query attention: the query heads of one group share a KV head.
    grouped = query.float().view(num_kv_heads, -1, head_dim)
    softmax = OnlineSoftmax(num_kv_heads, grouped.shape[1], head_dim, query.device)
    for block in range(begin // block_size, -(-end // block_size)):
        block_start = block * block_size
        tokens = slice(max(begin - block_start, 0), min(end - block_start, block_size))
        keys = key_cache[block_table[block], tokens].float()
        values = value_cache[block_table[block], tokens].float()
        scores = torch.einsum("hgd,nhd->hgn", grouped, keys) * scale
        softmax.add(scores, values)
    return softmax.result().view(-1, head_dim).to(query.dtype)
