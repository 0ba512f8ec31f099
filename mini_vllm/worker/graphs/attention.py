"""Attention that can be recorded, and attention at which a recording breaks."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from mini_vllm.attention import (
    AttentionBackend,
    AttentionMetadata,
    AttentionSpec,
    PagedAttention,
    Rotation,
)
from mini_vllm.attention.torch_backend import softmax
from mini_vllm.worker.graphs.modes import AttentionCGSupport
from mini_vllm.worker.graphs.recording import Call


class StaticPlan(NamedTuple):
    """What attend() reads when it runs, and not when it is planned."""

    spec: AttentionSpec
    seq_lens: Tensor  # [B] int32
    block_tables: Tensor  # [B, max_blocks] int32


class StaticTorchBackend(AttentionBackend):
    """The torch rung for decodes that are recorded: every shape is that of the whole table.

    The rung itself takes views of each request's length, which a recording would keep.
    """

    name = "torch"
    supports_sinks = True

    def plan(self, metadata: AttentionMetadata, spec: AttentionSpec) -> StaticPlan:
        return StaticPlan(spec, metadata.seq_lens, metadata.block_tables)

    def write_kv(
        self,
        key: Tensor,
        value: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        metadata: AttentionMetadata,
    ) -> None:
        """One scatter each; padding is written to the null block, which no request reads."""
        slots = metadata.slot_mapping.clamp(min=0)
        for cache, new in ((key_cache, key), (value_cache, value)):
            cache.view(-1, *cache.shape[2:]).index_copy_(0, slots, new)

    def attend(
        self, query: Tensor, key_cache: Tensor, value_cache: Tensor, plan: StaticPlan
    ) -> Tensor:
        """All decodes at once, over all keys that their tables have room for."""
        spec, seq_lens, block_tables = plan
        tables = block_tables.long()
        keys, values = (cache[tables].flatten(1, 2) for cache in (key_cache, value_cache))
        at = torch.arange(keys.shape[1], device=query.device)
        is_seen = at < seq_lens[:, None]
        if spec.sliding_window is not None:
            is_seen = is_seen & (at >= seq_lens[:, None] - spec.sliding_window)
        hidden = ~is_seen[:, None, None]  # [B, 1, 1, keys]
        # What is not seen may be NaN, and 0 * NaN is NaN.
        keys, values = (
            x.permute(0, 2, 1, 3).masked_fill(hidden.transpose(2, 3), 0) for x in (keys, values)
        )
        grouped = query.view(len(query), spec.num_kv_heads, spec.group_size, -1).float()
        scores = (grouped @ keys.float().transpose(2, 3)).mul_(spec.scale)
        scores.masked_fill_(hidden, torch.finfo(torch.float32).min)
        weights = softmax(scores, spec.sinks, spec.num_kv_heads, -1, 1)
        output: Tensor = weights @ values.float()
        return output.to(query.dtype).flatten(1, 2)


def recordable(
    backend: AttentionBackend, specs: Sequence[AttentionSpec]
) -> tuple[AttentionBackend, AttentionCGSupport]:
    """The back end that stands in for this one in a recording of these layers, and what it supports
    there. A request begins another chunk of the past in any step, so the plan of chunks does not
    stay.
    """
    if any(spec.attention_chunk_size for spec in specs):
        return backend, AttentionCGSupport.NEVER
    support = AttentionCGSupport[backend.cudagraph_support]
    return StaticTorchBackend() if backend.name == "torch" else backend, support


class BreakingAttention(PagedAttention):
    """Attention outside of what is recorded, over as many rows as the step has.

    break_at: what ends a recording and begins the next one (Recording.break_at).
    """

    def __init__(self, break_at: Callable[[Call], None]) -> None:
        self.break_at = break_at
        self.step: PagedAttention | None = None  # of the step that is replayed
        self.num_tokens = 0

    def __call__(
        self,
        layer_idx: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        rotation: Rotation | None = None,
    ) -> Tensor:
        output = torch.zeros_like(query)

        def attend() -> None:
            if self.step is not None:
                n = self.num_tokens
                turned = None if rotation is None else Rotation(*(x[:n] for x in rotation))
                output[:n] = self.step(layer_idx, query[:n], key[:n], value[:n], turned)

        self.break_at(attend)
        return output
