"""What of a checkpoint fits into memory, told before a byte of its weights is read.

The model is built on torch's meta device, from config.json and the headers of the weight files. Its
parameters then have shapes and no memory. LocalExecutor refuses weights that do not fit, and
`mini-vllm doctor --model` shows every form of them. vLLM finds out by loading.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from mini_vllm.attention import AttentionBackend
from mini_vllm.attention.groups.chunks import check_chunk
from mini_vllm.config import EngineConfig
from mini_vllm.errors import WeightsTooLargeError
from mini_vllm.models.checkpoint import load_hf_config, resolve_model
from mini_vllm.models.config_fields import HFConfig
from mini_vllm.models.decoder import DecoderModel
from mini_vllm.models.layers.linear import is_packed
from mini_vllm.models.registry import META, load_model
from mini_vllm.offload.hybrid.layout import KVCacheLayout, layout_of
from mini_vllm.parallel.experts.shard import shard_of
from mini_vllm.step import LayerKVSpec, ModelInfo
from mini_vllm.worker.device import available_bytes, free_memory, pick_device, pick_dtype
from mini_vllm.worker.memory import max_positions


@dataclass(frozen=True, slots=True)
class Form:
    """One way to hold the weights. weight_bytes: at the peak of loading; free_bytes: of the device,
    before.

    max_model_len: tokens, which the KV cache beside the weights has room for; 0 where none is.
    layout: which layers share blocks.
    """

    dtype: torch.dtype
    quantization: str | None
    weight_bytes: int
    free_bytes: int
    max_model_len: int
    layout: KVCacheLayout

    @property
    def fits(self) -> bool:
        """Whether the weights fit, and a KV cache beside them."""
        return self.weight_bytes <= self.free_bytes and self.max_model_len > 0

    @property
    def figures(self) -> str:
        """What it takes of what there is."""
        return (
            f"{self.weight_bytes:,} of {self.free_bytes:,} bytes that are available; "
            f"max_model_len {self.max_model_len:,}{self.layout.describe(self.max_model_len)}"
        )

    def __str__(self) -> str:
        kind = f", quantization {self.quantization}" if self.quantization else ""
        return f"dtype {str(self.dtype).removeprefix('torch.')}{kind}"


@dataclass(frozen=True, slots=True)
class Target:
    """A checkpoint, the device that it is to be loaded on, and what attends there."""

    config: EngineConfig
    hf_config: HFConfig
    path: Path
    device: torch.device
    backend: AttentionBackend | None = None

    def accept(self, model: DecoderModel) -> None:
        """Raise WeightsTooLargeError for a model, built on the meta device, whose weights do not
        fit, and InvalidParameterError for layers that the back end cannot compute, or that see
        chunks which do not begin with a block.
        """
        if self.backend:
            self.backend.check_layers(model.attention_specs)
        for spec in model.attention_specs:
            check_chunk(spec.attention_chunk_size or 0, self.config.block_size)
        form = self.form_of(model)
        if form.weight_bytes > form.free_bytes:
            raise self.refusal(form)

    def refusal(self, form: Form) -> WeightsTooLargeError:
        """Why the weights cannot be held in that form, and in which they can."""
        forms = sorted(self.forms(form.dtype), key=lambda each: each.weight_bytes)
        fitting = [
            f"{each} ({each.weight_bytes:,} bytes, max_model_len {each.max_model_len:,})"
            for each in forms
            if each.fits
        ]
        least = f"no form of them; the least, {forms[0]}, needs {forms[0].weight_bytes:,} bytes"
        return WeightsTooLargeError(
            f"{self.path}: the weights need {form.weight_bytes:,} bytes with {form}, "
            f"{form.free_bytes:,} bytes are available on {self.device}; what would fit: "
            f"{' or '.join(fitting) or least}"
        )

    def forms(self, dtype: torch.dtype) -> Iterator[Form]:
        """The weights in that dtype and in 16 bits, as they are stored and in eight bits."""
        for each in dict.fromkeys((dtype, torch.bfloat16)):
            model = self._outline(each, None)
            yield self.form_of(model)
            if model.quantization is None:
                yield self.form_of(self._outline(each, "int8"))

    def form_of(self, model: DecoderModel) -> Form:
        """What a model on the meta device will take, once it is loaded."""
        dtype = model.embed_tokens.weight.dtype
        weights = weight_bytes(model, self.device)
        config = self.config
        layout = layout_of(
            info_of(model).kv_specs, config.block_size, config.max_num_batched_tokens
        )
        max_model_len = layout.fit(
            available_bytes(config, self.hf_config, dtype, self.device, weights),
            config.max_model_len or max_positions(self.hf_config),
        )
        return Form(
            dtype,
            model.quantization,
            weights,
            free_memory(self.device, config.tensor_parallel_size),
            max_model_len,
            layout,
        )

    def _outline(self, dtype: torch.dtype, quantization: str | None) -> DecoderModel:
        return load_model(
            self.path,
            self.hf_config,
            dtype=dtype,
            device=META,
            shard=shard_of(self.config),
            quantization=quantization,
        )


def forms_of(config: EngineConfig) -> list[Form]:
    """Every form of a model, its own first; of one that is cut among ranks, a rank's part. Raises a
    CheckpointError, also if none of them fits.
    """
    path = resolve_model(config.model)
    hf_config = load_hf_config(path)
    target = Target(config, hf_config, path, pick_device(config.device))
    forms = list(target.forms(pick_dtype(config.dtype, hf_config, path)))
    if not any(form.fits for form in forms):
        raise target.refusal(forms[0])
    return forms


def weight_bytes(model: DecoderModel, device: torch.device) -> int:
    """Bytes that a model, built on the meta device, takes on `device` at the peak of its loading.

    The head is the last tensor, and the largest that is kept in a form of its own. So its plain
    form is there beside the whole model: for a moment, or always if it is the embedding.
    """
    table = model.embed_tokens.weight
    is_copied = is_packed(device, table.dtype)
    if model.quantization == "int8":
        is_copied = model.lm_head is not None
    return sum(each.nbytes for each in model.parameters()) + is_copied * table.nbytes


def info_of(model: DecoderModel) -> ModelInfo:
    """What an engine has to know of a model."""
    specs = tuple(
        LayerKVSpec(
            spec.num_kv_heads,
            spec.head_dim,
            spec.dtype.itemsize,
            spec.sliding_window,
            spec.attention_chunk_size,
        )
        for spec in model.attention_specs
    )
    return ModelInfo(model.vocab_size, specs)
