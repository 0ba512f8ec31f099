STORY = "NumPy raises an error behind the end of a row, and the test wants it. No law says what such a position is."
CONCEPT = "A test states what must hold, not how it is done: a correct engine passes it."
EDITS = [
    (
        "# --- writing ------",
        """def test_past_the_row(lab):
    tables = torch.tensor([[5, 3], [2, 4]], dtype=torch.int32).numpy()
    request, position = torch.tensor([0]).numpy(), torch.tensor([8]).numpy()
    with raises(IndexError, "two blocks of 4 have no position 8"):
        lab.to_slots(tables, request, position, 4)


# --- writing ------""",
    ),
]
