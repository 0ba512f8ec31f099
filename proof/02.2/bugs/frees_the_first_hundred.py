STORY = "Only the first hundred blocks of a table are let go, as many as the tests of its author had."
CONCEPT = "A table may have thousands of blocks: they are walked, all of them."
EDITS = [
    (
        "reversed(table)",
        "reversed(table[:100])",
    ),
]
