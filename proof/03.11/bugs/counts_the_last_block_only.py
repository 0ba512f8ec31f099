STORY = "Only the last block will be written, so only that one is counted. The others are given back twice."
CONCEPT = "What is counted is what is held, after every fork, copy and free; in the end all is free."
EDITS = [
    (
        ("            self.block_pool.touch(table)\n"),
        ("            self.block_pool.touch(table[-1:])\n"),
    ),
]
