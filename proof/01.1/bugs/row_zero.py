STORY = (
    "A learner tested with one request and left row 0 in the code. Every other request writes into the blocks of "
    "the first."
)
CONCEPT = "Each token looks in the table of its own request."
EDITS = [
    (
        "block_tables[requests, positions // block_size]",
        "block_tables[0, positions // block_size]",
    ),
]
