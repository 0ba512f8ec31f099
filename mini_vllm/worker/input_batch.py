"""InputBatch: what the runner remembers of its requests, so that a step needs to bring only what is
new.

Block tables and, in a SamplingTable, what sampling needs live here from the step in which a request
is new until the step that names it among the finished ones. Laying a step out for the model is
arithmetic on what is remembered here. Source: InputBatch (vllm/v1/worker/gpu_input_batch.py) and
MultiGroupBlockTable (vllm/v1/worker/block_table.py).
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mini_vllm.attention import AttentionMetadata
from mini_vllm.attention.metadata import ragged, refuse_too_long, to_device
from mini_vllm.spec_decode.verify import PADDING
from mini_vllm.step import BlockTable, SamplingRow, StepInput
from mini_vllm.worker.feed import PLACEHOLDER
from mini_vllm.worker.sampling.table import SamplingTable

Array = npt.NDArray[np.int32]
Numbers = npt.NDArray[np.int64]


NONE_FED = np.zeros((2, 0), np.int64)


class PackedStep(NamedTuple):
    """A step as the model takes it: T tokens end to end."""

    input_ids: Tensor  # [T] int64
    metadata: list[AttentionMetadata]  # of each group of layers: they differ in the block tables
    sample_rows: Tensor  # [S] int64: the rows whose logits are wanted
    sample_positions: list[int]  # [S]: the index that each sampled token will have in its sequence
    # [2, n]: tokens that only the device knows, and the rows of the SamplingTable that have them
    fed: Numbers = NONE_FED


class BlockTables:
    """The block tables of all requests: one row of a matrix [rows, groups, columns] int32 for each.

    The matrix is persistent: a step writes the new ids into it and reads the rows of its requests.
    It can grow.
    """

    def __init__(self, num_groups: int) -> None:
        self._ids: Array = np.zeros((8, num_groups, 8), np.int32)
        self._num_blocks: Numbers = np.zeros((8, num_groups), np.int64)

    def append(self, rows: Sequence[int], tables: Sequence[Sequence[BlockTable]]) -> None:
        """Put block ids, by group, behind those that each of these rows has. No row may stand there
        twice.
        """
        num_groups = self._num_blocks.shape[1]
        flat = [*chain.from_iterable(tables)]
        counts = np.array([*map(len, flat)])
        self._make_room(max(rows) + 1, 0)
        starts = self._num_blocks[rows]
        self._num_blocks[rows] = ends = starts + counts.reshape(starts.shape)
        self._make_room(0, ends.max())
        owner, place = ragged(counts)
        at = np.repeat(rows, num_groups)[owner], owner % num_groups, starts.ravel()[owner] + place
        self._ids[at] = np.fromiter(chain.from_iterable(flat), np.int32)

    def clear(self, row: int) -> None:
        self._num_blocks[row : row + 1] = 0  # or nothing, where it never had any

    def num_blocks(self, rows: Sequence[int] | Numbers) -> Numbers:
        """The lengths [B, groups] of the tables of these rows."""
        return self._num_blocks[rows]

    def gather(self, rows: Sequence[int] | Numbers, num_columns: int) -> Array:
        """The first ids of these rows [B, groups, num_columns]; what is behind a table's end means
        nothing.
        """
        return self._ids[rows, :, :num_columns]

    def _make_room(self, num_rows: int, num_columns: int) -> None:
        have_rows, _, have_columns = self._ids.shape
        if num_rows <= have_rows and num_columns <= have_columns:
            return
        rows, columns = (
            have if needed <= have else max(needed, 2 * have)
            for needed, have in ((num_rows, have_rows), (num_columns, have_columns))
        )
        more_rows, no_groups = (0, rows - have_rows), (0, 0)
        self._ids = np.pad(self._ids, (more_rows, no_groups, (0, columns - have_columns)))
        self._num_blocks = np.pad(self._num_blocks, (more_rows, no_groups))


class InputBatch:
    """The requests that one runner knows. Block tables are by group of layers."""

    def __init__(
        self,
        block_size: int,
        device: torch.device,
        num_groups: int = 1,
        sampling_device: torch.device | None = None,
    ) -> None:
        """device: of what pack() makes; sampling_device: where tokens are sampled, if elsewhere."""
        self.block_size = block_size
        self.device = device
        self.num_groups = num_groups
        self.sampling = SamplingTable(sampling_device or device)
        self.clear()

    def clear(self) -> None:
        """Forget every request."""
        self.block_tables = BlockTables(self.num_groups)
        self._rows: dict[str, int] = {}
        self._free_rows: list[int] = []

    @property
    def sampling_rows(self) -> Mapping[str, SamplingRow]:
        """How each request samples."""
        return self.sampling.rows

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._rows

    def update(self, step: StepInput) -> None:
        """Take in what is new: ended requests, new requests, new block ids, and the tokens that
        penalties look at.
        """
        if step.forget_all:
            self.clear()
        for request_id in step.finished_req_ids:
            self._remove(request_id)
        for request_id in step.new_rows:
            self._remove(request_id)
            self._rows[request_id] = self._free_rows.pop() if self._free_rows else len(self._rows)
        if step.new_block_ids:
            rows = [self._rows[request_id] for request_id in step.new_block_ids]
            self.block_tables.append(rows, [*step.new_block_ids.values()])
        self.sampling.update(step)

    def pack(self, step: StepInput) -> PackedStep:
        """Lay the chunks of a step end to end.

        In NumPy, since every step may have hundreds of requests.

        Raises KeyError for a request that no step has brought, InvalidParameterError for one with
        too few blocks.
        """
        rows = np.array([self._rows[request_id] for request_id in step.req_ids])
        num_computed_tokens = np.array(step.num_computed_tokens, np.int64)
        query_lens = np.array(step.num_scheduled_tokens, np.int64)
        seq_lens, size = num_computed_tokens + query_lens, self.block_size
        refuse_too_long(self.block_tables.num_blocks(rows).min(1), seq_lens, size)
        tables = self.block_tables.gather(rows, -(-int(seq_lens.max()) // size))
        metadata = AttentionMetadata.of_groups(seq_lens, query_lens, tables, size, self.device)
        sample_rows = np.array(step.sample_rows, np.int64)
        ends = query_lens.cumsum()
        owner = ends.searchsorted(sample_rows, side="right")
        positions = (seq_lens - ends)[owner] + sample_rows
        token_ids = np.array(step.token_ids, np.int64)
        fed = self._fed(step, token_ids, ends)
        token_ids[fed[0]] = 0
        assert token_ids.min(initial=0) >= PADDING, f"token id {min(token_ids)} stands for no token"
        return PackedStep(
            # padding is computed, and never accepted
            to_device(token_ids.clip(min=0), self.device),
            metadata,
            to_device(sample_rows, self.device),
            (positions + 1).tolist(),
            fed,
        )

    def _fed(self, step: StepInput, token_ids: Numbers, ends: Numbers) -> Numbers:
        """Where chunks end with a token that a step in flight samples, and whose it is."""
        (chunks,) = (token_ids[ends - 1] == PLACEHOLDER).nonzero()
        rows = [self.sampling.row_of[step.req_ids[i]] for i in chunks.tolist()]
        return np.array([ends[chunks] - 1, rows], np.int64)

    def known_token_ids(
        self, request_ids: Sequence[str], positions: Sequence[int]
    ) -> dict[int, list[int]]:
        """By index: all tokens before that position, for each request whose penalties look at
        them. The sampler reads them on the device; this waits for it.
        """
        looking_back = self.sampling.looking_back
        return {
            i: self.sampling.tokens[looking_back[request_id], :position].tolist()
            for i, (request_id, position) in enumerate(zip(request_ids, positions, strict=True))
            if request_id in looking_back
        }

    def _remove(self, request_id: str) -> None:
        row = self._rows.pop(request_id, None)
        if row is None:
            return
        self._free_rows.append(row)
        self.block_tables.clear(row)
