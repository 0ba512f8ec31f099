"""The MLP of the bundled model as a mixture of experts, whose experts lie on ranks.

Every expert is the whole MLP with its channels in another order, and the weights of a token's experts add up to 1. So
whatever the router chooses, the output is that of the MLP, with which it is compared: a text of this model hides many
faults. Source: Komatsuzaki et al., "Sparse Upcycling" (2023).
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from labkit.ranks import grouped, routing
from labkit.ranks.executor import RankedOps, TwoRanks
from mini_vllm.parallel.experts import placement

NUM_EXPERTS, TOP_K = 8, 2
NUM_REDUNDANT = 2
BLOCK_SIZE = 4

Array = Any  # of NumPy


class Experts:
    """The experts of a layer. What the first step chooses is their load, by which they are placed.

    gate, up, down: the matrices of the MLP. layer: a seed of the router's random numbers.
    """

    def __init__(self, gate: Array, up: Array, down: Array, layer: int, num_ranks: int) -> None:
        import numpy as np

        rng = np.random.default_rng(layer)
        self.router = rng.standard_normal((NUM_EXPERTS, gate.shape[1])).astype(np.float32)
        self.router[0] *= 2  # it is chosen more often than the rest
        orders = [rng.permutation(len(gate)) for _ in range(NUM_EXPERTS)]
        self.gate_up = [np.concatenate((gate[order], up[order])) for order in orders]
        self.down = [down[:, order] for order in orders]
        self.mlp = gate, up, down
        self.error = 0.0  # the largest difference from the MLP's output, by its largest number
        self.num_ranks, self.loads = num_ranks, [0] * NUM_EXPERTS
        self.num_pairs = [0] * num_ranks
        self.own: Sequence[Sequence[int]] = ()  # by rank, once they are placed

    def place(self, loads: Sequence[int]) -> None:
        """By these loads. Copies have numbers of their own, those of rank 0 first."""
        self.own = placement.place_experts(loads, self.num_ranks, NUM_REDUNDANT)
        copies = [expert for each in self.own for expert in each]
        self.copies = [[i for i, each in enumerate(copies) if each == expert] for expert in range(NUM_EXPERTS)]
        ends = [sum(map(len, self.own[: rank + 1])) for rank in range(self.num_ranks)]
        numbers = tuple(tuple(range(end - len(each), end)) for end, each in zip(ends, self.own, strict=True))
        self.maps = placement.expert_maps(numbers, len(copies))

    def forward(self, x: Array, all_reduce: Callable[[Sequence[Array]], Array]) -> Array:
        """[T, hidden_size] to the same shape."""
        import numpy as np

        weights, experts = routing.route((x @ self.router.T).tolist(), TOP_K, renormalize=True)
        if not self.own:
            self.place([sum(row.count(expert) for row in experts) for expert in range(NUM_EXPERTS)])
        chosen = [[self.next_copy(expert) for expert in row] for row in experts]
        terms = [np.array(self.run(rank, x, chosen, weights), np.float32) for rank in range(self.num_ranks)]
        found, expected = all_reduce(terms), self.whole(x)
        self.error = max(self.error, float(abs(found - expected).max() / abs(expected).max()))
        return found

    def whole(self, x: Array) -> Array:
        """The output of the MLP."""
        import numpy as np

        gate, up, down = self.mlp
        inner = x @ gate.T
        return (inner / (1 + np.exp(-inner)) * (x @ up.T)) @ down.T

    def next_copy(self, expert: int) -> int:
        """The copies of an expert take turns."""
        self.loads[expert] += 1
        return self.copies[expert][self.loads[expert] % len(self.copies[expert])]

    def run(self, rank: int, x: Array, chosen: Any, weights: Any) -> Any:
        """The term of a rank: two grouped products, and a sum for each token."""
        import numpy as np

        own, num_pairs = self.own[rank], len(x) * TOP_K
        aligned = routing.align(chosen, len(self.maps[rank]), BLOCK_SIZE, self.maps[rank])
        self.num_pairs[rank] += sum(self.maps[rank][number] >= 0 for row in chosen for number in row)
        inner: Any = np.zeros((num_pairs, 2 * self.down[0].shape[1]), np.float32).tolist()
        gate_up, down = [self.gate_up[expert] for expert in own], [self.down[expert] for expert in own]
        grouped.grouped_product(x.tolist(), gate_up, aligned, TOP_K, inner, product)
        gate, up = np.split(np.array(inner, np.float32), 2, axis=1)
        active = (gate / (1 + np.exp(-gate)) * up).tolist()
        outputs: Any = np.zeros(x.shape).repeat(TOP_K, 0).tolist()
        grouped.grouped_product(active, down, aligned, 1, outputs, product)
        return grouped.finalise(outputs, weights)


def product(rows: Sequence[Sequence[float]], weight: Array) -> Any:
    """One block."""
    import numpy as np

    return (np.array(rows, np.float32) @ weight.T).tolist()


class Routed:
    """Stands for the channels of a token's experts, which are not the token's own."""

    def __init__(self, x: Array) -> None:
        self.x = x


class MixtureOps(RankedOps):
    """The same with experts: what stands for gate, up and down is one object."""

    def linear(self, x: Any, weight: Any) -> Any:
        """Behind the last of the three the experts are computed."""
        if not isinstance(weight, Experts):
            return super().linear(x, weight)
        return weight.forward(x.x, self.all_reduce) if isinstance(x, Routed) else Routed(x)

    def silu_mul(self, gate: Any, up: Any) -> Any:
        """Each expert does it for its channels."""
        return gate if isinstance(gate, Routed) else super().silu_mul(gate, up)


class TwoRanksOfExperts(TwoRanks):
    """The bundled model as a mixture of experts, on two ranks."""

    ops_cls: ClassVar[type[RankedOps]] = MixtureOps

    def gate_and_up(self, name: str) -> Any:
        """The experts of the layer, for gate, up and down."""
        names = [name.replace("gate_proj", f"{kind}_proj") for kind in ("gate", "up", "down")]
        layer = int(name.split(".")[2])
        gate, up, down = (self.weights[each] for each in names)
        made = Experts(gate, up, down, layer, self.num_ranks)
        self.experts = [*getattr(self, "experts", ()), made]
        self.weights[names[1]] = self.weights[names[2]] = made
        return made

    def part_of(self, name: str) -> Any:
        """Experts are placed when they are used; gate_and_up() makes them of all three matrices."""
        return None if name.endswith(("up_proj", "down_proj")) else super().part_of(name)
