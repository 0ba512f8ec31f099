STORY = "Full blocks are held once more, for the prefix cache. It needs no holder: they are never free again."
CONCEPT = "What is counted is what is held, after every fork, copy and free; in the end all is free."
EDITS = [
    (
        ("            self.block_pool.touch(table)\n"),
        (
            "            self.block_pool.touch(table)\n"
            "            self.block_pool.touch(table[: parent.num_computed_tokens // self.block_size])\n"
        ),
    ),
]
