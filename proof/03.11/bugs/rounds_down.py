STORY = (
    "The end of the tokens is rounded down to whole blocks. A token that does not fill its block is "
    "written into the shared one."
)
CONCEPT = "Several tokens may go into several shared blocks: each that is written is replaced, the others are not."
EDITS = [
    (
        "-(-num_tokens // self.block_size)",
        "num_tokens // self.block_size",
    ),
]
