"""OLMoE (Muennighoff et al. 2024): experts in place of every MLP, and norms over all
heads at once.

Qwen3 normalises each head by its own mean square, here all queries of a token have one, and all of
its keys. A rank has some of the heads, so the ranks add up their squares.
"""

from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from mini_vllm.models.config_fields import BOOL, POSITIVE, check_values
from mini_vllm.models.decoder import DecoderModel
from mini_vllm.models.layers.self_attention import AttentionShape, SelfAttention
from mini_vllm.models.moe.experts import FusedMoE
from mini_vllm.models.moe.router import Router, check_experts
from mini_vllm.models.weights import WeightLoader

VALUES = {"norm_topk_prob": BOOL, "clip_qkv": POSITIVE.or_none("null")}


class OlmoeAttention(SelfAttention):
    """eps: of the norm. clip: the largest absolute value of a query, a key and a value; None for
    any. vLLM: OlmoeAttention, which leaves out the clip.
    """

    def __init__(
        self,
        loader: WeightLoader,
        shape: AttentionShape,
        layer_idx: int,
        *,
        eps: float,
        clip: float | None,
        **options: Any,
    ) -> None:
        super().__init__(loader, shape, layer_idx, **options)
        self.communicator, self.eps, self.clip = loader.shard.communicator, eps, clip
        shard = loader.shard.of_attention(shape.num_kv_heads)
        numbers = {"q_norm": (shard, shape.num_heads), "k_norm": (shard.kv, shape.num_kv_heads)}
        self.weights = nn.ParameterList(
            replace(loader.at(name), shard=part).load({"weight": (number * shape.head_dim,)}, 0)
            for name, (part, number) in numbers.items()
        )
        # of all ranks together, on some of which the same keys may be
        heads = torch.tensor(self.heads[:2], device=loader.device)
        self.sizes = heads[:, None] * (shape.head_dim * loader.shard.size)

    def prepared(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        """Queries and keys are normalised, and all three clipped."""
        wide = [each.flatten(1).float() for each in (query, key)]
        squares = torch.stack([each.square().sum(-1) for each in wide])
        means = self.communicator.all_reduce(squares) / self.sizes
        found = [
            ((each * scale[:, None]).to(value.dtype) * weight).unflatten(-1, (-1, self.head_dim))
            for each, scale, weight in zip(
                wide, (means + self.eps).rsqrt(), self.weights, strict=True
            )
        ]
        found.append(value)
        return tuple(
            found if self.clip is None else (each.clamp(-self.clip, self.clip) for each in found)
        )


class OlmoeForCausalLM(DecoderModel):
    """Every layer has experts. norm_topk_prob is false in the published models."""

    attention_cls: ClassVar[type[SelfAttention]] = OlmoeAttention

    def __init__(self, config: Any, loader: WeightLoader) -> None:
        check_values(loader.checkpoint.path / "config.json", vars(config), VALUES)
        check_experts(config, loader)
        super().__init__(config, loader)

    def attention_options(self, config: Any, layer_idx: int) -> dict[str, Any]:
        biases = {"qkv_bias": config.attention_bias, "o_bias": config.attention_bias}
        norm = {"eps": config.rms_norm_eps, "clip": config.clip_qkv}
        return super().attention_options(config, layer_idx) | biases | norm

    def build_mlp(self, config: Any, loader: WeightLoader, layer_idx: int) -> nn.Module:
        router = Router.of(config, loader, is_renormalised=config.norm_topk_prob)
        return FusedMoE(loader, router, config.intermediate_size)
