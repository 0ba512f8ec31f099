STORY = (
    "The result must be that of the definition to the last bit. Sums in another order are as right, and end in "
    "other bits."
)
CONCEPT = "A test states what must hold, not how it is done: a correct engine passes it."
EDITS = [
    (
        """    assert error <= bound, f"{what}: off by {error:.2g}, allowed is {bound:.2g}"
""",
        """    assert error <= bound, f"{what}: off by {error:.2g}, allowed is {bound:.2g}"
    assert torch.equal(got, definition(query, keys, values, scale).float()), f"{what}: the last bits differ"
""",
    ),
]
