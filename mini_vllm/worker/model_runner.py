"""The model runner: one StepInput in, one token for every request that caught up out.

StepInput is all that the runner knows of a step: an immutable snapshot that the engine takes right after schedule().
The runner packs it into one varlen batch, in which prefill chunks and decodes lie side by side, runs the model over
the paged KV cache and samples. It owns the KV cache's memory; which blocks are whose is the scheduler's business.
Source: vllm/v1/worker/gpu_model_runner.py (_prepare_inputs, execute_model).
"""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from mini_vllm.attention import AttentionBackend, AttentionMetadata, PackedRequest, PagedAttention
from mini_vllm.attention.metadata import to_device
from mini_vllm.models import DecoderModel
from mini_vllm.step import SampledToken, ScheduledChunk, StepInput
from mini_vllm.worker.cache_engine import CacheEngine
from mini_vllm.worker.sampler import Sampler


class ModelRunner:
    """Owns the model and, in its CacheEngine, the KV cache and the CPU pool of num_cpu_blocks blocks beside it."""

    def __init__(
        self,
        model: DecoderModel,
        attention_backend: AttentionBackend,
        *,
        num_blocks: int,
        block_size: int,
        dtype: torch.dtype,
        device: torch.device,
        num_cpu_blocks: int = 0,
    ) -> None:
        self.model = model
        self.attention_backend = attention_backend
        self.block_size = block_size
        self.device = device
        self.sampler = Sampler()
        self.cache_engine = CacheEngine(
            model.num_layers,
            (block_size, model.num_kv_heads, model.head_dim),
            num_blocks=num_blocks,
            num_cpu_blocks=num_cpu_blocks,
            dtype=dtype,
            device=device,
        )
        self.kv_caches = self.cache_engine.kv_caches

    @torch.inference_mode()
    def execute(self, step: StepInput) -> dict[str, SampledToken]:
        """Copy blocks, compute every chunk; returns a token of each request that caught up and of each of its forks."""
        self.cache_engine.swap_out(step.blocks_to_swap_out)
        self.cache_engine.swap_in(step.blocks_to_swap_in)
        self.cache_engine.copy(step.blocks_to_copy)
        if not step.chunks:
            return {}
        input_ids, positions, metadata = self.pack(step.chunks)
        attend = PagedAttention(self.attention_backend, self.kv_caches, metadata, self.model.attention_specs)
        hidden = self.model.forward(input_ids, positions, attend)
        ends = accumulate(len(chunk.token_ids) for chunk in step.chunks)
        sampled = [
            (request_id, sampling, end - 1)
            for chunk, end in zip(step.chunks, ends, strict=True)
            if chunk.sampling
            for request_id, sampling in ((chunk.request_id, chunk.sampling), *chunk.forks)
        ]
        if not sampled:
            return {}
        request_ids, rows, indices = zip(*sampled, strict=True)
        logits = self.model.compute_logits(hidden[self._to_device(list(indices))])
        return dict(zip(request_ids, self.sampler(logits, rows), strict=True))

    def pack(self, chunks: Sequence[ScheduledChunk]) -> tuple[Tensor, Tensor, AttentionMetadata]:
        """Lay the chunks end to end: input_ids [T], positions [T] and the metadata that tells them apart again."""
        packed = [PackedRequest(chunk.block_ids, chunk.start, len(chunk.token_ids)) for chunk in chunks]
        input_ids = [token_id for chunk in chunks for token_id in chunk.token_ids]
        metadata = AttentionMetadata.pack(packed, self.block_size, self.device)
        return self._to_device(input_ids), metadata.positions, metadata

    def _to_device(self, values: list[int]) -> Tensor:
        return to_device(np.array(values, np.int64), self.device)
