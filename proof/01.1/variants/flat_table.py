"""Reads the table as one long row, at request * width + column."""

import numpy as np


def to_slots(block_tables, requests, positions, block_size):
    """The slot of each token."""
    columns, offsets = np.divmod(positions, block_size)
    block_ids = np.take(block_tables.ravel(), requests * block_tables.shape[1] + columns)
    return np.multiply(block_ids, block_size, dtype=np.int64) + offsets
