STORY = (
    "How the keys are cut into blocks changes nothing, so the results must be equal. They are, but for the rounding."
)
CONCEPT = "A test states what must hold, not how it is done: a correct engine passes it."
EDITS = [
    (
        """        what = f"positions {begin} to {end - 1} in blocks {table} of {block_size}"
""",
        """        what = f"positions {begin} to {end - 1} in blocks {table} of {block_size}"
        other = lab.attend_one(query, *places([1], end, keys, values), [1], begin, end, 0.3)
        assert torch.equal(got, other), f"{what}: another result in one block of {end}"
""",
    ),
]
