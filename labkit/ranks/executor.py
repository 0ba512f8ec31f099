"""The bundled model on ranks that live in one process: each has its part of every weight and of the KV cache.

What a rank has, and how the ranks add up, is asked of labkit.ranks: with a learner's parts grafted, of these.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar

from labkit.ranks import heads, linear, ring
from mini_vllm.light.numpy_executor import NumpyExecutor
from mini_vllm.step import ModelInfo

BYTES = 4  # of a float32

Array = Any  # of mini_vllm.light.numpy_ops


class PerRank(list[Array]):
    """An array of each rank: a part of a weight or of the cache, or what the rank computes."""


class Columns(PerRank):
    """Weights whose outputs are shared out."""


class Rows(PerRank):
    """Weights whose inputs are shared out: the ranks' outputs are added up."""


class Vocab(PerRank):
    """Rows of the table of the vocabulary; `lists` has the same as lists of numbers."""

    @cached_property
    def lists(self) -> list[list[list[float]]]:
        return [each.tolist() for each in self]


class Logits(PerRank):
    """Of each rank's part of the vocabulary."""


class RanksDifferError(Exception):
    """The ranks have not the same sum."""


def as_array(rows: Sequence[Sequence[float]]) -> Array:
    import numpy as np

    return np.array([list(row) for row in rows], np.float32)


def with_padding(table: Array, own: Sequence[int]) -> Array:
    """Rows of a table; zeros behind its end."""
    import numpy as np

    rows = table[own[0] : own[-1] + 1]
    return np.concatenate((rows, np.zeros((len(own) - len(rows), table.shape[1]), np.float32)))


