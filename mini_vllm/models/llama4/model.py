"""Llama 4, text (Meta 2025): layers that see their own chunk of the past, and layers that see all.

The first turn queries and keys by positions, the second do not (NoPE): a long context is theirs.
Their scores grow with the position, since a softmax over more keys is flatter. Experts take the
place of the MLP in some layers, or in all.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from mini_vllm.attention import PagedAttention, Rotation
from mini_vllm.errors import Rule, UnsupportedModelError, integer, shown
from mini_vllm.models.config_fields import BOOL, POSITIVE, HFConfig, check_values, list_of
from mini_vllm.models.decoder import DecoderModel
from mini_vllm.models.layers.mlp import GatedMLP
from mini_vllm.models.layers.norm import RMSNorm
from mini_vllm.models.llama4.experts import Llama4MoE
from mini_vllm.models.weights import WeightLoader

EMBEDDING = "model.embed_tokens.weight"
LAYERS = list_of(integer(0, 10_000).holds, "integers in [0, 10000]")
VALUES: Mapping[str, Rule] = {
    "intermediate_size_mlp": integer(1, 1 << 22),
    "num_local_experts": integer(1, 1 << 14),
    "moe_layers": LAYERS,
    "use_qk_norm": BOOL,
    "attn_temperature_tuning": BOOL,
    "floor_scale": POSITIVE,
    "attn_scale": POSITIVE,
}


class L2Norm(RMSNorm):
    """RMSNorm without weights."""

    def __init__(self, loader: WeightLoader, size: int, eps: float) -> None:
        nn.Module.__init__(self)
        ones = torch.ones(size, dtype=loader.dtype, device=loader.device)
        self.weight, self.eps = nn.Parameter(ones, requires_grad=False), eps


class Llama4ForCausalLM(DecoderModel):
    """no_rope_layers has 1 for each layer with rotation, and 0 for each without it; layer_types
    says which see a chunk.
    """

    def __init__(self, config: Any, loader: WeightLoader) -> None:
        file, fields = loader.checkpoint.path / "config.json", vars(config)
        check_values(file, fields, VALUES)
        check_values(file, fields, {"num_experts_per_tok": integer(1, config.num_local_experts)})
        if len(config.no_rope_layers) != config.num_hidden_layers:
            raise UnsupportedModelError(
                f"no_rope_layers has {len(config.no_rope_layers)} entries for "
                f"{config.num_hidden_layers} layers"
            )
        if (text := loader.at("language_model")).prefix + EMBEDDING in loader.checkpoint:
            loader.checkpoint.ignore("vision_model.")
            loader.checkpoint.ignore("multi_modal_projector.")
            loader = text
        super().__init__(config, loader)

    @cached_property
    def pairs(self) -> Tensor:
        """The channels of a head in the order in which those of a pair stand half a head apart."""
        order = torch.arange(self.head_dim).view(-1, 2).T.flatten()
        return order.to(self.rotary.inv_freq.device)

    def attention_options(self, config: Any, layer_idx: int) -> dict[str, Any]:
        """Queries and keys that are turned are normalised per head: an angle changes no norm. The
        two channels of a pair lie side by side.
        """
        is_rotated = config.no_rope_layers[layer_idx] == 1
        return {
            "qkv_bias": config.attention_bias,
            "o_bias": config.attention_bias,
            "is_rotated": is_rotated,
            "attention_chunk_size": chunk_of_layer(config, layer_idx),
            "qk_norm_eps": config.rms_norm_eps if is_rotated and config.use_qk_norm else None,
            "norm_cls": L2Norm,
            "channels": self.pairs if is_rotated else None,
        }

    def build_mlp(self, config: Any, loader: WeightLoader, layer_idx: int) -> nn.Module:
        """Experts, or a plain MLP of another width. Its checkpoints have names of their own."""
        prefix = loader.prefix.removesuffix("mlp.") + "feed_forward."
        loader, hidden = replace(loader, prefix=prefix), self.hidden_size
        if layer_idx not in config.moe_layers:
            return GatedMLP(loader, hidden, config.intermediate_size_mlp)
        experts = config.num_local_experts, config.num_experts_per_tok
        return Llama4MoE(loader, hidden, config.intermediate_size, *experts)

    def forward(self, input_ids: Tensor, positions: Tensor, attend: PagedAttention) -> Tensor:
        hidden = self.embed(input_ids)
        rotation = self.rotary(positions, hidden.dtype)
        config: Any = self.config
        unturned: Any = attend
        if config.attn_temperature_tuning:
            unturned = scaling_queries(attend, scales_of(config, positions))
        residual = None
        for layer, turns in zip(self.layers, config.no_rope_layers, strict=True):
            own = attend if turns == 1 else unturned
            hidden, residual = layer(hidden, residual, rotation, own)
        assert residual is not None, "there is at least one layer"
        normalised: Tensor = self.norm.add(hidden, residual)[0]
        return normalised


def chunk_of_layer(config: HFConfig, layer_idx: int) -> int | None:
    """attention_chunk_size for a layer that sees a chunk. Errors: UnsupportedModelError for another
    type of layer, and for a chunk that is asked for and not given.
    """
    kind, chunk = config.layer_types[layer_idx], config.attention_chunk_size
    if kind == "full_attention":
        return None
    if kind != "chunked_attention" or chunk is None:
        raise UnsupportedModelError(
            f"layer_types: layer type {shown(kind)} of layer {layer_idx} with attention_chunk_size "
            f"{chunk}; supported are full_attention, and chunked_attention with a size"
        )
    return chunk


def scales_of(config: Any, positions: Tensor) -> Tensor:
    """What queries at positions [T] are multiplied by, [T, 1, 1] float32 (arXiv 2501.19399)."""
    steps = ((positions.float() + 1) / config.floor_scale).floor()
    scales: Tensor = steps.log1p() * config.attn_scale + 1
    return scales[:, None, None]


def scaling_queries(attend: PagedAttention, scales: Tensor) -> Callable[..., Tensor]:
    """Attention of queries that are scaled first."""

    def attend_scaled(
        layer_idx: int, query: Tensor, key: Tensor, value: Tensor, rotation: Rotation
    ) -> Tensor:
        scaled = (query * scales).to(query.dtype)
        return attend(layer_idx, scaled, key, value, rotation)

    return attend_scaled
