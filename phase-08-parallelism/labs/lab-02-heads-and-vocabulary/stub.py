"""Lab 08.2: Split heads and vocabulary (35 minutes). What must hold is in contract.md."""

from collections.abc import Sequence
from math import inf, isnan, lcm

from labkit import todo
from labkit.ranks.heads import Row, VOCAB_PADDING
from mini_vllm.errors import InvalidParameterError


def query_heads(num_heads: int, rank: int, size: int) -> range:
    """The query heads of a rank. Raises InvalidParameterError for a number of heads that is no multiple of `size`."""
    todo("08.2")


def kv_heads(num_kv_heads: int, rank: int, size: int) -> range:
    """The KV heads that the query heads of a rank read: its part of them, or one that several ranks have.

    Raises InvalidParameterError if neither of the two numbers is a multiple of the other.
    """
    todo("08.2")


def vocab_rows(vocab_size: int, rank: int, size: int) -> range:
    """The token ids whose rows of the table are a rank's. The last ones may be padding: token ids from vocab_size on.

    All ranks have equally many, and all of them together a multiple of VOCAB_PADDING, as few as there can be.
    """
    todo("08.2")


def embed(token_ids: Sequence[int], table: Sequence[Row], rank: int) -> list[Row]:
    """The term of a rank in the sum that gives each token its row: zeros for tokens of the other ranks.

    table: the rows of this rank, of which every rank has equally many.
    """
    todo("08.2")


def best_of(logits: Row, rank: int, vocab_size: int) -> tuple[float, int]:
    """The largest logit of a rank, and its token id, for one sample. Among equals the lowest id; NaN is the largest.

    logits: one for each row of the rank, of which every rank has equally many. A rank of padding alone has -inf, and
    vocab_size.
    """
    todo("08.2")


def best_of_all(pairs: Sequence[tuple[float, int]]) -> int:
    """The token id of the largest logit, from what best_of gives on each rank, in the order of the ranks."""
    todo("08.2")
