"""Tensor parallelism: which part of every layer a process holds.

    q, k, v; gate, up       cut by rows of the weight, that is by heads and by channels
                            ColumnParallelLinear
    o; down                 cut by columns, to take what these put out
                            RowParallelLinear
    norms, embedding, head  whole in every process

So a process computes some heads and some channels from end to end, and the outputs of o and down
are terms of a sum over all ranks. RowParallelLinear adds them up through the shard's communicator.
Source: Shoeybi et al. 2019 (Megatron-LM); vLLM: get_tensor_model_parallel_rank,
ColumnParallelLinear.
"""

from dataclasses import dataclass

from torch import Tensor

from mini_vllm.errors import InvalidParameterError


class Communicator:
    """What the processes of one model tell each other. This one is alone: its term is the sum."""

    def all_reduce(self, x: Tensor) -> Tensor:
        """The sum of x over all ranks; every rank calls it in the same order, and may get x itself
        back.
        """
        return x


ALONE = Communicator()


@dataclass(frozen=True, slots=True)
class Shard:
    """Part `rank` of `size` equal ones.

    Errors: InvalidParameterError for a rank that is not in [0, size).
    """

    rank: int = 0
    size: int = 1
    communicator: Communicator = ALONE

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InvalidParameterError(
                f"the size of a shard is {self.size}, it must be at least 1"
            )
        if not 0 <= self.rank < self.size:
            raise InvalidParameterError(
                f"the rank of a shard is {self.rank}, allowed is [0, {self.size})"
            )

    def part(self, length: int, name: str) -> range:
        """Which of `length` heads or channels are this shard's; name is for the message.

        Errors: InvalidParameterError for a length that cannot be cut into equal parts.
        """
        if length % self.size:
            raise InvalidParameterError(
                f"{name} is {length}, which is no multiple of the {self.size} shards"
            )
        share = length // self.size
        return range(self.rank * share, (self.rank + 1) * share)


WHOLE = Shard()
