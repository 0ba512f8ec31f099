"""Paged attention out of torch's own operators: the fast rung on a CPU, and a correct one on a GPU.

For each request, its blocks are copied side by side into a scratch buffer, and attention reads them there as if they
had never been paged. The copy costs less than it saves: blocks are read in long runs, the buffer stays in the
processor's own cache from one request to the next, and attention then walks warm memory. A request never sees its
neighbours, so its result does not depend on the batch.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from mini_vllm.attention.backend import AttentionBackend
from mini_vllm.attention.metadata import AttentionMetadata

QUERY_SLICE = 64  # queries of a chunk whose scores are in memory at a time


class Pages(NamedTuple):
    """How one request's keys and values are read: the same in every layer of a step."""

    blocks: Tensor  # ids of the blocks that hold the keys in sight
    key_copy: Tensor  # scratch for these blocks, [blocks, block_size, num_kv_heads, head_dim]
    value_copy: Tensor
    key: Tensor  # the keys in sight as they lie in key_copy, [num_kv_heads, keys, head_dim]
    value: Tensor


class TorchBackend(AttentionBackend):
    """Gather the pages of a request, then attend to them as if they had never been paged."""

    name = "torch"

    def __init__(self) -> None:
        self._scratch: list[Tensor] = []  # one for keys, one for values; reused by every request of every layer
        self._metadata: AttentionMetadata | None = None  # the step that the plans are of
        self._plans: dict[object, list[Pages]] = {}

    def write_kv(
        self, key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, metadata: AttentionMetadata
    ) -> None:
        """One scatter each for keys and values."""
        slots = metadata.slot_mapping
        real = slots >= 0  # padding is dropped: as an index, -1 would be the last slot of the cache
        if not real.all():
            slots, key, value = slots[real], key[real], value[real]
        key_cache.flatten(0, 1).index_copy_(0, slots, key)
        value_cache.flatten(0, 1).index_copy_(0, slots, value)

    def attend(
        self,
        query: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        metadata: AttentionMetadata,
        *,
        scale: float,
        sliding_window: int | None = None,
    ) -> Tensor:
        """One request after the other: a decode in one fused call, a longer chunk in slices."""
        output = torch.zeros_like(query)
        lens = metadata.query_lens_cpu.tolist()
        pages = self._plan(key_cache, metadata, sliding_window)
        queries_and_rows = (torch.split(tensor[: sum(lens)], lens) for tensor in (query, output))
        for queries, rows, page in zip(*queries_and_rows, pages, strict=True):
            if not len(queries) or not page.key.shape[1]:
                continue  # padding: nothing to ask, or nothing to see
            torch.index_select(key_cache, 0, page.blocks, out=page.key_copy)
            torch.index_select(value_cache, 0, page.blocks, out=page.value_copy)
            if len(queries) == 1:
                rows.copy_(attend_decode(queries, page.key, page.value, scale))
            else:
                rows.copy_(attend_chunk(queries, page.key, page.value, scale, sliding_window))
        return output

    def _plan(self, cache: Tensor, metadata: AttentionMetadata, sliding_window: int | None) -> list[Pages]:
        """The pages of every request, worked out once a step: a layer then has nothing left to do but read."""
        if metadata is not self._metadata:
            self._metadata, self._plans = metadata, {}
        kind = (sliding_window, cache.dtype, cache.device, cache.shape[1:])
        if kind not in self._plans:
            block_size = metadata.block_size
            spans = [
                # The first query stands at end - num_queries and sees the oldest keys that any query sees.
                (0 if sliding_window is None else max(0, end - num_queries + 1 - sliding_window), end)
                for num_queries, end in zip(
                    metadata.query_lens_cpu.tolist(), metadata.seq_lens_cpu.tolist(), strict=True
                )
            ]
            self._make_room(
                cache, max(-(-end // block_size) - begin // block_size for begin, end in spans) if spans else 0
            )
            self._plans[kind] = [
                self._find_pages(table, begin, end, block_size)
                for table, (begin, end) in zip(metadata.block_tables, spans, strict=True)
            ]
        return self._plans[kind]

    def _make_room(self, cache: Tensor, num_blocks: int) -> None:
        if not self._scratch or not fits(self._scratch[0], cache, num_blocks):
            self._scratch = [cache.new_empty(num_blocks, *cache.shape[1:]) for _ in range(2)]

    def _find_pages(self, block_table: Tensor, begin: int, end: int, block_size: int) -> Pages:
        """To read positions [begin, end)."""
        first, last = begin // block_size, -(-end // block_size)
        tokens = slice(begin - first * block_size, end - first * block_size)
        key_copy, value_copy = (scratch[: last - first] for scratch in self._scratch)
        key, value = (copy.flatten(0, 1)[tokens].transpose(0, 1) for copy in (key_copy, value_copy))
        return Pages(block_table[first:last], key_copy, value_copy, key, value)


def fits(scratch: Tensor, cache: Tensor, num_blocks: int) -> bool:
    """Whether num_blocks blocks of the cache can be copied into the scratch buffer."""
    same_kind = (scratch.dtype, scratch.device, scratch.shape[1:]) == (cache.dtype, cache.device, cache.shape[1:])
    return same_kind and scratch.shape[0] >= num_blocks


def attend_decode(query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
    """The newest token of a request, [1, num_heads, head_dim], which sees every key.

    The query heads that share a KV head stand in for a sequence of queries, so that each key is read once.
    """
    grouped = query.view(1, key.shape[0], -1, key.shape[2])
    if grouped.shape[2] == 1 and query.dtype == torch.bfloat16 and query.device.type == "cpu":
        # A bfloat16 product with a single row leaves the fast path of the CPU's library: two rows take a fifth of the
        # time of one.
        grouped = grouped.repeat(1, 1, 2, 1)
        return F.scaled_dot_product_attention(grouped, key[None], value[None], scale=scale)[:, :, 0]
    return F.scaled_dot_product_attention(grouped, key[None], value[None], scale=scale).view(query.shape)


def attend_chunk(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    sliding_window: int | None,
) -> Tensor:
    """Consecutive tokens of a request, [n, num_heads, head_dim], the last of which stands at the last key.

    Written out, and not one fused call, for the sake of the CPU: scores are taken in float32 for a slice of queries,
    over no more keys than the slice may see. In bfloat16 that is about twice as fast as the fused call.
    """
    num_kv_heads, num_keys, head_dim = key.shape
    by_group = query.view(len(query), num_kv_heads, -1, head_dim).permute(1, 2, 0, 3)  # [kv heads, group, n, head_dim]
    output = torch.empty_like(by_group)
    keys = key.float().transpose(1, 2)
    offset = num_keys - len(query)  # query i stands at key offset + i
    for first in range(0, len(query), QUERY_SLICE):
        rows = slice(first, min(first + QUERY_SLICE, len(query)))
        seen = slice(0 if sliding_window is None else max(0, offset + first + 1 - sliding_window), offset + rows.stop)
        queries = by_group[:, :, rows].float()
        # To the matrix products, the query heads of a group are further rows.
        scores = torch.bmm(queries.flatten(1, 2), keys[..., seen]).mul_(scale).view(*queries.shape[:3], -1)
        hide_unseen(scores, sliding_window)
        weights = scores.softmax(dim=-1).to(value.dtype)
        output[:, :, rows] = torch.bmm(weights.flatten(1, 2), value[:, seen]).view(queries.shape)
    return output.permute(2, 0, 1, 3).flatten(1, 2)


def hide_unseen(scores: Tensor, sliding_window: int | None) -> None:
    """Set to -inf, in place, the scores [..., n, keys] of keys that a query must not see; the last query stands at the
    last key."""
    num_queries, num_keys = scores.shape[-2:]
    if sliding_window is None:  # everything before the first query is seen by all
        scores, num_keys = scores[..., num_keys - num_queries :], num_queries
    unseen = torch.ones(num_queries, num_keys, dtype=torch.bool, device=scores.device).triu_(num_keys - num_queries + 1)
    if sliding_window is not None:
        unseen |= ~torch.ones_like(unseen).triu_(num_keys - num_queries + 1 - sliding_window)
    scores.masked_fill_(unseen, -torch.inf)
