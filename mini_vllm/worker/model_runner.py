"""The model runner: one StepInput in, one token for every row of logits that is asked for out.

A StepInput says what is new; what the runner has to remember of its requests is in its InputBatch.
The runner lays the chunks end to end in one varlen batch, in which prefill chunks and decodes lie
side by side, runs the model over the paged KV cache and samples. It owns the KV cache's memory;
which blocks are whose is the scheduler's business. Source: vllm/v1/worker/gpu_model_runner.py
(_update_states, _prepare_inputs, execute_model).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from mini_vllm.attention import AttentionBackend, PagedAttention
from mini_vllm.attention.metadata import to_device
from mini_vllm.errors import ConnectorMissingError
from mini_vllm.models.decoder import DecoderModel
from mini_vllm.offload.hybrid.layout import tensors_of_layers
from mini_vllm.spec_decode.verify import accept
from mini_vllm.step import PromptLogprobs, StepInput, StepOutput
from mini_vllm.worker.cache_engine import CacheEngine
from mini_vllm.worker.input_batch import InputBatch, PackedStep
from mini_vllm.worker.sampler import Pending, Sampler
from mini_vllm.worker.sampling.logprobs import gather_logprobs

# For each byte of a mask the most that its 8 logits may be. A minimum takes a tenth of the time of
# masked_fill_.
CAPS = torch.tensor(
    [[torch.inf if byte >> bit & 1 else -torch.inf for bit in range(8)] for byte in range(256)]
)
Collect = Callable[[], StepOutput]  # waits for what came of a step
PROMPT_ROWS = 64  # of logits, for the log-probabilities of a prompt


class ModelRunner:
    """Owns the model and, in its CacheEngine, the KV cache and the CPU pool of num_cpu_blocks
    blocks beside it.
    """

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
        layer_groups: Sequence[int] = (),
    ) -> None:
        """layer_groups: the group of each layer, whose block tables it uses; () is one group for
        all. Layer i of every group has its keys and values in tensor i, since a block is in use by
        one group at a time.
        """
        tensors = tensors_of_layers(layer_groups, model.num_layers)
        self.model = model
        self.attention_backend = attention_backend
        self.block_size = block_size
        self.device = device
        self.sampler = Sampler()
        self.layer_groups = layer_groups
        self.batch = InputBatch(block_size, device, max(layer_groups, default=0) + 1)
        self.cache_engine = CacheEngine(
            max(tensors) + 1,
            (block_size, model.num_kv_heads, model.head_dim),
            num_blocks=num_blocks,
            num_cpu_blocks=num_cpu_blocks,
            dtype=dtype,
            device=device,
            stride_order=attention_backend.stride_order,
        )
        self.kv_caches = [self.cache_engine.kv_caches[tensor] for tensor in tensors]  # by layer

    def execute(self, step: StepInput) -> StepOutput:
        """launch(), and wait for what comes of it."""
        return self.launch(step)()

    @torch.inference_mode()
    def launch(self, step: StepInput) -> Collect:
        """Take in what is new, move blocks, compute every chunk, and sample from the rows that are
        asked for. The device may still be at it; what is returned waits for it.

        KVPlan.connector is for an executor with a worker side of that connector, which does the
        work and takes it out of the plan. Raises ConnectorMissingError if it is still there, before
        anything has changed.
        """
        if step.kv.connector is not None:
            raise ConnectorMissingError(
                f"nobody here carries out {step.kv.connector!r}, which a KV connector asks for"
            )
        self.batch.update(step)
        self.cache_engine.swap_out(step.kv.swap_out)
        self.cache_engine.swap_in(step.kv.swap_in)
        self.cache_engine.copy(step.kv.copy)
        if not step.req_ids:
            return StepOutput
        packed = self.batch.pack(step)
        return self._sample_from(step, packed, self._forward(packed))

    def _forward(self, packed: PackedStep) -> Tensor:
        """The final hidden states [T, hidden_size] of a packed step.

        A subclass may replay what it has recorded.
        """
        self._feed(packed, packed.input_ids)
        attend = PagedAttention(
            self.attention_backend,
            self.kv_caches,
            packed.metadata,
            self.model.attention_specs,
            self.layer_groups,
        )
        return self.model.forward(packed.input_ids, packed.metadata[0].positions, attend)

    def _feed(self, packed: PackedStep, input_ids: Tensor) -> None:
        """Put the tokens that the host does not know into input_ids [T], on the device."""
        if len(packed.fed):
            places, rows = to_device(packed.fed, self.device)
            last = self.batch.sampling.last_token_ids.index_select(0, rows)
            input_ids.index_copy_(0, places, last)

    def _sample_from(self, step: StepInput, packed: PackedStep, hidden: Tensor) -> Collect:
        """Logits of the rows that are asked for, masks, and a token from each."""
        prompt_logprobs = self._prompt_logprobs(step, hidden) if step.prompt_targets else {}
        if not step.sample_req_ids:
            return partial(StepOutput, prompt_logprobs=prompt_logprobs)
        logits = self.model.compute_logits(hidden[packed.sample_rows])
        if step.masks:
            apply_masks(logits, step.sample_req_ids, step.masks)
        pending = self._sample(step, packed, logits)

        def collect() -> StepOutput:
            sampled = self.sampler.collect(pending)
            return replace(accept(step, sampled), prompt_logprobs=prompt_logprobs)

        return collect

    def _prompt_logprobs(self, step: StepInput, hidden: Tensor) -> dict[str, PromptLogprobs]:
        """How likely the tokens of prompts are.

        So many rows of logits at a time that a long prompt needs little.
        """
        found, row = {}, 0
        for request_id, start, n in zip(
            step.req_ids, step.num_computed_tokens, step.num_scheduled_tokens, strict=True
        ):
            targets, logprobs = step.prompt_targets.get(request_id, ()), []
            for i in range(0, len(targets), PROMPT_ROWS):
                part = targets[i : i + PROMPT_ROWS]
                logits = self.model.compute_logits(hidden[row + i : row + i + len(part)])
                k = self.batch.sampling_rows[request_id].params.prompt_logprobs
                gathered = gather_logprobs(logits, part, [k] * len(part))
                logprobs += [gathered[place] for place in range(len(part))]
            if targets:
                found[request_id] = PromptLogprobs(start + 1, logprobs)
            row += n
        return found

    def _sample(self, step: StepInput, packed: PackedStep, logits: Tensor) -> Pending:
        table = self.batch.sampling
        pending = self.sampler.launch(logits, table, step.sample_req_ids, packed.sample_positions)
        table.last_token_ids.index_copy_(0, pending.batch.places, pending.token_ids)
        return pending


def apply_masks(
    logits: Tensor, req_ids: Sequence[str], masks: Mapping[str, Sequence[bytes | None]]
) -> None:
    """Set to -inf, in place, in rows of logits [S, V] what the masks of StepInput leave out.
    req_ids [S]: whose rows.

    A mask has at least V bits. Source: apply_grammar_bitmask in vllm/v1/structured_output/utils.py.
    """
    upcoming = {request_id: iter(rows) for request_id, rows in masks.items()}
    found = [
        (i, next(upcoming[request_id]))
        for i, request_id in enumerate(req_ids)
        if request_id in upcoming
    ]
    rows = np.array([i for i, mask in found if mask is not None], np.int64)
    packed = b"".join(mask for _, mask in found if mask is not None)
    if len(rows):
        # index_select takes int32, and one upload from pinned memory needs no wait
        packed_bytes = to_device(np.frombuffer(packed, np.uint8).astype(np.int32), logits.device)
        caps = CAPS.to(logits.device, logits.dtype).index_select(0, packed_bytes)
        caps = caps.view(len(rows), -1)[:, : logits.shape[1]]
        at = to_device(rows, logits.device)
        logits.index_copy_(0, at, torch.minimum(logits.index_select(0, at), caps))
