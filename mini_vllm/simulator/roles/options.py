"""How many engines of each role there are, and what is between them."""

from dataclasses import dataclass

from mini_vllm.errors import Params, is_int, is_number


@dataclass(frozen=True, slots=True)
class Roles(Params):
    """Engines by role, and the link of each. Raises InvalidParameterError for a value out of its
    range.
    """

    num_prefill: int
    num_decode: int
    bytes_per_token: int = 128 * 1024
    """K and V of one token, in all layers."""
    link_bandwidth: float = 50e9
    """Bytes a second, of each engine; 50e9 is a NIC of 400 Gbit/s."""
    link_latency: float = 1e-3
    """Seconds that each transfer takes beside that."""

    def __post_init__(self) -> None:
        self.normalise()
        for name in ("num_prefill", "num_decode", "bytes_per_token"):
            self.require(name, is_int(getattr(self, name), 1), "an integer from 1 on")
        for name in ("link_bandwidth", "link_latency"):
            self.require(name, is_number(getattr(self, name), 0, 1e15), "a number in [0, 1e15]")
        self.require("link_bandwidth", self.link_bandwidth > 0, "above 0")

    def seconds(self, num_tokens: int) -> float:
        """To send the K and V of so many tokens, if nothing else is sent."""
        return self.link_latency + num_tokens * self.bytes_per_token / self.link_bandwidth
