"""The experts of this rank, of a layer whose experts are spread over the ranks.

Every rank routes all tokens, since attention has given it the whole of them. It computes the pairs
of its own experts, and the ranks add up what they have.
"""

import torch
from torch import Tensor, nn

from mini_vllm.models.moe.align import count
from mini_vllm.parallel.experts.placement import expert_maps
from mini_vllm.parallel.experts.shard import ExpertShard


class ExpertParallel(nn.Module):
    """own: the experts of this rank; the other ones' weights are elsewhere.

    Tensors, by expert: expert_map, its place in `own`, -1 is elsewhere; copies, on how many ranks
    it is, and turn, the number of this rank among them; loads, the pairs that chose it so far.
    """

    def __init__(
        self, shard: ExpertShard, layer: int, num_experts: int, device: torch.device
    ) -> None:
        super().__init__()
        self.shard, self.layer = shard, layer
        placement = shard.placement(layer, num_experts)
        self.own = placement[shard.rank]
        maps = torch.tensor(expert_maps(placement, num_experts))
        is_here = maps >= 0
        self.expert_map = maps[shard.rank].to(device)
        self.copies = is_here.sum(0).to(device)
        self.turn = is_here[: shard.rank].sum(0).to(device)
        self.loads = torch.zeros(num_experts, dtype=torch.int64, device=device)

    def localise(self, chosen: Tensor) -> Tensor:
        """The experts [T, k] that tokens have chosen, as places in `own`, or -1. Token t goes to
        copy t % copies of its expert.
        """
        self.loads += count(chosen.flatten(), len(self.loads))
        tokens = torch.arange(len(chosen), device=chosen.device)[:, None]
        is_own = tokens % self.copies[chosen] == self.turn[chosen]
        return self.expert_map[chosen].where(is_own, -1)

    def combine(self, x: Tensor) -> Tensor:
        """The sum over the ranks of what their experts put out, x [T, H]."""
        return self.shard.combine(x)
