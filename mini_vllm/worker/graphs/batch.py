"""What an InputBatch remembers beside its block tables: how much of them the device has."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mini_vllm.attention.metadata import ragged
from mini_vllm.step import StepInput
from mini_vllm.worker.input_batch import BlockTables, InputBatch, PackedStep


class SyncedTables(BlockTables):
    """Block tables that know which ids were taken from them."""

    def __init__(self, num_groups: int) -> None:
        super().__init__(num_groups)
        self._num_taken: npt.NDArray[np.int64] = np.zeros_like(self._num_blocks)

    def clear(self, row: int) -> None:
        super().clear(row)
        self._num_taken[row : row + 1] = 0

    def take_new(self, group: int, rows: Sequence[int]) -> npt.NDArray[np.int64]:
        """The ids of these rows in a group that no call has taken: [n, 3], each a row, a column and
        an id.
        """
        more = (0, len(self._num_blocks) - len(self._num_taken)), (0, 0)
        self._num_taken = np.pad(self._num_taken, more) if more[0][1] else self._num_taken
        taken, num_blocks = self._num_taken[rows, group], self._num_blocks[rows, group]
        self._num_taken[rows, group] = num_blocks
        owner, place = ragged(num_blocks - taken)
        row, column = np.array(rows, np.int64)[owner], taken[owner] + place
        return np.stack((row, column, self._ids[row, group, column]), axis=1)


class GraphBatch(InputBatch):
    """rows: of the block tables, by request of the step that was packed last."""

    synced: SyncedTables

    def clear(self) -> None:
        super().clear()
        self.block_tables = self.synced = SyncedTables(self.num_groups)
        self.rows: list[int] = []
        self.uniform_query_len = 0

    def pack(self, step: StepInput) -> PackedStep:
        self.rows = [self._rows[request_id] for request_id in step.req_ids]
        self.uniform_query_len = step.uniform_query_len
        return super().pack(step)
