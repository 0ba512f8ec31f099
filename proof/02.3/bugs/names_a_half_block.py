STORY = (
    "The last block gets a name although it is not full, so that nothing is wasted. The rest of the block is "
    "written later, and whoever finds it reads tokens that are not his."
)
CONCEPT = "A block has a name when it is full, and not before."
EDITS = [
    ("request.num_tokens // size", "-(-request.num_tokens // size)"),
]
