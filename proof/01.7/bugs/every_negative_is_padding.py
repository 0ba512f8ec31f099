STORY = "The reference skips all negative slots, so the test has -2 for one. The law knows -1 alone."
CONCEPT = "A test states what must hold, not how it is done: a correct engine passes it."
EDITS = [
    (
        "slots = [9, -1, 6, 2, -1, 10]",
        "slots = [9, -1, 6, 2, -2, 10]",
    ),
    (
        """        if slot != -1:
""",
        """        if slot >= 0:
""",
    ),
]
