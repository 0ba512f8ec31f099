STORY = (
    "After a copy one holder is thought to be left. If there were three, the second one frees a block "
    "that the third reads."
)
CONCEPT = "What is counted is what is held, after every fork, copy and free; in the end all is free."
EDITS = [
    (
        ("                self.block_pool.free_blocks([table[i]])\n"),
        ("                table[i].ref_cnt = 1\n"),
    ),
]
