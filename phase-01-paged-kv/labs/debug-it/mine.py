"""Lab 01.8: Debug it: the text goes wrong after a block (45 minutes). You find the culprit, and write the tests.

`lab evidence 01.8` shows the cases; what must hold is in contract.md. Name the culprit of each. Then write tests that
catch it and its like: each is a function test_...(lab), green on every correct engine. The first test is an example,
and yours to change.
"""

import torch

from labkit import check, todo

CPU = torch.device("cpu")


def test_slots_of_the_first_block(lab):
    """One request, and tokens that all lie in its first block."""
    metadata = lab.AttentionMetadata.pack([lab.PackedRequest([3, 1], 0, 4)], 4, CPU)
    check()("slots of positions 0 to 3", metadata.slot_mapping.tolist(), equals=[12, 13, 14, 15])


CASE_A = {"culprit": "", "step": None, "why": ""}  # "module:Class.function", a number, words
CASE_B = {"culprit": "", "step": None, "why": ""}  # "module:Class.function", a number, words


def test_what_catches_it(lab):
    """Yours: rename it, and write more of them."""
    todo("01.8")
