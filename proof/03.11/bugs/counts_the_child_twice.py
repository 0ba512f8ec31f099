STORY = (
    "The child is counted by touch(), and once more by hand. When both are gone the blocks are still held, for ever."
)
CONCEPT = "What is counted is what is held, after every fork, copy and free; in the end all is free."
EDITS = [
    (
        ("            self.block_pool.touch(table)\n"),
        (
            "            self.block_pool.touch(table)\n"
            "            for block in table:\n"
            "                block.ref_cnt += 1\n"
        ),
    ),
]
