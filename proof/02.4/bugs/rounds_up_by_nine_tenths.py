STORY = (
    "Adding 0.9 and cutting rounds up, in all the examples that were tried. With 16 tokens to a block the "
    "remainder of one is lost."
)
CONCEPT = "Tokens are rounded up to whole blocks."
EDITS = [
    ("-(-num_tokens // self.block_size)", "int(num_tokens / self.block_size + 0.9)"),
]
