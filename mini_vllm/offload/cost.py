"""PreemptionCost: which is cheaper for a victim, to copy its K and V away and back, or to compute
them again.
"""

import math
from dataclasses import dataclass

from mini_vllm.errors import Params, is_number


@dataclass(frozen=True, slots=True)
class PreemptionCost(Params):
    """What one preemption costs, in seconds, for a context of n tokens whose K and V are in the
    cache.

        recompute(n) = n * seconds_per_token + n^2 / 2 * seconds_per_pair
        swap(n) = 2 * (seconds_per_copy + n * bytes_per_token / bandwidth)

    The two terms of recompute are the linear layers and causal attention; swap goes out and back.

    The default is Llama-3.1-8B in bfloat16 on an H100 SXM. To compute, at half of the 989 TFLOP/s
    of its data sheet: 2 FLOP for each of the 7.5e9 weights of the layers, 15 GFLOP, are 30 us a
    token; 4 FLOP x 32 layers x 32 heads x 128, 0.5 MFLOP, are 1.1 ns a pair. To swap: 2 x 32 layers
    x 8 heads x 128 x 2 bytes are 128 KiB a token, PCIe 5.0 x16 moves 64 GB/s each way, and a copy
    is about 200 kernel launches (CacheEngine), 5 us each assumed. So 1,000 tokens take 31 ms to
    compute and 6 ms to swap, and swapping wins from 77 tokens on. One transfer for each block,
    layer and half, as in V0, turns it round if it takes 4 us: 8 a token, out and back, are the 30
    us that computing takes. What the model leaves out speaks for computing: the hit that a
    re-admission may find, and steps of few tokens, in which a GPU idles anyway.

    Measured on two cores of a Xeon, where both pools are main memory (benchmarks/results/swap.md):
    the bundled model takes 120 ms to compute 1,024 tokens and 3 ms to swap them, and the two meet
    below 8 tokens.

    Raises InvalidParameterError for a figure that is negative or above 1e100, or a bandwidth of 0.
    Source: nvidia.com/en-us/data-center/h100 (989 TFLOP/s dense bfloat16, PCIe Gen5 128 GB/s both
    ways together).
    """

    seconds_per_token: float = 30e-6
    seconds_per_pair: float = 1.1e-9
    """One query and one key it sees, in all layers and heads."""
    bytes_per_token: float = 128 * 1024
    bandwidth: float = 64e9
    """Bytes per second, one way."""
    seconds_per_copy: float = 1e-3
    """Fixed, one way, however many blocks."""

    def __post_init__(self) -> None:
        self.normalise()
        for name in self.__slots__:
            self.require(
                name, is_number(getattr(self, name), 0, 1e100), "a finite number in [0, 1e100]"
            )
        self.require("bandwidth", self.bandwidth > 0, "above 0")

    def recompute(self, num_tokens: int) -> float:
        return num_tokens * self.seconds_per_token + num_tokens**2 / 2 * self.seconds_per_pair

    def swap(self, num_tokens: int) -> float:
        return 2 * (self.seconds_per_copy + num_tokens * self.bytes_per_token / self.bandwidth)

    def swap_is_cheaper(self, num_tokens: int) -> bool:
        return self.swap(num_tokens) < self.recompute(num_tokens)

    @property
    def crossover(self) -> float:
        """From how many tokens on swapping is cheaper; infinite if it never is."""
        a = self.seconds_per_pair / 2
        b = self.seconds_per_token - 2 * self.bytes_per_token / self.bandwidth
        c = 2 * self.seconds_per_copy
        if a == 0:
            return c / b if b > 0 else math.inf
        return (math.sqrt(b * b + 4 * a * c) - b) / (2 * a)
