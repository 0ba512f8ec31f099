STORY = "The writer lets go of all its blocks instead of the one that it leaves."
CONCEPT = "What is counted is what is held, after every fork, copy and free; in the end all is free."
EDITS = [
    (
        ("                self.block_pool.free_blocks([table[i]])\n"),
        ("                self.block_pool.free_blocks(table)\n"),
    ),
]
