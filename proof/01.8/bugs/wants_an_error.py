STORY = "A test wants an error for a position that the table does not reach. Nothing says that there is one."
CONCEPT = "A test for a bug is green where the bug is not, however the engine is written."
EDITS = [
    (
        "def test_the_largest_score_in_any_block(lab):\n",
        'def test_too_far(lab):\n    table, request, position = torch.tensor([[3], [5]]).int().numpy(), torch.tensor([0]).numpy(), torch.tensor([4]).numpy()\n    try:\n        lab.to_slots(table, request, position, 4)\n    except IndexError:\n        return\n    raise AssertionError("no error")\n\n\ndef test_the_largest_score_in_any_block(lab):\n',
    ),
]
