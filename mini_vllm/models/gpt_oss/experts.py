"""The experts of gpt-oss: both products have biases, and what is between them is clamped.

The rungs are those of models/moe/experts.py, one product at a time, since a bias lies between them.
A product takes and gives the pairs of a token and an expert in the order of the tokens.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mini_vllm.errors import InvalidParameterError
from mini_vllm.models.gpt_oss.mxfp4 import BLOCK, dequantise
from mini_vllm.models.layers.linear import linear
from mini_vllm.models.layers.quantization import Int8Weight
from mini_vllm.models.moe.align import align
from mini_vllm.models.moe.experts import finalise, prepare
from mini_vllm.models.moe.rungs import Experts
from mini_vllm.models.weights import WeightLoader


class OssRouter(nn.Module):
    """The top k experts by logits with a bias; their weights are the softmax over these k.

    Every rank has the whole router. vLLM: fused_topk with renormalize, which is the same.
    """

    def __init__(
        self, loader: WeightLoader, hidden_size: int, num_experts: int, top_k: int
    ) -> None:
        super().__init__()
        self.hidden_size, self.num_experts, self.top_k = hidden_size, num_experts, top_k
        self.weight = loader.load({"weight": (num_experts, hidden_size)})
        self.bias = loader.load({"bias": (num_experts,)})

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """[T, hidden_size] to weights [T, k] float32 and experts [T, k] int64."""
        logits, chosen = F.linear(x, self.weight, self.bias).topk(self.top_k, -1)
        return logits.float().softmax(-1), chosen


class OssExperts(Experts):
    """down(clamped(gate_up(x))) of each token's experts, weighted by the router.

    Rows of gate_up alternate: gate 0, up 0, gate 1, up 1. A shard has its part of the channels of
    every expert, and the bias of down on rank 0 alone, since the ranks add up.
    """

    def __init__(
        self,
        loader: WeightLoader,
        router: OssRouter,
        intermediate_size: int,
        alpha: float,
        limit: float,
    ) -> None:
        super().__init__()
        self.router, self.alpha, self.limit = router, alpha, limit
        self.communicator = loader.shard.communicator
        number, inner, hidden = router.num_experts, 2 * intermediate_size, router.hidden_size
        self.gate_up = load_experts(loader, "gate_up_proj", (number, inner, hidden), 1)
        self.down = load_experts(loader, "down_proj", (number, hidden, intermediate_size), 2)
        self.gate_up_bias = loader.load({"gate_up_proj_bias": (number, inner)}, 1)
        self.down_bias = loader.load({"down_proj_bias": (number, hidden)})
        if loader.shard.rank and not self.down_bias.is_meta:
            self.down_bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        """[T, hidden_size] to the same shape."""
        weights, chosen = self.router(x)
        product = RUNGS[self.pick_rung(x)](chosen, self.router.num_experts)
        of_pairs = chosen.flatten()
        inner = product(x, self.gate_up, self.router.top_k) + self.gate_up_bias[of_pairs]
        inner = clamped_swiglu(inner, self.alpha, self.limit)
        outputs = product(inner, self.down, 1) + self.down_bias[of_pairs]
        return self.communicator.all_reduce(finalise(outputs, weights))


def clamped_swiglu(gate_up: Tensor, alpha: float, limit: float) -> Tensor:
    """gate * sigmoid(alpha * gate) * (up + 1) for gate_up [P, 2 * I], in turn gate and up: [P, I].

    gate is at most limit, and up within [-limit, limit]. vLLM: MoEActivation.SWIGLUOAI.
    """
    gate, up = gate_up[..., ::2].clamp(max=limit), gate_up[..., 1::2].clamp(-limit, limit)
    return (gate * alpha).sigmoid_().mul_(gate).mul_(up + 1)


def load_experts(
    loader: WeightLoader, name: str, shape: tuple[int, int, int], cut: int
) -> nn.Parameter | nn.ModuleList:
    """The matrices [E, N, K] of all experts, or in eight bits a list of them; of dimension cut this
    shard's part. One expert at a time is in float32.

    Stored as MXFP4, or plainly as [E, K, N]. Errors: InvalidParameterError for a quantization of
    what is stored in four bits.
    """
    (num_experts, size_out, size_in), checkpoint = shape, loader.checkpoint
    prefix, device = f"{loader.prefix}{name}", loader.device
    own = [slice(each.start, each.stop) for each in loader.shard.ranges(shape, cut, prefix)][1:]
    if f"{prefix}_blocks" in checkpoint:
        if loader.quantization:
            raise InvalidParameterError(
                f"quantization {loader.quantization!r}: {checkpoint.path} stores its experts as "
                "mxfp4 already"
            )
        packed = num_experts, size_out, -(-size_in // BLOCK)
        blocks = checkpoint.take(f"{prefix}_blocks", (*packed, BLOCK // 2), dtypes=["U8"])
        scales = checkpoint.take(f"{prefix}_scales", packed, dtypes=["U8"])
        matrices = (dequantise(*each) for each in zip(blocks, scales, strict=True))
    else:
        stored = checkpoint.take(prefix, (num_experts, size_in, size_out))
        matrices = (each.T for each in stored)
    if checkpoint.headers_only:
        matrices = (torch.empty(shape[1:], device=device) for _ in range(num_experts))
    if loader.quantization:  # a row has one scale in all shards
        whole = (Int8Weight.quantize(each.to(device, loader.dtype)) for each in matrices)
        scale_of = own[0]
        return nn.ModuleList(
            Int8Weight(each.values[*own].contiguous(), each.scale[scale_of]) for each in whole
        )
    sizes = [each.stop - each.start for each in own]
    weights = torch.empty(num_experts, *sizes, dtype=loader.dtype, device=device)
    for target, matrix in zip(weights, matrices, strict=True):
        target.copy_(matrix[:, :size_in][*own])
    return nn.Parameter(weights, requires_grad=False)


# --- the rungs: from the experts [T, k] that tokens have chosen to a product of pairs -------------
# A product: x [T * k / n, K], weight [E, N, K] and n, the pairs of a row of x, to [T * k, N]

Product = Callable[[Tensor, Any, int], Tensor]


def loop(chosen: Tensor, num_experts: int) -> Product:
    """One expert after the other. The host waits for the counts."""
    pairs = prepare(chosen, num_experts)
    by_expert = torch.split(pairs.order, pairs.counts.tolist())

    def product(x: Tensor, weight: Any, pairs_of_row: int) -> Tensor:
        parts = [
            linear(x[own // pairs_of_row], matrix)
            for own, matrix in zip(by_expert, weight, strict=True)
        ]
        return torch.cat(parts)[pairs.order.argsort()]

    return product


def grouped_mm(chosen: Tensor, num_experts: int) -> Product:
    """A product of groups of rows, by torch."""
    pairs = prepare(chosen, num_experts)
    ends, back = pairs.counts.cumsum(0).int(), pairs.order.argsort()

    def product(x: Tensor, weight: Tensor, pairs_of_row: int) -> Tensor:
        rows = x[pairs.order // pairs_of_row]
        output: Tensor = F.grouped_mm(rows, weight.mT, offs=ends)[back]
        return output

    return product


def triton(chosen: Tensor, num_experts: int) -> Product:
    """A kernel that reads its rows where they are."""
    from mini_vllm.models.moe.grouped_triton import BLOCK_SIZE, grouped_product

    aligned = align(chosen, num_experts, BLOCK_SIZE)

    def product(x: Tensor, weight: Tensor, pairs_of_row: int) -> Tensor:
        return grouped_product(x, weight, aligned, chosen.numel(), pairs_of_row)

    return product


RUNGS = {"loop": loop, "grouped_mm": grouped_mm, "triton": triton}
