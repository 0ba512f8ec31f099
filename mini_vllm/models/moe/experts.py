"""The experts of a layer, and the sum of what they put out.

    prepare     the pairs of a token and an expert, sorted by expert
    experts     the MLP of each expert, for its pairs
    finalise    the weighted sum of each token's pairs, in the order of its choices

They are apart, so that tokens can travel between prepare and finalise. The experts have rungs:
"loop" takes one expert after the other, with weights of any form; "grouped_mm" is one call of torch
for all; "triton" is one kernel. vLLM: FusedMoEKernelModularImpl (prepare, experts, finalize).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mini_vllm.errors import UnsupportedModelError
from mini_vllm.models.layers.fused import silu_mul
from mini_vllm.models.layers.linear import linear, load_weight
from mini_vllm.models.layers.quantization import Int8Weight
from mini_vllm.models.moe.align import align, count
from mini_vllm.models.moe.expert_parallel import ExpertParallel
from mini_vllm.models.moe.router import Router
from mini_vllm.models.moe.rungs import Experts
from mini_vllm.models.weights import WeightLoader
from mini_vllm.parallel.experts.shard import ExpertShard

QWEN = ("gate_proj", "up_proj", "down_proj")


class Pairs(NamedTuple):
    """order [T * k] int64: numbers of pairs, t * k + j for choice j of token t, sorted by expert;
    those whose expert is elsewhere come last. counts [num_experts] int64: of each expert's. top_k:
    choices of a token.
    """

    order: Tensor
    counts: Tensor
    top_k: int


def prepare(chosen: Tensor, num_experts: int) -> Pairs:
    """From the experts [T, k] that each token has chosen; -1 is elsewhere. Nothing waits for the
    device.
    """
    flat = chosen.flatten()
    flat = flat.where(flat >= 0, num_experts)
    counts = count(flat, num_experts + 1)[:num_experts]
    return Pairs(flat.argsort(stable=True), counts, chosen.shape[1])


def restore(outputs: Tensor, pairs: Pairs) -> Tensor:
    """Outputs [P, H] of the first P pairs, in the order of the tokens; 0 for the other ones: [T *
    k, H].
    """
    if num_others := len(pairs.order) - len(outputs):
        outputs = torch.cat((outputs, outputs.new_zeros(num_others, outputs.shape[1])))
    return outputs.index_select(0, pairs.order.argsort())


def finalise(outputs: Tensor, weights: Tensor) -> Tensor:
    """Outputs of pairs [T * k, H] and weights [T, k] to [T, H] (vLLM: TopKWeightAndReduce)."""
    pairs = outputs.view(*weights.shape, -1)
    return (pairs * weights[..., None].to(outputs.dtype)).sum(1)


class FusedMoE(Experts):
    """The sum of the outputs of each token's experts, weighted by the router.

    names: of an expert's gate, up and down matrices in the checkpoint. A shard has its part of the
    channels of every expert, or all of some experts. The ranks add up once, behind the sum. Errors:
    UnsupportedModelError for weights that are stored quantised.
    """

    def __init__(
        self,
        loader: WeightLoader,
        router: Router,
        intermediate_size: int,
        names: tuple[str, str, str] = QWEN,
    ) -> None:
        super().__init__()
        if loader.stored:
            raise UnsupportedModelError(f"experts that are stored as {loader.stored}, only plainly")
        self.router, self.communicator = router, loader.shard.communicator
        gate, up, down = names
        shape = intermediate_size, router.hidden_size
        cuts: tuple[int | None, int | None] = (0, 1)
        self.spread: ExpertParallel | None = None
        own: Sequence[int] = range(router.num_experts)
        if isinstance(loader.shard, ExpertShard):
            layer = int(loader.prefix.partition("layers.")[2].partition(".")[0])
            device = router.weight.device
            self.spread = ExpertParallel(loader.shard, layer, router.num_experts, device)
            own, cuts = self.spread.own, (None, None)
            for number in {*range(router.num_experts)} - {*own}:
                leave(loader, f"experts.{number}", names, shape)
        experts = [f"experts.{number}" for number in own]
        inputs = {f"{each}.{name}.weight": shape for each in experts for name in (gate, up)}
        outputs = {f"{each}.{down}.weight": shape[::-1] for each in experts}
        self.gate_up = stack(loader, inputs, cuts[0], len(own))  # [E, 2 I, H]
        self.down = stack(loader, outputs, cuts[1], len(own))  # [E, H, I]

    def forward(self, x: Tensor) -> Tensor:
        """[T, hidden_size] to the same shape."""
        weights, chosen = self.router(x)
        run, spread = RUNGS[self.pick_rung(x)], self.spread
        if spread is None:
            outputs = run(x, chosen, self.gate_up, self.down)
            return self.communicator.all_reduce(finalise(outputs, weights))
        outputs = run(x, spread.localise(chosen), self.gate_up, self.down)
        return spread.combine(finalise(outputs, weights))


def leave(
    loader: WeightLoader, expert: str, names: tuple[str, str, str], shape: tuple[int, int]
) -> None:
    """An expert is another rank's: its tensors are in the checkpoint, and not a row is read."""
    for name, each in zip(names, (shape, shape, shape[::-1]), strict=True):
        loader.checkpoint.take(f"{loader.prefix}{expert}.{name}.weight", each, (slice(0),))


