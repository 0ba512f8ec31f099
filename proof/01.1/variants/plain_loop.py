"""A loop over the tokens with plain Python integers, instead of looking all of them up at once."""

import numpy as np


def to_slots(block_tables, requests, positions, block_size):
    """The slot of each token."""
    slots = np.empty(len(positions), dtype=np.int64)
    for token, (request, position) in enumerate(zip(requests.tolist(), positions.tolist())):
        column, offset = divmod(position, block_size)
        slots[token] = int(block_tables[request, column]) * block_size + offset
    return slots
