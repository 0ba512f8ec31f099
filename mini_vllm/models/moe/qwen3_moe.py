"""Qwen3 with experts (Yang et al. 2025): the attention of Qwen3, and experts in place of most
MLPs.
"""

from typing import Any

from torch import nn

from mini_vllm.errors import integer
from mini_vllm.models.config_fields import BOOL, check_values, list_of
from mini_vllm.models.moe.experts import FusedMoE
from mini_vllm.models.moe.router import Router, check_experts
from mini_vllm.models.qwen3 import Qwen3ForCausalLM
from mini_vllm.models.weights import WeightLoader

VALUES = {
    "moe_intermediate_size": integer(1, 1 << 22),
    "norm_topk_prob": BOOL,
    "decoder_sparse_step": integer(1, 10_000),
    "mlp_only_layers": list_of(integer(0, 10_000).holds, "integers in [0, 10000]").or_none("null"),
}


class Qwen3MoeForCausalLM(Qwen3ForCausalLM):
    """Every decoder_sparse_step-th layer has experts, but those of mlp_only_layers."""

    def __init__(self, config: Any, loader: WeightLoader) -> None:
        check_values(loader.checkpoint.path / "config.json", vars(config), VALUES)
        check_experts(config, loader)
        super().__init__(config, loader)

    def build_mlp(self, config: Any, loader: WeightLoader, layer_idx: int) -> nn.Module:
        """Experts, or a plain MLP."""
        is_dense = layer_idx in (config.mlp_only_layers or ())
        if is_dense or (layer_idx + 1) % config.decoder_sparse_step:
            return super().build_mlp(config, loader, layer_idx)
        router = Router.of(config, loader, is_renormalised=config.norm_topk_prob)
        return FusedMoE(loader, router, config.moe_intermediate_size)
