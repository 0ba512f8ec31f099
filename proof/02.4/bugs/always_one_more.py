STORY = (
    "`n // size + 1` is right for every length but a multiple of the size. Each such request holds a block "
    "that it does not use yet, and one that would fit exactly waits for ever."
)
CONCEPT = "Tokens are rounded up to whole blocks."
EDITS = [
    ("-(-num_tokens // self.block_size)", "(num_tokens // self.block_size + 1)"),
]