def stack(
    loader: WeightLoader, parts: Mapping[str, tuple[int, ...]], cut: int | None, num_experts: int
) -> nn.Parameter | nn.ModuleList:
    """The weights [num_experts, N, K] of all experts, or in eight bits a list of them."""
    if loader.quantization is None:
        weight = loader.load(parts, cut)
        stacked = weight.view(num_experts, -1, weight.shape[1])
        return nn.Parameter(stacked, requires_grad=False)
    whole = load_weight(loader, parts, cut)
    assert isinstance(whole, Int8Weight), "the only kind of quantization"
    pairs = zip(*(each.chunk(num_experts) for each in (whole.values, whole.scale)), strict=True)
    return nn.ModuleList(Int8Weight(values, scale) for values, scale in pairs)


# --- the rungs: x [T, H], chosen [T, k], gate_up [E, 2 I, H], down [E, H, I] to [T * k, H], with 0
#     for pairs whose expert is -1, elsewhere ------------------------------------------------------


def run_loop(x: Tensor, chosen: Tensor, gate_up: Any, down: Any) -> Tensor:
    """One expert after the other. The host waits for the counts."""
    pairs = prepare(chosen, len(gate_up))
    counts = pairs.counts.tolist()
    own = x.index_select(0, pairs.order[: sum(counts)] // pairs.top_k)
    outputs = [
        linear(silu_mul(linear(rows, gate_up[expert])), down[expert])
        for expert, rows in enumerate(torch.split(own, counts))
        if len(rows)
    ]
    return restore(torch.cat(outputs or [own]), pairs)


def run_grouped_mm(x: Tensor, chosen: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """Two products of groups of rows, by torch."""
    pairs = prepare(chosen, len(gate_up))
    ends = pairs.counts.cumsum(0).int()
    own = x.index_select(0, pairs.order[: int(ends[-1])] // pairs.top_k)
    inner = silu_mul(F.grouped_mm(own, gate_up.mT, offs=ends))
    return restore(F.grouped_mm(inner, down.mT, offs=ends), pairs)


def run_triton(x: Tensor, chosen: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """Two launches of a kernel that reads its rows where they are."""
    from mini_vllm.models.moe.grouped_triton import BLOCK_SIZE, grouped_product

    aligned = align(chosen, len(gate_up), BLOCK_SIZE)
    num_pairs, top_k = chosen.numel(), chosen.shape[1]
    inner = silu_mul(grouped_product(x, gate_up, aligned, num_pairs, top_k))
    return grouped_product(inner, down, aligned, num_pairs, 1)


RUNGS = {"loop": run_loop, "grouped_mm": run_grouped_mm, "triton": run_triton}
