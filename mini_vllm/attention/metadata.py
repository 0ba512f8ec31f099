"""What attention must know about one packed batch.

A step computes T tokens of B requests, laid end to end without padding between them: prefill chunks and decodes are
packed alike. The metadata says where each request's tokens lie, how long its sequence is, and which blocks hold its
keys and values. The model runner makes one per step; every layer reads the same one.

Invariant: request i owns rows [query_start_loc[i], query_start_loc[i+1]) of the batch, and these rows are the last
query_lens[i] positions of a sequence of context_lens[i] tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


class PackedRequest(NamedTuple):
    """The part of one request that a step computes: positions [start, start + num_tokens)."""

    block_ids: Sequence[int]
    start: int
    num_tokens: int

    @property
    def positions(self) -> range:
        return range(self.start, self.start + self.num_tokens)


@dataclass(frozen=True, slots=True)
class AttentionMetadata:
    """One packed batch (vLLM: CommonAttentionMetadata). Tensors are on the device of the KV cache."""

    slot_mapping: Tensor  # [T] int64: slot = block_id * block_size + offset; -1 is padding and is skipped
    query_start_loc: Tensor  # [B + 1] int32
    seq_lens: Tensor  # [B] int32: computed tokens plus this step's
    block_tables: Tensor  # [B, max_blocks] int32; columns past a sequence's last block mean nothing
    block_size: int
    query_lens: tuple[int, ...]  # the same numbers for the host, which must not wait for the device to read them
    context_lens: tuple[int, ...]  # seq_lens for the host

    @classmethod
    def pack(cls, requests: Sequence[PackedRequest], block_size: int, device: torch.device) -> "AttentionMetadata":
        """Lay the requests end to end, in the order given. No request may be empty or reach past its blocks."""
        slots = [
            request.block_ids[position // block_size] * block_size + position % block_size
            for request in requests
            for position in request.positions
        ]
        query_lens = tuple(request.num_tokens for request in requests)
        context_lens = tuple(request.start + request.num_tokens for request in requests)
        starts = [0]
        for length in query_lens:
            starts.append(starts[-1] + length)
        width = max((len(request.block_ids) for request in requests), default=0)
        tables = [[*request.block_ids, *[0] * (width - len(request.block_ids))] for request in requests]
        return cls(
            slot_mapping=to_device(torch.tensor(slots, dtype=torch.int64), device),
            query_start_loc=to_device(torch.tensor(starts, dtype=torch.int32), device),
            seq_lens=to_device(torch.tensor(context_lens, dtype=torch.int32), device),
            block_tables=to_device(torch.tensor(tables, dtype=torch.int32).view(len(requests), width), device),
            block_size=block_size,
            query_lens=query_lens,
            context_lens=context_lens,
        )


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """A fresh tensor of the host on the device. From pinned memory the host need not wait for the copy."""
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)
