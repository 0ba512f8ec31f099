STORY = (
    "The first block to publish is the one that holds the last computed token. If that one is full it has its "
    "name already, and the pool stops at the second one."
)
CONCEPT = "A block is published once, with the slot of its last token, whichever call brought the block."
EDITS = [
    ("start, end = num_computed // block_size", "start, end = max(num_computed - 1, 0) // block_size"),
]
