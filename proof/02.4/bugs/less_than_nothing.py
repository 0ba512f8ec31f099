STORY = (
    "A request that has room to spare has a price below nothing. Added up over the requests of a step, it "
    "makes blocks appear that do not exist."
)
CONCEPT = "What the table has is paid already, and the price is never below nothing."
EDITS = [
    (
        "max(-(-num_tokens // self.block_size) - len(table) - len(computed_blocks), 0)",
        "-(-num_tokens // self.block_size) - len(table) - len(computed_blocks)",
    ),
]
