"""Which experts a token goes to, and with what weights."""

from typing import Any, Self

import torch.nn.functional as F
from torch import Tensor, nn

from mini_vllm.errors import integer
from mini_vllm.models.config_fields import check_values
from mini_vllm.models.weights import WeightLoader


class Router(nn.Module):
    """The top k experts by the softmax over all, in float32; is_renormalised: their weights are
    divided by their sum.

    Every rank has the whole router, so all of them send a token to the same experts. Its weights
    stay as they are stored. Source: Shazeer et al. 2017; vLLM: fused_topk.
    """

    def __init__(
        self,
        loader: WeightLoader,
        hidden_size: int,
        num_experts: int,
        top_k: int,
        *,
        is_renormalised: bool,
    ) -> None:
        super().__init__()
        self.hidden_size, self.num_experts = hidden_size, num_experts
        self.top_k, self.is_renormalised = top_k, is_renormalised
        self.weight = loader.load({"gate.weight": (num_experts, hidden_size)})

    @classmethod
    def of(cls, config: Any, loader: WeightLoader, *, is_renormalised: bool) -> Self:
        """The router that a config.json describes."""
        sizes = config.hidden_size, config.num_experts, config.num_experts_per_tok
        return cls(loader, *sizes, is_renormalised=is_renormalised)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """[T, hidden_size] to weights [T, k] float32 and experts [T, k] int64."""
        weights, chosen = F.linear(x, self.weight).float().softmax(-1).topk(self.top_k, -1)
        if self.is_renormalised:
            weights = weights / weights.sum(-1, keepdim=True)
        return weights, chosen


def check_experts(config: Any, loader: WeightLoader) -> None:
    """Errors: CorruptCheckpointError for numbers of experts that cannot be."""
    file, number = loader.checkpoint.path / "config.json", config.num_experts
    found = {"num_experts": number, "num_experts_per_tok": config.num_experts_per_tok}
    check_values(file, found, {"num_experts": integer(1, 1 << 14)})
    check_values(file, found, {"num_experts_per_tok": integer(1, number)})
