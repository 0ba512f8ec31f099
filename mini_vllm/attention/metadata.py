"""What attention must know about a layer, and about one packed batch.

A step computes T tokens of B requests, laid end to end without padding between them: prefill chunks
and decodes are packed alike. The metadata says where each request's tokens lie, how long its
sequence is, and which blocks hold its keys and values. The model runner makes one per step; every
layer reads the same one.

Invariant: request i owns rows [query_start_loc[i], query_start_loc[i+1]) of the batch, and these
rows are the last query_lens[i] positions of a sequence of seq_lens[i] tokens. The
num_computed_tokens[i] = seq_lens[i] - query_lens[i] tokens before them were computed in earlier
steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mini_vllm.errors import InvalidParameterError

Array = npt.NDArray[np.int64]
MAX_HEAD_DIM = 256


@dataclass(frozen=True, slots=True)
class AttentionSpec:
    """How a layer attends.

    Layers that are alike share a plan of each step, so the specs are compared and hashed.

    A query at position p sees the keys at positions [0, p], or (p - sliding_window, p], or those of
    its own chunk, [p // attention_chunk_size * attention_chunk_size, p]: PagedAttention then plans
    each chunk as a request of its own, and no rung looks at the number. Scores are
    scale * query . key. Query head h reads KV head h // (num_heads // num_kv_heads). dtype is that
    of queries, keys, values and KV cache. sinks [num_heads] float32: for each head one more score,
    which takes its part of the softmax and has no value (Xiao et al. 2023; gpt-oss learns them);
    a plan does not depend on them. Errors: InvalidParameterError for numbers that no layer can
    have.
    """

    num_heads: int
    num_kv_heads: int
    head_dim: int
    scale: float
    sliding_window: int | None = None
    dtype: torch.dtype = torch.float32
    sinks: Tensor | None = field(default=None, compare=False)
    attention_chunk_size: int | None = None

    def __post_init__(self) -> None:
        if self.num_kv_heads < 1 or self.num_heads < 1 or self.num_heads % self.num_kv_heads:
            raise InvalidParameterError(
                f"num_heads is {self.num_heads}, which is no multiple of num_kv_heads, "
                f"{self.num_kv_heads}"
            )
        if not 1 <= self.head_dim <= MAX_HEAD_DIM:
            raise InvalidParameterError(
                f"head_dim is {self.head_dim}, supported are 1 to {MAX_HEAD_DIM}"
            )
        if not self.scale > 0:
            raise InvalidParameterError(f"scale is {self.scale}, it must be above 0")
        if self.sliding_window is not None and self.sliding_window < 1:
            raise InvalidParameterError(
                f"sliding_window is {self.sliding_window}, it must be None or at least 1"
            )

    @property
    def group_size(self) -> int:
        """Query heads that share a KV head."""
        return self.num_heads // self.num_kv_heads


class PackedRequest(NamedTuple):
    """The part of one request that a step computes: query_len positions, from num_computed_tokens
    on.
    """

    block_ids: Sequence[int]
    num_computed_tokens: int
    query_len: int

    @property
    def positions(self) -> range:
        """Of these tokens in their sequence; suites that learners write ask for them."""
        return range(self.num_computed_tokens, self.num_computed_tokens + self.query_len)


@dataclass(frozen=True, slots=True)
class AttentionMetadata:
    """One packed batch (vLLM: CommonAttentionMetadata).

    Tensors are on the device of the KV cache. The names that end in _cpu are NumPy arrays of the
    host, which must not wait for the device to know them.
    """

    positions: Tensor  # [T] int64: where each token stands in its sequence
    # [T] int64: slot = block_id * block_size + offset; -1 is padding and is skipped
    slot_mapping: Tensor
    query_start_loc: Tensor  # [B + 1] int32
    seq_lens: Tensor  # [B] int32: computed tokens plus this step's
    block_tables: Tensor  # [B, max_blocks] int32; columns past a sequence's last block mean nothing
    block_size: int
    query_lens_cpu: Array  # [B] int64: the tokens of this step
    seq_lens_cpu: Array  # [B] int64: seq_lens
    # stands for every batch of at most T rows and B requests, of at most seq_lens_cpu tokens each
    is_bound: bool = False

    @classmethod
    def build(
        cls,
        num_computed_tokens: Array,
        query_lens: Array,
        block_tables: npt.NDArray[np.int32],
        block_size: int,
        device: torch.device,
    ) -> "AttentionMetadata":
        """Lay requests end to end, in the order of the rows.

        num_computed_tokens and query_lens [B] int64; block_tables [B, max_blocks] int32, padded
        with anything. Columns that no sequence of this batch reaches are left out. The arrays are
        copied, so the caller may change them at once. Errors: InvalidParameterError for a sequence
        that is longer than its row of block_tables.
        """
        seq_lens = num_computed_tokens + query_lens
        num_requests, max_blocks = block_tables.shape
        refuse_too_long(np.full(num_requests, max_blocks), seq_lens, block_size)
        tables = block_tables[:, None].copy()
        (metadata,) = cls.of_groups(seq_lens, query_lens.copy(), tables, block_size, device)
        return metadata

    @classmethod
    def of_groups(
        cls,
        seq_lens: Array,
        query_lens: Array,
        block_tables: npt.NDArray[np.int32],
        block_size: int,
        device: torch.device,
    ) -> "list[AttentionMetadata]":
        """The same requests for each of G groups of layers, whose block tables [B, G, max_blocks]
        differ. All else is the same in every group, and there once.

        Each sequence fits into its tables. The arrays are kept. Called every step: in NumPy,
        without a loop over requests or blocks.
        """
        num_blocks = -(-int(seq_lens.max(initial=0)) // block_size)
        query_start_loc = np.zeros(len(query_lens) + 1, np.int32)
        query_lens.cumsum(out=query_start_loc[1:])
        owner, place = ragged(query_lens)
        positions = place + (seq_lens - query_lens)[owner]
        shared: dict[str, Any] = {
            "positions": to_device(positions, device),
            "query_start_loc": to_device(query_start_loc, device),
            "seq_lens": to_device(seq_lens.astype(np.int32), device),
            "block_size": block_size,
            "query_lens_cpu": query_lens,
            "seq_lens_cpu": seq_lens,
        }
        return [
            cls(
                slot_mapping=to_device(to_slots(tables, owner, positions, block_size), device),
                block_tables=to_device(tables[:, :num_blocks], device),
                **shared,
            )
            for tables in block_tables.transpose(1, 0, 2)
        ]

    @classmethod
    def pack(
        cls, requests: Sequence[PackedRequest], block_size: int, device: torch.device
    ) -> "AttentionMetadata":
        """build() for requests that are objects, in the order given: for tests, labs and
        benchmarks.

        Errors: InvalidParameterError for too few block ids.
        """
        numbers = [(each[1], each[2], len(each.block_ids)) for each in requests]
        num_computed_tokens, query_lens, num_blocks = np.array(numbers, np.int64).reshape(-1, 3).T
        refuse_too_long(num_blocks, num_computed_tokens + query_lens, block_size)
        tables = np.zeros((len(requests), num_blocks.max(initial=0)), np.int32)
        for row, request in zip(tables, requests, strict=True):
            row[: len(request.block_ids)] = request.block_ids
        return cls.build(num_computed_tokens, query_lens, tables, block_size, device)


def refuse_too_long(num_blocks: Array, seq_lens: Array, block_size: int) -> None:
    """Errors: InvalidParameterError for the first request whose num_blocks[i] blocks cannot hold
    seq_lens[i] tokens.
    """
    too_long = seq_lens > num_blocks * block_size
    if too_long.any():
        i = int(too_long.argmax())
        raise InvalidParameterError(
            f"request {i}: {num_blocks[i]} blocks have room for {num_blocks[i] * block_size} "
            f"tokens, its sequence has {seq_lens[i]}"
        )


def to_slots(
    block_tables: npt.NDArray[np.int32],
    requests: npt.NDArray[np.int64],
    positions: npt.NDArray[np.int64],
    block_size: int,
) -> npt.NDArray[np.int64]:
    """The slot of each token: requests[t] says whose row of block_tables [B, max_blocks],
    positions[t] where in it.

    A slot is block_id * block_size + offset. Source: BlockTable.compute_slot_mapping in
    vllm/v1/worker/block_table.py.
    """
    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
    return block_ids * block_size + positions % block_size


def ragged(lengths: Array) -> tuple[Array, Array]:
    """For lengths (2, 0, 3): the owner of each element (0, 0, 2, 2, 2) and its index there (0, 1,
    0, 1, 2).
    """
    owner = np.repeat(np.arange(len(lengths)), lengths)
    return owner, np.arange(len(owner)) - (np.cumsum(lengths) - lengths)[owner]


def to_device(array: npt.NDArray[np.int32] | Array, device: torch.device) -> Tensor:
    """A fresh array as a tensor on the device.

    From pinned memory the host need not wait for the copy.
    """
    tensor = torch.from_numpy(array)
    if device.type == "cpu":
        return tensor
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)
