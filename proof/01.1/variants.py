# === a_row_for_each_token
"""Copies out the row of every token first; then each picks one column of its own row, by take_along_axis."""

import numpy as np


def to_slots(block_tables, requests, positions, block_size):
    """The slot of each token."""
    rows = block_tables.take(requests, axis=0).astype(np.int64)
    starts = np.take_along_axis(rows * block_size, (positions // block_size)[:, None], axis=1)[:, 0]
    return starts + np.remainder(positions, block_size)


# === each_block_once
"""Looks each block of the step up once, however many tokens it gets, and hands its start to all of them."""

import numpy as np


def to_slots(block_tables, requests, positions, block_size):
    """The slot of each token."""
    pairs, block_of_token = np.unique(np.stack([requests, positions // block_size]), axis=1, return_inverse=True)
    starts = np.array([block_size * int(block_tables[r, c]) for r, c in pairs.T], np.int64)
    return starts[block_of_token.reshape(-1)] + positions % block_size


# === flat_table
"""Reads the table as one long row, at request * width + column. What would be behind its end is its last column."""

import numpy as np


def to_slots(block_tables, requests, positions, block_size):
    """The slot of each token."""
    columns, offsets = np.divmod(positions, block_size)
    block_ids = np.take(block_tables.ravel(), requests * block_tables.shape[1] + columns, mode="clip")
    return np.multiply(block_ids, block_size, dtype=np.int64) + offsets


# === one_request_at_a_time
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


# === plain_loop
"""A loop over the tokens with plain Python integers, instead of looking all of them up at once."""

import numpy as np


def to_slots(block_tables, requests, positions, block_size):
    """The slot of each token."""
    slots = np.empty(len(positions), dtype=np.int64)
    for token, (request, position) in enumerate(zip(requests.tolist(), positions.tolist())):
        column, offset = divmod(position, block_size)
        slots[token] = int(block_tables[request, column]) * block_size + offset
    return slots
