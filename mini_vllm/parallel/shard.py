"""Tensor parallelism: which part of every layer a process holds.

    q, k, v; gate, up       cut by rows of the weight, that is by heads and by channels
                            ColumnParallelLinear
    o; down                 cut by columns, to take what these put out
                            RowParallelLinear
    embedding, head         cut by tokens of the vocabulary
                            VocabShard
    norms                   whole in every process

So a process computes some heads and some channels from end to end, and the outputs of o and down
are terms of a sum over all ranks: two sums a layer, and one for the embedding. Where there are
fewer KV heads than ranks, several ranks hold the same one. Source: Shoeybi et al. 2019
(Megatron-LM); vLLM: QKVParallelLinear, VocabParallelEmbedding.
"""

from dataclasses import dataclass
from math import lcm

import torch
import torch.nn.functional as F
from torch import Tensor

from mini_vllm.errors import InvalidParameterError

VOCAB_PADDING = 64  # a vocabulary is padded to a multiple; vLLM: DEFAULT_VOCAB_PADDING_SIZE


class Communicator:
    """What the processes of one model tell each other. This one is alone: its term is the sum."""

    def all_reduce(self, x: Tensor) -> Tensor:
        """The sum of x over all ranks; every rank calls it in the same order, and may get x itself
        back.
        """
        return x

    def all_gather(self, x: Tensor) -> Tensor:
        """What every rank has brought, in the order of the ranks: x [...] to [size, ...]."""
        return x[None]

    def all_to_all(self, x: Tensor) -> Tensor:
        """x [size, ...], of which each rank gets its part, to what every rank had for this one, in
        the order of the ranks: [size, ...].
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

    def ranges(self, shape: tuple[int, ...], cut: int | None, name: str) -> tuple[range, ...]:
        """What is this shard's of a tensor that is cut in that dimension, or whole with None."""
        return tuple(
            self.part(length, f"dimension {cut} of {name}") if dim == cut else range(length)
            for dim, length in enumerate(shape)
        )

    def of_attention(self, num_kv_heads: int) -> "QKVShard":
        """The shard of q, k and v."""
        return QKVShard(self.rank, self.size, self.communicator, num_kv_heads)

    def of_vocabulary(self, vocab_size: int) -> "VocabShard":
        """The shard of the embedding and the head."""
        return VocabShard(self.rank, self.size, self.communicator, vocab_size)


@dataclass(frozen=True, slots=True)
class QKVShard(Shard):
    """A part of the query heads, and of the KV heads: with fewer of these than shards, several
    ranks hold the same one.

    Errors: InvalidParameterError for KV heads of which not every one has as many ranks.
    """

    num_kv_heads: int = 1

    @property
    def kv(self) -> Shard:
        """The shard of keys and values."""
        if self.size <= self.num_kv_heads:
            return Shard(self.rank, self.size)
        if self.size % self.num_kv_heads:
            raise InvalidParameterError(
                f"num_key_value_heads is {self.num_kv_heads}, and the {self.size} shards are no "
                "multiple of it"
            )
        return Shard(self.rank * self.num_kv_heads // self.size, self.num_kv_heads)

    def ranges(self, shape: tuple[int, ...], cut: int | None, name: str) -> tuple[range, ...]:
        """By the last part of the name that names a projection."""
        is_kv = any(f"{each}_proj." in name for each in "kv")
        return Shard.ranges(self.kv if is_kv else self, shape, cut, name)


@dataclass(frozen=True, slots=True)
class VocabShard(Shard):
    """A part of the vocabulary. All parts have the same length, so the last ones may have token ids
    from vocab_size on: their rows of weights are 0, and no logits of theirs are seen.
    """

    vocab_size: int = 1

    def part(self, length: int, name: str) -> range:
        """Token ids."""
        multiple = lcm(VOCAB_PADDING, self.size) if self.size > 1 else 1
        share = -(-length // multiple) * multiple // self.size
        return range(self.rank * share, (self.rank + 1) * share)

    @property
    def own(self) -> slice:
        """The token ids of the vocabulary that are this shard's."""
        part = self.part(self.vocab_size, "vocab_size")
        return slice(*(min(end, self.vocab_size) for end in (part.start, part.stop)))

    def embed(self, token_ids: Tensor, table: Tensor) -> Tensor:
        """Rows of the whole table for token ids [T], where this shard has `table`: [T, H].

        A rank has 0 for the tokens of the other ranks (vLLM: get_masked_input_and_mask).
        """
        if self.size == 1:
            return F.embedding(token_ids, table)
        own = token_ids - self.rank * len(table)
        is_own = (own >= 0) & (own < len(table))
        rows = F.embedding(own.where(is_own, 0), table) * is_own[:, None]
        return self.communicator.all_reduce(rows)

    def gather(self, logits: Tensor) -> Tensor:
        """Logits [S, vocab_size] of all shards from those of each, [S, share]."""
        if self.size == 1:
            return logits
        return torch.cat([*self.communicator.all_gather(logits)], -1)[:, : self.vocab_size]

    def argmax(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """The largest logit of each row and its token id, [S] each, float64, from logits [S, share]
        of this shard.

        Each rank tells a pair instead of all its logits. Among equals the lowest token id wins, and
        NaN is larger than any number, as in torch.max.
        """
        own = self.own
        logits = logits[:, : own.stop - own.start]
        if not logits.shape[1]:  # padding alone
            logits = logits.new_full((len(logits), 1), -torch.inf)
        values, places = logits.max(-1)
        pairs = torch.stack((values.double(), (places + own.start).double()))
        values, token_ids = self.communicator.all_gather(pairs).unbind(1)
        best, ranks = values.max(0)
        return best, token_ids.gather(0, ranks[None])[0]


WHOLE = Shard()
