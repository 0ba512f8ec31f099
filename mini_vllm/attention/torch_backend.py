"""Paged attention out of torch's own operators: the fast rung on a CPU, and a correct one on a GPU.

For each request, its blocks are copied side by side into a scratch buffer, and attention reads them
there as if they had never been paged. The copy costs less than it saves: blocks are read in long
runs, the buffer stays in the processor's own cache from one request to the next, and attention then
walks warm memory. A request never sees its neighbours, so its result does not depend on the batch.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mini_vllm.attention.backend import AttentionBackend
from mini_vllm.attention.metadata import AttentionMetadata, AttentionSpec

QUERY_SLICE = 64  # queries of a chunk whose scores are in memory at a time


class Pages(NamedTuple):
    """How one request's keys and values are read: the same in every layer that attends alike."""

    span: slice  # of the block table: the blocks that hold the keys in sight
    key_copy: Tensor  # scratch for these blocks, [blocks, block_size, num_kv_heads, head_dim]
    value_copy: Tensor
    key: Tensor  # the keys in sight as they lie in key_copy, [num_kv_heads, keys, head_dim]
    value: Tensor


class TorchPlan(NamedTuple):
    """One step's requests: how many queries each has, its pages, and the ids of their blocks."""

    spec: AttentionSpec
    query_lens: list[int]
    pages: list[Pages]
    blocks: list[Tensor]


class TorchBackend(AttentionBackend):
    """Gather the pages of a request, then attend to them as if they had never been paged."""

    name = "torch"
    cudagraph_support = "UNIFORM_SINGLE_TOKEN_DECODE"
    supports_sinks = True

    def __init__(self) -> None:
        # one for keys, one for values; reused by every request of every layer
        self._scratch: list[Tensor] = []
        self._kind: tuple[object, ...] = ()

    def plan(self, metadata: AttentionMetadata, spec: AttentionSpec) -> TorchPlan:
        """The pages of every request, as views of scratch memory: a layer then has nothing left to
        do but read.
        """
        ends, query_lens = metadata.seq_lens_cpu, metadata.query_lens_cpu
        block_size, window = metadata.block_size, spec.sliding_window or int(ends.max(initial=0))
        # The first query stands at end - query_len and sees the oldest keys that any query sees.
        begins = np.maximum(0, ends - query_lens + 1 - window)
        first_blocks, last_blocks = begins // block_size, -(-ends // block_size)
        num_blocks = int((last_blocks - first_blocks).max(initial=0))
        kind = (
            spec.dtype,
            metadata.block_tables.device,
            block_size,
            spec.num_kv_heads,
            spec.head_dim,
        )
        if kind != self._kind or len(self._scratch[0]) < num_blocks:
            self._kind = kind
            self._scratch = [
                torch.empty(num_blocks, *kind[2:], dtype=kind[0], device=kind[1]) for _ in range(2)
            ]
        spans = zip(
            begins.tolist(), ends.tolist(), first_blocks.tolist(), last_blocks.tolist(), strict=True
        )
        pages = []
        for begin, end, first, last in spans:
            tokens = slice(begin - first * block_size, end - first * block_size)
            key_copy, value_copy = (scratch[: last - first] for scratch in self._scratch)
            key, value = (
                copy.flatten(0, 1)[tokens].transpose(0, 1) for copy in (key_copy, value_copy)
            )
            pages.append(Pages(slice(first, last), key_copy, value_copy, key, value))
        plan = TorchPlan(spec, query_lens.tolist(), pages, [])
        return TorchBackend.update_block_table(self, plan, metadata, spec)

    def update_block_table(
        self, plan: TorchPlan, metadata: AttentionMetadata, spec: AttentionSpec
    ) -> TorchPlan:
        """The same pages in other blocks."""
        tables = zip(metadata.block_tables.unbind(), plan.pages, strict=True)
        return plan._replace(blocks=[table[page.span] for table, page in tables])

    def write_kv(
        self,
        key: Tensor,
        value: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        metadata: AttentionMetadata,
    ) -> None:
        """One scatter each for keys and values."""
        slots = metadata.slot_mapping
        real = slots >= 0  # padding is dropped: as an index, -1 would be the last slot of the cache
        if not real.all():
            slots, key, value = slots[real], key[real], value[real]
        for cache, new in ((key_cache, key), (value_cache, value)):
            cache.view(-1, *cache.shape[2:]).index_copy_(0, slots, new)

    def attend(
        self, query: Tensor, key_cache: Tensor, value_cache: Tensor, plan: TorchPlan
    ) -> Tensor:
        """One request after the other: a decode in one fused call, a longer chunk in slices."""
        spec, lens, pages, blocks = plan
        output = torch.zeros_like(query)
        queries_and_rows = (torch.split(tensor[: sum(lens)], lens) for tensor in (query, output))
        for queries, rows, page, own in zip(*queries_and_rows, pages, blocks, strict=True):
            if not len(queries) or not page.key.shape[1]:
                continue  # padding: nothing to ask, or nothing to see
            torch.index_select(key_cache, 0, own, out=page.key_copy)
            torch.index_select(value_cache, 0, own, out=page.value_copy)
            if len(queries) == 1 and spec.sinks is None:
                rows.copy_(attend_decode(queries, page.key, page.value, spec.scale))
            else:
                how = spec.scale, spec.sliding_window, spec.sinks
                rows.copy_(attend_chunk(queries, page.key, page.value, *how))
        return output


