"""Slots by a recursion over the table."""

import torch

from labkit import check, raises

STORY = (
    "The law of slots is written as a recursion: without its first block, the table is that of a shorter request. "
    "Where it ends was forgotten, so the test calls itself on every engine."
)
CONCEPT = "A test states what must hold, not how it is done: a correct engine passes it."


def slot(table, p, size):
    """The slot of position p: that of position p - size in the rest of the table."""
    return slot(table[1:], p - size, size)


def test_slots(lab):
    request = lab.PackedRequest([7, 0, 5], 0, 7)
    slots = lab.AttentionMetadata.pack([request], 3, torch.device("cpu")).slot_mapping.tolist()
    check()("slots of a prompt", slots, equals=[slot(request.block_ids, p, 3) for p in request.positions])
