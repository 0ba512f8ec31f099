STORY = (
    "The blocks are counted with a division that rounds to the nearest. A block that is less than half used is "
    "forgotten."
)
CONCEPT = "Tokens are rounded up to whole blocks."
EDITS = [
    ("-(-num_tokens // self.block_size)", "round(num_tokens / self.block_size)"),
]
