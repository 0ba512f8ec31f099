STORY = (
    "The child's table lists the blocks, and nobody counts it as a holder. Its parent believes to be "
    "alone and writes over what the child reads; when the parent ends, the blocks are free."
)
CONCEPT = "What is counted is what is held, after every fork, copy and free; in the end all is free."
EDITS = [
    (
        ("            self.block_pool.touch(table)\n"),
        "",
    ),
]
