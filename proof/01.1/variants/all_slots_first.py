"""Writes out every slot that a request owns, in order; a token then picks the slot of its position."""

import numpy as np


def to_slots(block_tables, requests, positions, block_size):
    """The slot of each token."""
    starts = block_tables.astype(np.int64) * block_size
    owned = (starts[:, :, None] + np.arange(block_size)).reshape(len(block_tables), -1)
    return owned[requests, positions]
