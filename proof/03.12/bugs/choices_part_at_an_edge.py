STORY = (
    "All prompts with several choices fill their last block. Their texts part in new blocks, and nothing needs copying."
)
CONCEPT = "Choices of one prompt part inside a block: one that writes there may not write for the others."
EDITS = [
    (
        """    for length in (8, 6):
""",
        """    for length in (8, 12):
""",
    ),
    (
        """        run.add(name, 5, max_tokens=6, choices=2)
""",
        """        run.add(name, 6, max_tokens=6, choices=2)
""",
    ),
]
