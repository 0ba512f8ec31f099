STORY = (
    "The division drops the rest, so the last tokens have no slots. They are written past the end of the "
    "table, into a block that belongs to somebody else."
)
CONCEPT = "Tokens are rounded up to whole blocks."
EDITS = [
    ("-(-num_tokens // self.block_size)", "num_tokens // self.block_size"),
]
