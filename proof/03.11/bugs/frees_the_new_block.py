STORY = "The table is changed first, and then what stands there is let go: the new block."
CONCEPT = "What is counted is what is held, after every fork, copy and free; in the end all is free."
EDITS = [
    (
        ("                self.block_pool.free_blocks([table[i]])\n                table[i] = copy\n"),
        ("                table[i] = copy\n                self.block_pool.free_blocks([table[i]])\n"),
    ),
]
