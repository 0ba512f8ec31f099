"""Gemma 3, text (Gemma Team 2025): five layers with a sliding window, then one that sees all.

A window is cheap to keep, and the layer that sees all carries what lies behind it. The two kinds
turn by frequencies of their own: the windows by those of a short context, the other ones by those
of a long one, stretched. Each block is normalised on the way in and on the way out, and the weights
of all norms are stored less 1.
"""

from collections.abc import Mapping
from copy import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mini_vllm.attention import PagedAttention, Rotation
from mini_vllm.errors import Rule, UnsupportedModelError, shown
from mini_vllm.models.config_fields import POSITIVE, ROPE_VALUES, HFConfig, check_only
from mini_vllm.models.decoder import DecoderLayer, DecoderModel
from mini_vllm.models.layers.fused import rms_norm
from mini_vllm.models.layers.mlp import GatedMLP
from mini_vllm.models.layers.norm import RMSNorm
from mini_vllm.models.layers.rotary import RotaryEmbedding
from mini_vllm.models.layers.self_attention import SelfAttention
from mini_vllm.models.weights import WeightLoader

ONLY: Mapping[str, tuple[object, ...]] = {
    "hidden_activation": ("gelu_pytorch_tanh",),
    "use_bidirectional_attention": (None, False),
    **dict.fromkeys(("attn_logit_softcapping", "final_logit_softcapping"), (None,)),
}
"""Fields of config.json that change what Gemma 3 computes, and what is implemented."""


class GemmaRMSNorm(RMSNorm):
    """RMSNorm whose weight is stored less 1, all of it in float32, rounded at the end."""

    def __init__(self, loader: WeightLoader, size: int, eps: float) -> None:
        super().__init__(loader, size, eps)
        self.weight = nn.Parameter(1 + self.weight.float(), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x.float(), self.weight, self.eps).to(x.dtype)

    def add(self, x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        residual = residual + x
        return self(residual), residual


class GemmaMLP(GatedMLP):
    """The gate goes through the tanh form of GELU."""

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up_proj(x).chunk(2, dim=-1)
        projected: Tensor = self.down_proj(F.gelu(gate, approximate="tanh") * up)
        return projected


class Gemma3Layer(DecoderLayer):
    """x + norm(attention(norm(x))), then x + norm(mlp(norm(x)))."""

    norm_cls = GemmaRMSNorm

    def __init__(
        self, loader: WeightLoader, self_attn: SelfAttention, mlp: nn.Module, config: HFConfig
    ) -> None:
        super().__init__(loader, self_attn, mlp, config)
        size, eps = config.hidden_size, config.rms_norm_eps
        self.pre_feedforward_layernorm = GemmaRMSNorm(
            loader.at("pre_feedforward_layernorm"), size, eps
        )
        self.post_feedforward_layernorm = GemmaRMSNorm(
            loader.at("post_feedforward_layernorm"), size, eps
        )

    def forward(
        self, hidden: Tensor, residual: Tensor | None, rotation: Rotation, attend: PagedAttention
    ) -> tuple[Tensor, Tensor]:
        if residual is None:
            hidden, residual = self.input_layernorm(hidden), hidden
        else:
            hidden, residual = self.input_layernorm.add(hidden, residual)
        hidden = self.post_attention_layernorm(self.self_attn(hidden, rotation, attend))
        hidden, residual = self.pre_feedforward_layernorm.add(hidden, residual)
        return self.post_feedforward_layernorm(self.mlp(hidden)), residual


class Gemma3ForCausalLM(DecoderModel):
    """Embeddings are scaled by the root of their size, scores by that of query_pre_attn_scalar."""

    layer_cls = Gemma3Layer

    def __init__(self, config: HFConfig, loader: WeightLoader) -> None:
        check_only(f"{loader.checkpoint.path}: Gemma 3", vars(config), ONLY)
        check_number("query_pre_attn_scalar", config.query_pre_attn_scalar, POSITIVE)
        super().__init__(with_rope_of(config, "full_attention"), loader)
        local = with_rope_of(config, "sliding_attention")
        self.local_rotary = RotaryEmbedding(local, self.head_dim, loader.device)

    def attention_options(self, config: HFConfig, layer_idx: int) -> dict[str, Any]:
        """Queries and keys are normalised per head."""
        biases = {"qkv_bias": config.attention_bias, "o_bias": config.attention_bias}
        return (
            super().attention_options(config, layer_idx)
            | biases
            | {"qk_norm_eps": config.rms_norm_eps, "norm_cls": GemmaRMSNorm}
            | {"scale": config.query_pre_attn_scalar**-0.5}
        )

    def build_mlp(self, config: HFConfig, loader: WeightLoader, layer_idx: int) -> nn.Module:
        return GemmaMLP(loader, self.hidden_size, config.intermediate_size)

    def embed(self, input_ids: Tensor) -> Tensor:
        """The embeddings, scaled by a number that is rounded to their dtype first."""
        hidden = super().embed(input_ids)
        return hidden * torch.tensor(self.hidden_size**0.5, dtype=hidden.dtype)

    def forward(self, input_ids: Tensor, positions: Tensor, attend: PagedAttention) -> Tensor:
        hidden = self.embed(input_ids)
        rotations = self.rotary(positions, hidden.dtype), self.local_rotary(positions, hidden.dtype)
        residual = None
        for layer, spec in zip(self.layers, self.attention_specs, strict=True):
            rotation = rotations[spec.sliding_window is not None]
            hidden, residual = layer(hidden, residual, rotation, attend)
        assert residual is not None, "there is at least one layer"
        normalised: Tensor = self.norm.add(hidden, residual)[0]
        return normalised


def check_number(name: str, value: object, rule: Rule) -> None:
    """Errors: UnsupportedModelError for a number that nothing can be computed with."""
    if not rule.holds(value):
        raise UnsupportedModelError(f"{name} is {shown(value)}, allowed is {rule.allowed}")


def with_rope_of(config: HFConfig, layer_type: str) -> HFConfig:
    """The configuration with the rotary parameters of one type of layers.

    Errors: UnsupportedModelError for those of which one is out of range.
    """
    single: Any = copy(config)
    single.rope_parameters = parameters = single.rope_parameters[layer_type]
    for name, rule in ROPE_VALUES.items():
        if name in parameters:
            check_number(f"rope_parameters of {layer_type}: {name}", parameters[name], rule)
    return single  # type: ignore[no-any-return]
