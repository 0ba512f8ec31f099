STORY = (
    "Parent and child keep their names of blocks in one list. The block that the second one fills is "
    "published under the tokens of the first."
)
CONCEPT = "The prefix cache finds each future under its own tokens, in the block where it was written."
EDITS = [
    (
        ("        child.block_hashes = list(parent.block_hashes)\n"),
        ("        child.block_hashes = parent.block_hashes\n"),
    ),
]
