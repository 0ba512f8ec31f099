STORY = (
    "allocate() waits until enough blocks are free. While it waits no request can go on, so none ends, and "
    "nothing is ever given back."
)
CONCEPT = "A release is room for the next one, though allocate() is not told of it."
EDITS = [
    ("        if (needed - held) * ", "        while (needed - held) * "),
    (
        """            return False
        self.num_blocks[""",
        """            pass
        self.num_blocks[""",
    ),
]