def attend_decode(query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
    """The newest token of a request, [1, num_heads, head_dim], which sees every key.

    The query heads that share a KV head stand in for a sequence of queries, so that each key is
    read once.
    """
    grouped = query.view(1, key.shape[0], -1, key.shape[2])
    num_rows = grouped.shape[2]
    if num_rows == 1 and query.dtype == torch.bfloat16 and query.device.type == "cpu":
        # A bfloat16 product with a single row leaves the fast path of the CPU's library: two rows
        # take a fifth of the time of one.
        grouped = grouped.repeat(1, 1, 2, 1)
    output = F.scaled_dot_product_attention(grouped, key[None], value[None], scale=scale)
    return output[:, :, :num_rows].reshape(query.shape)


def attend_chunk(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    sliding_window: int | None,
    sinks: Tensor | None = None,
) -> Tensor:
    """Consecutive tokens of a request, [n, num_heads, head_dim], the last of which stands at the
    last key.

    Written out, and not one fused call, for the sake of the CPU: scores are taken in float32 for a
    slice of queries, over no more keys than the slice may see. In bfloat16 that is about twice as
    fast as the fused call.
    """
    num_kv_heads, num_keys, head_dim = key.shape
    # [kv heads, group, n, head_dim]
    by_group = query.view(len(query), num_kv_heads, -1, head_dim).permute(1, 2, 0, 3)
    output = torch.empty_like(by_group)
    keys = key.float().transpose(1, 2)
    offset = num_keys - len(query)  # query i stands at key offset + i
    for first in range(0, len(query), QUERY_SLICE):
        rows = slice(first, min(first + QUERY_SLICE, len(query)))
        seen = slice(
            0 if sliding_window is None else max(0, offset + first + 1 - sliding_window),
            offset + rows.stop,
        )
        queries = by_group[:, :, rows].float()
        # To the matrix products, the query heads of a group are further rows.
        scores = (
            torch.bmm(queries.flatten(1, 2), keys[..., seen])
            .mul_(scale)
            .view(*queries.shape[:3], -1)
        )
        hide_unseen(scores, sliding_window)
        weights = softmax(scores, sinks, num_kv_heads, -1, 1, 1).to(value.dtype)
        mixed = torch.bmm(weights.flatten(1, 2), value[:, seen]).view(queries.shape)
        # a fifteenth of the cost of isfinite().all()
        if not math.isfinite(mixed.sum(dtype=torch.float32).item()):
            mixed = mix_seen(weights, value[:, seen])
        output[:, :, rows] = mixed
    return output.permute(2, 0, 1, 3).flatten(1, 2)


def softmax(scores: Tensor, sinks: Tensor | None, *shape: int) -> Tensor:
    """Over the last dimension, which has a sink beside the keys: sinks [num_heads] in this shape
    belong to scores [..., keys].
    """
    weights = scores.softmax(dim=-1)
    if sinks is not None:
        weights *= (scores.logsumexp(-1, keepdim=True) - sinks.view(shape)).sigmoid()
    return weights


def mix_seen(weights: Tensor, value: Tensor) -> Tensor:
    """weights [kv heads, group, n, keys] times value [kv heads, keys, head_dim], without the values
    of weight 0.

    0 * NaN is NaN: a token that is no number would spoil those before it, whose blocks other
    requests share.
    """
    rows = weights.flatten(1, 2)
    spoilt = ~value.isfinite()
    clean = torch.bmm(rows, value.masked_fill(spoilt, 0.0))
    sees_spoilt = torch.bmm((rows != 0).float(), spoilt.float()) > 0
    return clean.masked_fill_(sees_spoilt, torch.nan).view(*weights.shape[:3], -1)


def hide_unseen(scores: Tensor, sliding_window: int | None) -> None:
    """Set to -inf, in place, the scores [..., n, keys] of keys that a query must not see; the last
    query stands at the last key."""
    num_queries, num_keys = scores.shape[-2:]
    if sliding_window is None:  # everything before the first query is seen by all
        scores, num_keys = scores[..., num_keys - num_queries :], num_queries
    unseen = torch.ones(num_queries, num_keys, dtype=torch.bool, device=scores.device).triu_(
        num_keys - num_queries + 1
    )
    if sliding_window is not None:
        unseen |= ~torch.ones_like(unseen).triu_(num_keys - num_queries + 1 - sliding_window)
    scores.masked_fill_(unseen, -torch.inf)