class RankedOps:
    """The functions of mini_vllm.light.numpy_ops. What is PerRank is computed on each rank for itself."""

    config: Any  # of the model, as in config.json

    def __init__(self, num_ranks: int) -> None:
        from mini_vllm.light import numpy_ops

        self.num_ranks, self.one = num_ranks, numpy_ops
        self.num_sums = 0
        self.num_bytes = [0] * num_ranks  # that each rank has sent
        self.num_bytes_told = [0] * num_ranks  # the same by the formula
        self.load, self.rotation = numpy_ops.load, numpy_ops.rotation

    def zeros(self, num_rows: int, num_columns: int) -> PerRank:
        """Each rank's part of the KV cache."""
        kv, size = self.config.num_key_value_heads, self.num_ranks
        own = [len(heads.kv_heads(kv, rank, size)) * (num_columns // kv) for rank in range(size)]
        return PerRank(self.one.zeros(num_rows, each) for each in own)

    def take(self, x: Array, rows: list[int]) -> Array:
        """Rows; of the table of the vocabulary a term from each rank."""
        if not isinstance(x, Vocab):
            return self._each(self.one.take, x, rows)
        terms = [as_array(heads.embed(rows, table, rank)) for rank, table in enumerate(x.lists)]
        return self.all_reduce(terms)

    def write(self, x: PerRank, rows: list[int], new: PerRank) -> None:
        """Into each rank's part."""
        self._each(self.one.write, x, rows, new)

    def add(self, x: Array, y: Array) -> Array:
        """The residual sum, which every rank has."""
        return self.one.add(x, y)

    def linear(self, x: Array, weight: Any) -> Array:
        """A product on each rank. Where the inputs are shared out, the sum of them."""
        found = self._each(self.one.linear, x, weight)
        if isinstance(weight, Rows):
            return self.all_reduce(found)
        return Logits(found) if isinstance(weight, Vocab) else found

    def rms_norm(self, x: Array, weight: Array, eps: float) -> Array:
        """Every rank has the whole weight."""
        return self._each(self.one.rms_norm, x, weight, eps)

    def silu_mul(self, gate: PerRank, up: PerRank) -> Array:
        """For the channels of each rank."""
        return self._each(self.one.silu_mul, gate, up)

    def rotate(self, x: PerRank, angles: Any) -> Array:
        """For the heads of each rank."""
        return self._each(self.one.rotate, x, angles)

    def attend(self, query: PerRank, keys: PerRank, values: PerRank, *rest: Any) -> Array:
        """For the heads of each rank."""
        config = self.config
        for rank, each in enumerate(query):
            own = heads.query_heads(config.num_attention_heads, rank, self.num_ranks)
            if each.shape[1] != len(own) * config.head_dim:
                raise RanksDifferError(f"rank {rank} has {each.shape[1]} channels of queries for {len(own)} heads")
        return self._each(self.one.attend, query, keys, values, *rest)

    def tolist(self, x: Any) -> Any:
        """Rows of logits in which the greedy token has the largest. What the other ones are, no rank tells another."""
        found, vocab_size = [], self.config.vocab_size
        for row in range(len(x[0])):
            pairs = [heads.best_of(each[row].tolist(), rank, vocab_size) for rank, each in enumerate(x)]
            token_id = heads.best_of_all(pairs)
            peak = max(value for value, _ in pairs)
            found.append([peak - 1.0] * vocab_size)
            found[-1][token_id] = peak
        return found

    def all_reduce(self, terms: Sequence[Array]) -> Array:
        """The sum of the ranks' terms, by way of a ring. Raises RanksDifferError."""
        import numpy as np

        ranks = [ring.RingRank(rank, self.num_ranks, each.ravel().tolist()) for rank, each in enumerate(terms)]
        self.num_sums += 1
        for rank in range(self.num_ranks):
            self.num_bytes_told[rank] += ring.bytes_sent(rank, self.num_ranks, terms[0].size, BYTES)
        for _ in range(2 * (self.num_ranks - 1)):
            messages = [rank.send() for rank in ranks]
            for number, message in enumerate(messages):
                self.num_bytes[number] += BYTES * len(message)
                ranks[(number + 1) % self.num_ranks].receive(message)
        results = [rank.result() for rank in ranks]
        for number, result in enumerate(results):
            if result != results[0]:
                raise RanksDifferError(f"rank {number} has another sum than rank 0")
        return np.array(results[0], np.float32).reshape(terms[0].shape)

    def _each(self, function: Callable[..., Array], *arguments: Any) -> Any:
        """A function of arrays: once for each rank, if one of its arguments is PerRank."""
        if not any(isinstance(each, PerRank) for each in arguments):
            return function(*arguments)
        own = [
            [each[rank] if isinstance(each, PerRank) else each for each in arguments] for rank in range(self.num_ranks)
        ]
        return PerRank(function(*each) for each in own)


class RankedExecutor(NumpyExecutor):
    """The bundled Qwen3 in float32, on `num_ranks` ranks. A learner's parts decide what each rank has."""

    num_ranks: ClassVar[int] = 1
    ops_cls: ClassVar[type[RankedOps]] = RankedOps

    def load(self) -> ModelInfo:
        """The model, and of its weights the part of each rank."""
        self.ranked = self.ops_cls(self.num_ranks)
        found = super().load()
        self.ranked.config = self.hf_config
        for name in list(self.weights):
            if (part := self.part_of(name)) is not None:
                self.weights[name] = part
        return found

    def array_module(self) -> RankedOps:
        """numpy_ops, for arrays of each rank."""
        return self.ranked

    def part_of(self, name: str) -> Any:
        """What each rank has of a weight; None for one that every rank has whole."""
        config, ranks, kind = self.hf_config, range(self.num_ranks), name.rpartition(".")[2]
        weight = self.weights[name]
        if kind == "q_proj":
            layer = linear.Linear(weight.tolist())
            return Columns(as_array(linear.column_shard(layer, rank, self.num_ranks).weight) for rank in ranks)
        if kind in ("k_proj", "v_proj"):
            own = [heads.kv_heads(config.num_key_value_heads, rank, self.num_ranks) for rank in ranks]
            return Columns(weight[each[0] * config.head_dim : (each[-1] + 1) * config.head_dim] for each in own)
        if kind == "gate_proj":
            return self.gate_and_up(name)
        if kind in ("o_proj", "down_proj"):
            layer = linear.Linear(weight.tolist())
            return Rows(as_array(linear.row_shard(layer, rank, self.num_ranks).weight) for rank in ranks)
        if kind == "embed_tokens":
            own = [heads.vocab_rows(config.vocab_size, rank, self.num_ranks) for rank in ranks]
            return Vocab(with_padding(weight, each) for each in own)
        return None

    def gate_and_up(self, name: str) -> Any:
        """That of gate; up follows, since a rank has both as one layer."""
        other = name.replace("gate_proj", "up_proj")
        layers = [linear.Linear(self.weights[each].tolist()) for each in (name, other)]
        ranks = range(self.num_ranks)
        merged = [as_array(linear.merged_shard(layers, rank, self.num_ranks).weight) for rank in ranks]
        self.weights[other] = Columns(each[len(each) // 2 :] for each in merged)
        return Columns(each[: len(each) // 2] for each in merged)


class TwoRanks(RankedExecutor):
    """On two ranks."""

    num_ranks = 2


class FourRanks(RankedExecutor):
    """On four ranks, of which two have the same KV head each."""

    num_ranks = 4
