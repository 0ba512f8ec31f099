"""Mixtral (Jiang et al. 2024): Mistral with experts in place of every MLP."""

from dataclasses import replace
from typing import Any

from torch import nn

from mini_vllm.models.decoder import DecoderModel
from mini_vllm.models.moe.experts import FusedMoE
from mini_vllm.models.moe.router import Router, check_experts
from mini_vllm.models.weights import WeightLoader


class MixtralForCausalLM(DecoderModel):
    """The weights of a token's experts add up to 1. No biases."""

    def __init__(self, config: Any, loader: WeightLoader) -> None:
        check_experts(config, loader)
        super().__init__(config, loader)

    def build_mlp(self, config: Any, loader: WeightLoader, layer_idx: int) -> nn.Module:
        """Its checkpoints have names of their own."""
        prefix = loader.prefix.removesuffix("mlp.") + "block_sparse_moe."
        loader = replace(loader, prefix=prefix)
        router = Router.of(config, loader, is_renormalised=True)
        return FusedMoE(loader, router, config.intermediate_size, ("w1", "w3", "w2"))
