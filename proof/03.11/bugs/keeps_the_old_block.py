STORY = "The writer takes its new block and stays counted in the old one. It is never given back."
CONCEPT = "What is counted is what is held, after every fork, copy and free; in the end all is free."
EDITS = [
    (
        ("                self.block_pool.free_blocks([table[i]])\n"),
        "",
    ),
]
