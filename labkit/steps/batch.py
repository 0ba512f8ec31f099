"""A batch that stays in its buffers from step to step, and is changed by what is new: rows, tokens and block ids.

The reference of lab 07.4. Source: InputBatch in vllm/v1/worker/gpu_input_batch.py (add_request, remove_request,
condense).
"""

from collections.abc import Sequence
from typing import Any

PADDING = -1  # in a block table, behind the blocks of a request


class Buffer(list[int]):
    """Numbers at a fixed place, of which each write is an upload. It counts the entries that are written."""

    num_written = 0

    def __setitem__(self, place: Any, value: Any) -> None:
        self.num_written += len(value) if isinstance(place, slice) else 1
        super().__setitem__(place, value)


class DeltaBatch:
    """The running requests, one in each of the first rows: input_ids, positions, and a row of block_tables.

    The buffers are made once. Row i of block_tables is [i * max_blocks, (i + 1) * max_blocks).
    """

    def __init__(self, max_num_seqs: int, max_blocks: int) -> None:
        self.max_blocks = max_blocks
        self.req_ids: list[str] = []
        self.input_ids = Buffer([0] * max_num_seqs)
        self.positions = Buffer([0] * max_num_seqs)
        self.block_tables = Buffer([PADDING] * (max_num_seqs * max_blocks))
        self._rows: dict[str, int] = {}
        self._num_blocks: dict[str, int] = {}

    def add(self, request_id: str, token_id: int, position: int, block_ids: Sequence[int]) -> None:
        """A new request takes the row behind the last one."""
        row = self._rows[request_id] = len(self.req_ids)
        self.req_ids.append(request_id)
        self._num_blocks[request_id] = 0
        self.input_ids[row], self.positions[row] = token_id, position
        self.extend(request_id, block_ids)

    def extend(self, request_id: str, block_ids: Sequence[int]) -> None:
        """Put block ids behind those that a request has."""
        start = self._rows[request_id] * self.max_blocks + self._num_blocks[request_id]
        if block_ids:
            self.block_tables[start : start + len(block_ids)] = block_ids
        self._num_blocks[request_id] += len(block_ids)

    def advance(self, request_id: str, token_id: int) -> None:
        """The request computes this token next, one position further."""
        row = self._rows[request_id]
        self.input_ids[row] = token_id
        self.positions[row] += 1

    def remove(self, request_id: str) -> None:
        """The last row takes the place of the request's, and the last row is as if it had never been used.

        Raises KeyError for a request that is not in the batch; then nothing changes.
        """
        row, last = self._rows.pop(request_id), len(self.req_ids) - 1
        num_blocks, moved = self._num_blocks.pop(request_id), self.req_ids.pop()
        start, end = row * self.max_blocks, last * self.max_blocks
        if row != last:
            num_moved = self._num_blocks[moved]
            self.req_ids[row], self._rows[moved] = moved, row
            self.input_ids[row], self.positions[row] = self.input_ids[last], self.positions[last]
            most = max(num_moved, num_blocks)
            self.block_tables[start : start + most] = self.block_tables[end : end + most]
            num_blocks = num_moved
        self.input_ids[last] = self.positions[last] = 0
        self.block_tables[end : end + num_blocks] = [PADDING] * num_blocks
