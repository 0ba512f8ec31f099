"""Lab 07.4: A batch by deltas (30 minutes). What must hold is in contract.md."""

from collections.abc import Sequence

from labkit import todo
from labkit.steps.batch import Buffer, PADDING


class DeltaBatch:
    """The running requests, one in each of the first rows: input_ids, positions, and a row of block_tables.

    The buffers are made once. Row i of block_tables is [i * max_blocks, (i + 1) * max_blocks).
    """

    def __init__(self, max_num_seqs: int, max_blocks: int) -> None:
        todo("07.4")

    def add(self, request_id: str, token_id: int, position: int, block_ids: Sequence[int]) -> None:
        """A new request takes the row behind the last one."""
        todo("07.4")

    def extend(self, request_id: str, block_ids: Sequence[int]) -> None:
        """Put block ids behind those that a request has."""
        todo("07.4")

    def advance(self, request_id: str, token_id: int) -> None:
        """The request computes this token next, one position further."""
        todo("07.4")

    def remove(self, request_id: str) -> None:
        """The last row takes the place of the request's, and the last row is as if it had never been used.

        Raises KeyError for a request that is not in the batch; then nothing changes.
        """
        todo("07.4")
