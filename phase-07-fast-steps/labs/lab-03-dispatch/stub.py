"""Lab 07.3: Which graph (25 minutes). What must hold is in contract.md."""

from collections.abc import Sequence

from labkit import todo
from labkit.steps.dispatch import Key


def is_uniform_decode(num_scheduled_tokens: Sequence[int], query_len: int) -> bool:
    """Whether each request has exactly query_len tokens in the step: its newest one and all of its drafts."""
    todo("07.3")


class Dispatcher:
    """mode: one of MODES. sizes: the numbers of tokens that graphs are recorded for, ascending multiples of query_len.

    query_len: tokens of a request in a uniform decode, 1 without drafts.
    """

    def __init__(self, mode: str, sizes: Sequence[int], max_num_seqs: int, query_len: int = 1) -> None:
        todo("07.3")

    def dispatch(self, num_scheduled_tokens: Sequence[int]) -> tuple[str, Key | None]:
        """ "full" or "piecewise" and the key of a graph that is recorded, or "none" and None."""
        todo("07.3")
