"""The model runner: one StepInput in, one token for every request that caught up out.

StepInput is all that the runner knows of a step: an immutable snapshot that the engine takes right after schedule().
The runner packs it into one varlen batch, in which prefill chunks and decodes lie side by side, runs the model over
the paged KV cache and samples. It owns the KV cache's memory; which blocks are whose is the scheduler's business.
Source: vllm/v1/worker/gpu_model_runner.py (_prepare_inputs, execute_model).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from mini_vllm.attention import AttentionBackend, AttentionMetadata, PackedRequest, PagedAttention
from mini_vllm.attention.metadata import to_device
from mini_vllm.models import DecoderModel
from mini_vllm.sampler import SampledToken, Sampler, SamplingRow


@dataclass(frozen=True, slots=True)
class ScheduledChunk:
    """What one request computes in this step: its tokens [start, start + len(token_ids))."""

    request_id: str
    token_ids: tuple[int, ...]
    start: int  # num_computed_tokens before the step
    block_ids: tuple[int, ...]  # the block table, long enough for the chunk
    sampling: SamplingRow | None  # None: an inner chunk, its logits predict a token that is known already


@dataclass(frozen=True, slots=True)
class StepInput:
    """The boundary between the live world of requests and the runner. Nothing in it changes any more."""

    chunks: tuple[ScheduledChunk, ...]
    finished_req_ids: tuple[str, ...] = ()  # ended since the last step: state kept for them may go


class ModelRunner:
    """Owns the model and the KV cache: per layer two tensors [num_blocks, block_size, num_kv_heads, head_dim]."""

    def __init__(
        self,
        model: DecoderModel,
        attention_backend: AttentionBackend,
        *,
        num_blocks: int,
        block_size: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.model = model
        self.attention_backend = attention_backend
        self.block_size = block_size
        self.device = device
        self.sampler = Sampler()
        shape = (num_blocks, block_size, model.num_kv_heads, model.head_dim)
        self.kv_caches = [
            (torch.zeros(shape, dtype=dtype, device=device), torch.zeros(shape, dtype=dtype, device=device))
            for _ in range(model.num_layers)
        ]

    @torch.inference_mode()
    def execute(self, step: StepInput) -> dict[str, SampledToken]:
        """Compute every chunk; returns the sampled token of each request that caught up."""
        input_ids, positions, metadata = self.pack(step.chunks)
        attend = PagedAttention(self.attention_backend, self.kv_caches, metadata)
        hidden = self.model.forward(input_ids, positions, attend)
        ends = accumulate(len(chunk.token_ids) for chunk in step.chunks)
        sampled = [(chunk, end - 1) for chunk, end in zip(step.chunks, ends, strict=True) if chunk.sampling]
        if not sampled:
            return {}
        logits = self.model.compute_logits(hidden[self._to_device([row for _, row in sampled])])
        tokens = self.sampler(logits, [chunk.sampling for chunk, _ in sampled if chunk.sampling])
        return {chunk.request_id: token for (chunk, _), token in zip(sampled, tokens, strict=True)}

    def pack(self, chunks: Sequence[ScheduledChunk]) -> tuple[Tensor, Tensor, AttentionMetadata]:
        """Lay the chunks end to end: input_ids [T], positions [T] and the metadata that tells them apart again."""
        packed = [PackedRequest(chunk.block_ids, chunk.start, len(chunk.token_ids)) for chunk in chunks]
        input_ids = [token_id for chunk in chunks for token_id in chunk.token_ids]
        positions = [position for request in packed for position in request.positions]
        metadata = AttentionMetadata.pack(packed, self.block_size, self.device)
        return self._to_device(input_ids), self._to_device(positions), metadata

    def _to_device(self, values: list[int]) -> Tensor:
        return to_device(np.array(values, np.int64), self.device)
