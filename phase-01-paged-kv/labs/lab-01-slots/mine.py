"""Lab 01.1: From block table to slots (15 minutes). What must hold is in contract.md."""

import numpy as np
import numpy.typing as npt

from labkit import todo


def to_slots(
    block_tables: npt.NDArray[np.int32],
    requests: npt.NDArray[np.int64],
    positions: npt.NDArray[np.int64],
    block_size: int,
) -> npt.NDArray[np.int64]:
    """The slot of each token: requests[t] says whose row of block_tables [B, max_blocks],
    positions[t] where in it.

    A slot is block_id * block_size + offset. Source: BlockTable.compute_slot_mapping in
    vllm/v1/worker/block_table.py.
    """
    todo("01.1")
