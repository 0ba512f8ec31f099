"""Attention heads and a vocabulary, shared out among ranks.

The reference of lab 08.2. Source: QKVParallelLinear in vllm/model_executor/layers/linear.py and VocabParallelEmbedding
in vllm/model_executor/layers/vocab_parallel_embedding.py. The engine's own is mini_vllm/parallel/shard.py.
"""

from collections.abc import Sequence
from math import inf, isnan, lcm

from mini_vllm.errors import InvalidParameterError

VOCAB_PADDING = 64  # a vocabulary is padded to a multiple; vLLM: DEFAULT_VOCAB_PADDING_SIZE

Row = Sequence[float]


def query_heads(num_heads: int, rank: int, size: int) -> range:
    """The query heads of a rank. Raises InvalidParameterError for a number of heads that is no multiple of `size`."""
    if num_heads % size:
        raise InvalidParameterError(f"{num_heads} query heads cannot be shared out among {size} ranks")
    return range(rank * num_heads // size, (rank + 1) * num_heads // size)


def kv_heads(num_kv_heads: int, rank: int, size: int) -> range:
    """The KV heads that the query heads of a rank read: its part of them, or one that several ranks have.

    Raises InvalidParameterError if neither of the two numbers is a multiple of the other.
    """
    if max(num_kv_heads, size) % min(num_kv_heads, size):
        raise InvalidParameterError(f"{num_kv_heads} KV heads can be neither shared out among {size} ranks nor copied")
    first = rank * num_kv_heads // size
    return range(first, first + max(1, num_kv_heads // size))


def vocab_rows(vocab_size: int, rank: int, size: int) -> range:
    """The token ids whose rows of the table are a rank's. The last ones may be padding: token ids from vocab_size on.

    All ranks have equally many, and all of them together a multiple of VOCAB_PADDING, as few as there can be.
    """
    multiple = lcm(VOCAB_PADDING, size)
    padded = -(-vocab_size // multiple) * multiple
    return range(rank * padded // size, (rank + 1) * padded // size)


def embed(token_ids: Sequence[int], table: Sequence[Row], rank: int) -> list[Row]:
    """The term of a rank in the sum that gives each token its row: zeros for tokens of the other ranks.

    table: the rows of this rank, of which every rank has equally many.
    """
    first, zeros = rank * len(table), [0.0] * len(table[0])
    return [table[token_id - first] if 0 <= token_id - first < len(table) else zeros for token_id in token_ids]


def best_of(logits: Row, rank: int, vocab_size: int) -> tuple[float, int]:
    """The largest logit of a rank, and its token id, for one sample. Among equals the lowest id; NaN is the largest.

    logits: one for each row of the rank, of which every rank has equally many. A rank of padding alone has -inf, and
    vocab_size.
    """
    first, best = rank * len(logits), (-inf, vocab_size)
    for token_id, value in enumerate(logits[: max(0, vocab_size - first)], start=first):
        if best[1] == vocab_size or is_larger(value, best[0]):
            best = value, token_id
    return best


def best_of_all(pairs: Sequence[tuple[float, int]]) -> int:
    """The token id of the largest logit, from what best_of gives on each rank, in the order of the ranks."""
    best = pairs[0]
    for pair in pairs[1:]:
        if is_larger(pair[0], best[0]):
            best = pair
    return best[1]


def is_larger(value: float, other: float) -> bool:
    """Whether a value is larger than another one, where NaN is the largest of all."""
    return value > other or (isnan(value) and not isnan(other))
