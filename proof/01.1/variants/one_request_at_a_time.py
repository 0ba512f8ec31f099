"""Goes over the rows of the table and fills in the tokens of each, however they are scattered over the batch."""

import numpy as np


def to_slots(block_tables, requests, positions, block_size):
    """The slot of each token."""
    slots = np.full(positions.shape, -1, dtype=np.int64)
    for request, row in enumerate(block_tables):
        mine = np.flatnonzero(requests == request)
        ids = row[positions[mine] // block_size].astype(np.int64)
        slots[mine] = ids * block_size + positions[mine] % block_size
    return slots
