"""The experts of Llama 4: one that every token has, and those that it is routed to.

A token is scaled by its weight on the way into an expert, and not on the way out. The experts of a
layer are stored in two tensors, [E, K, N]. The rungs are those of models/moe/experts.py.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mini_vllm.errors import UnsupportedModelError
from mini_vllm.models.layers.mlp import GatedMLP
from mini_vllm.models.layers.quantization import Int8Weight
from mini_vllm.models.moe.experts import RUNGS
from mini_vllm.models.moe.rungs import Experts
from mini_vllm.models.weights import WeightLoader


class SigmoidRouter(nn.Module):
    """The top k experts by logits; the weight of each is the sigmoid of its own.

    Every rank has the whole router. vLLM: Llama4MoE.custom_routing_function.
    """

    def __init__(
        self, loader: WeightLoader, hidden_size: int, num_experts: int, top_k: int
    ) -> None:
        super().__init__()
        self.top_k = top_k
        self.weight = loader.load({"weight": (num_experts, hidden_size)})

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """[T, hidden_size] to weights [T, k] in the dtype of x and experts [T, k] int64."""
        logits, chosen = F.linear(x, self.weight).topk(self.top_k, -1)
        return logits.float().sigmoid().to(x.dtype), chosen


class Llama4MoE(Experts):
    """shared(x), and for each of a token's experts expert(weight * x).

    A shard has its part of the channels of every expert. The ranks add up once, behind the sum.
    Errors: UnsupportedModelError for weights that are stored quantised.
    """

    def __init__(
        self,
        loader: WeightLoader,
        hidden_size: int,
        intermediate_size: int,
        num_experts: int,
        top_k: int,
    ) -> None:
        super().__init__()
        if loader.stored:
            raise UnsupportedModelError(f"experts that are stored as {loader.stored}, only plainly")
        self.communicator = loader.shard.communicator
        self.router = SigmoidRouter(loader.at("router"), hidden_size, num_experts, top_k)
        shared = loader.at("shared_expert")
        self.shared_expert = GatedMLP(shared, hidden_size, intermediate_size, reduce=False)
        own = torch.tensor(loader.shard.part(intermediate_size, "intermediate_size"))
        every = torch.arange(hidden_size)
        both = torch.cat((own, intermediate_size + own))  # rows of gate, then of up
        shape, experts = (num_experts, 2 * intermediate_size, hidden_size), loader.at("experts")
        self.gate_up = load_experts(experts, "gate_up_proj", shape, both, every)
        shape = num_experts, hidden_size, intermediate_size
        self.down = load_experts(experts, "down_proj", shape, every, own)

    def forward(self, x: Tensor) -> Tensor:
        """[T, hidden_size] to the same shape."""
        weights, chosen = self.router(x)
        pairs = (x[:, None] * weights[..., None]).flatten(0, 1)
        run = RUNGS[self.pick_rung(x)]
        outputs = run(pairs, chosen.view(-1, 1), self.gate_up, self.down)
        routed = outputs.view(*weights.shape, -1).sum(1)
        return self.communicator.all_reduce(self.shared_expert(x) + routed)


def load_experts(
    loader: WeightLoader, name: str, shape: tuple[int, int, int], rows: Tensor, columns: Tensor
) -> nn.Parameter | nn.ModuleList:
    """Of the matrices [E, N, K] of all experts these rows and columns, or in eight bits a list of
    them. They are stored as [E, K, N]; one expert at a time is turned.
    """
    num_experts, size_out, size_in = shape
    stored = loader.checkpoint.take(f"{loader.prefix}{name}", (num_experts, size_in, size_out))
    if loader.quantization:  # a row has one scale in all shards
        whole = (Int8Weight.quantize(each.T.to(loader.device, loader.dtype)) for each in stored)
        rows, columns = rows.to(loader.device), columns.to(loader.device)
        return nn.ModuleList(
            Int8Weight(each.values[rows][:, columns], each.scale[rows]) for each in whole
        )
    weights = torch.empty(
        num_experts, len(rows), len(columns), dtype=loader.dtype, device=loader.device
    )
    for target, matrix in zip(weights, stored, strict=True):
        target.copy_(matrix[columns][:, rows].T)
    return nn.Parameter(weights, requires_grad=False)
